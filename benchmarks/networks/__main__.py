"""``python -m benchmarks.networks --models DIR``: fit, fit on one half of the rows, or leave one network out.

Without a mode: the fit over all rows. ``--half a``: over that half only, with the errors of both halves.
``--leave-one-out``: for each network, fitted on the others, with its errors. ``--report FILE``: both, as a page.
The fit interpolates (`benchmarks.networks.fit`); times reported are simulated at the fitted values, or with
``--interpolate`` interpolated too, which needs no further simulation.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ascend_sim.cli.table import render
from ascend_sim.profiling.accuracy import median, quantile
from ascend_sim.profiling.calibration import ModelRow, half_of, read_rows
from ascend_sim.soc import load_soc

from .fit import Effects, combined, search
from .page import page
from .parameters import PARAMETERS
from .samples import Samples

ROWS = Path(__file__).parents[1] / "data" / "models_calibration.csv"


def changes_of(soc: str) -> list[dict[str, float]]:
    """What the rows of a chip are simulated with: all parameters at ``at``, and one after the other at its probes."""
    parameters = PARAMETERS[soc]
    base = combined(parameters, [p.at for p in parameters])
    return [base, *({**base, **p.changes(v)} for p in parameters for v in p.probes)]


def effects_of(rows: Sequence[ModelRow], samples: Samples) -> Effects:
    """Simulate the rows of one chip around the values ``at`` of its parameters, whatever its file holds."""
    soc = load_soc(rows[0].soc).name
    parameters = PARAMETERS[soc]
    values = tuple(p.at for p in parameters)
    levels = [p.probes for p in parameters]
    changes = changes_of(soc)
    found = samples.times((row, changes) for row in rows)
    table = np.asarray([found[row.id] for row in rows]).T
    at, all_levels, times = 1, [], []
    for value, level in zip(values, levels, strict=True):
        places = sorted([(value, 0), *((v, at + i) for i, v in enumerate(level))])
        all_levels.append(tuple(v for v, _ in places))
        times.append(table[[place for _, place in places]])
        at += len(level)
    return Effects(tuple(rows), parameters, values, table[0], tuple(all_levels), tuple(times))


def errors(rows: Sequence[ModelRow], us: Sequence[float]) -> list[float]:
    return [t / row.us - 1 for row, t in zip(rows, us, strict=True)]


def simulated(effects: Effects, rows: Sequence[ModelRow], values: Sequence[float],
              samples: Samples | None) -> list[float]:  # fmt: skip
    """Times of some of the rows at these parameter values, us; without ``samples`` interpolated."""
    if samples is None:
        every = dict(zip((r.id for r in effects.rows), effects.predicted(values), strict=True))
        return [float(every[row.id]) for row in rows]
    changes = combined(effects.parameters, values)
    found = samples.times((row, [changes]) for row in rows)
    return [found[row.id][0] for row in rows]


def whole(effects: Effects, half: str | None, samples: Samples | None) -> dict[str, Any]:
    """Fit over all rows or one half, errors over all and by half."""
    rows = effects.rows
    values = search(effects, np.asarray([half in (None, half_of(r.id)) for r in rows]))
    found = errors(rows, simulated(effects, rows, values, samples))
    by_half = {h: [e for r, e in zip(rows, found, strict=True) if half_of(r.id) == h] for h in "ab"}
    return {
        "values": dict(zip((p.name for p in effects.parameters), values, strict=True)),
        "errors": {r.id: e for r, e in zip(rows, found, strict=True)},
        "all": score(found),
        **{f"half {h}": score(e) for h, e in by_half.items()},
    }


def left_out(effects: Effects, samples: Samples | None) -> dict[str, Any]:
    """For each network the fit over the others, and its errors."""
    rows = effects.rows
    out: dict[str, Any] = {"networks": {}, "errors": {}}
    for name in dict.fromkeys(r.model for r in rows):
        values = search(effects, np.asarray([r.model != name for r in rows]))
        own = [r for r in rows if r.model == name]
        found = errors(own, simulated(effects, own, values, samples))
        out["networks"][name] = {
            "values": dict(zip((p.name for p in effects.parameters), values, strict=True)), **score(found)
        }  # fmt: skip
        out["errors"] |= {r.id: e for r, e in zip(own, found, strict=True)}
    out["all"] = score(list(out["errors"].values()))
    return out


def score(found: Sequence[float]) -> dict[str, float | int | None]:
    """Median and 90th percentile of the absolute error and median error, as fractions."""
    size = [abs(e) for e in found]
    return {"rows": len(size), "median": median(size), "p90": quantile(size, 0.9), "bias": median(found)}


def _percent(value: Any) -> str:
    return "-" if value is None else f"{100 * value:.1f}"


def _text(soc: str, result: dict[str, Any]) -> str:
    parts = [soc]
    if "values" in result:
        own = load_soc(soc)
        lines = [[p.name, f"{result['values'][p.name]:g}", p.unit, f"{p.value(own):g}", f"{p.low:g} to {p.high:g}",
                  p.meaning] for p in PARAMETERS[soc]]  # fmt: skip
        parts.append(render(["parameter", "fitted", "unit", "in use", "range", "meaning"], lines))
    names = [p.name for p in PARAMETERS[soc]]
    if "networks" in result:
        lines = [[name, str(s["rows"]), *(_percent(s[k]) for k in ("median", "p90", "bias")),
                  *(f"{s['values'][n]:g}" for n in names)] for name, s in result["networks"].items()]  # fmt: skip
        parts.append(render(["left out", "rows", "median %", "p90 %", "bias %", *names], lines))
    groups = [g for g in ("all", "half a", "half b") if g in result]
    lines = [[g, str(result[g]["rows"]), *(_percent(result[g][k]) for k in ("median", "p90", "bias"))] for g in groups]
    parts.append(render(["rows of", "rows", "median %", "p90 %", "bias %"], lines))
    return "\n".join(parts)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m benchmarks.networks", description=__doc__.splitlines()[0])
    parser.add_argument("--models", required=True, metavar="DIR", help="written by python -m benchmarks.models DIR")
    parser.add_argument("--soc", choices=sorted(PARAMETERS), help="only this chip")
    parser.add_argument("--workers", type=int, default=1, metavar="N")
    parser.add_argument("--cache", type=Path, metavar="FILE", help="keep simulated times for further runs")
    parser.add_argument("--interpolate", action="store_true", help="errors of interpolated times")
    parser.add_argument("--known", action="store_true", help="only rows whose times are in --cache; simulate nothing")
    parser.add_argument("--json", action="store_true")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--half", choices=("a", "b"), help="fit over this half of the rows")
    mode.add_argument("--leave-one-out", action="store_true")
    mode.add_argument("--report", type=Path, metavar="FILE", help="write the page of fits (Markdown)")
    args = parser.parse_args(argv)
    rows = [row for row in read_rows(ROWS) if isinstance(row, ModelRow)]
    samples = Samples(args.models, args.workers, args.cache)
    again = None if args.interpolate or args.known else samples
    rows = [row for row in rows if row.soc in PARAMETERS]
    total = len(rows)
    if args.known:
        rows = [row for row in rows if samples.knows(row, changes_of(row.soc))]
    if args.report:
        chips = {soc: effects_of([row for row in rows if row.soc == soc], samples) for soc in PARAMETERS}
        halves = {soc: whole(effects, "a", again) for soc, effects in chips.items()}
        others = {soc: left_out(effects, again) for soc, effects in chips.items()}
        args.report.write_text(page(halves, others, again is None, total - len(rows)), encoding="utf-8")
        return 0
    results: dict[str, Any] = {}
    for soc in (args.soc,) if args.soc else PARAMETERS:
        effects = effects_of([row for row in rows if row.soc == soc], samples)
        results[soc] = left_out(effects, again) if args.leave_one_out else whole(effects, args.half, again)
    if args.json:
        json.dump(results, sys.stdout)
        print()
        return 0
    print("\n\n".join(_text(soc, result) for soc, result in results.items()))
    if len(results) > 1:
        print("\nall chips: " + _pooled(results))
    return 0


def _pooled(results: dict[str, Any]) -> str:
    """Medians over all chips together, of all rows and by half."""
    found = {id: e for result in results.values() for id, e in result["errors"].items()}
    words = [f"median {_percent(median(map(abs, found.values())))} %"]
    for half in "ab":
        own = [abs(e) for id, e in found.items() if half_of(id) == half]
        words.append(f"half {half} {_percent(median(own))} % of {len(own)} rows")
    return ", ".join(words)


if __name__ == "__main__":
    sys.exit(main())
