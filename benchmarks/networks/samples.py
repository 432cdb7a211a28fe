"""Simulated times of measured networks, at a chip's own figures and with single figures changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ascend_sim.api import Simulator
from ascend_sim.cli.validate_models import Models
from ascend_sim.profiling.calibration import ModelRow
from ascend_sim.soc import load_soc

Changes = Mapping[str, float]


@cache
def source_digest() -> str:
    """Of everything that decides a simulated time: the package, its kernels and chip files."""
    import ascend_sim
    from ascend_sim import configs, kernels

    digest = hashlib.sha256()
    for package in (ascend_sim, kernels, configs):
        root = Path(str(package.__file__)).parent
        for path in sorted(p for p in root.rglob("*") if p.suffix in (".py", ".toml", ".c")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@dataclass
class Samples:
    """Runs rows on ``workers`` processes; ``store`` keeps times from run to run of the same sources."""

    models: str
    workers: int = 1
    store: Path | None = None

    def __post_init__(self) -> None:
        self.known: dict[str, float] = {}
        if self.store is not None and self.store.is_file():
            self.known = json.loads(self.store.read_text(encoding="utf-8"))

    def times(self, wanted: Iterable[tuple[ModelRow, Sequence[Changes]]]) -> dict[str, list[float]]:
        """Microseconds by row id, one for each of its changes. Raises what the simulation of a row raises."""
        pairs = list(wanted)
        jobs = [(row, missing) for row, changes in pairs if (missing := [c for c in changes if self._key(row, c) not in
                self.known])]  # fmt: skip
        if self.workers > 1 and len(jobs) > 1:
            with ProcessPoolExecutor(self.workers) as pool:
                results = pool.map(_run, [(self.models, *job) for job in jobs])
                for (row, changes), found in zip(jobs, results, strict=True):
                    self._keep(row, changes, found)
        else:
            for row, changes in jobs:
                self._keep(row, changes, _run((self.models, row, changes)))
        return {row.id: [self.known[self._key(row, c)] for c in changes] for row, changes in pairs}

    def knows(self, row: ModelRow, changes: Iterable[Changes]) -> bool:
        """Whether all times of a row are in the store."""
        return all(self._key(row, c) in self.known for c in changes)

    def _keep(self, row: ModelRow, changes: Sequence[Changes], found: Sequence[float]) -> None:
        self.known |= {self._key(row, c): us for c, us in zip(changes, found, strict=True)}
        if self.store is not None:
            self.store.write_text(json.dumps(self.known), encoding="utf-8")

    def _key(self, row: ModelRow, changes: Changes) -> str:
        words = ",".join(f"{k}={v:.6g}" for k, v in sorted(changes.items()))
        return f"{source_digest()} {row.id} {words}"


def _run(job: tuple[str, ModelRow, Sequence[Changes]]) -> list[float]:
    """Times of one row: compiled and traced once, replayed for every change. The first is what the others differ
    from, as a rule in one figure."""
    models, row, changes = job
    soc = load_soc(row.soc)
    model = Models(models).compiled(row, soc)
    out: list[float] = []
    idle: set[str] = set()  # figures that this network does not use
    for c in changes:
        other = {k for k, v in c.items() if v != changes[0].get(k)}
        if other and other <= idle:
            out.append(out[0])
            continue
        out.append(Simulator(soc.override(dict(c))).model(model).us)
        if out[-1] == out[0]:
            idle |= other
    return out
