"""Rows of measurements to validate against: one operator on one chip, or one network at one batch size.

Two CSV schemas are read (see ``benchmarks/data/README.md``): operators, recognised by the column ``op``, and
networks, recognised by ``model``.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ascend_sim.ops.schema import ITEM_BITS

# Column of the CSV -> pipe name of a simulated result.
PIPE_COLUMNS = {
    "mac_us": "cube",
    "mte1_us": "mte1",
    "mte2_us": "mte2",
    "mte3_us": "mte3",
    "vec_us": "vector",
    "scalar_us": "scalar",
    "fixpipe_us": "fixpipe",
}
L2_STATES = ("warm", "cold", "unknown")
_OP_COLUMNS = ("id", "soc", "family", "op", "inputs", "us")
_MODEL_COLUMNS = ("id", "soc", "model", "batch", "fps_one_chip")


class RowError(ValueError):
    """A file or row that cannot be read: names file, row, column, value and what was expected."""


@dataclass(frozen=True)
class Tensor:
    """Shape, dtype and format of a tensor as the profiler printed them."""

    shape: tuple[int, ...]
    dtype: str
    format: str = "ND"


@dataclass(frozen=True)
class OpRow:
    """One measured kernel. ``us`` is its task duration; ``pipe_us`` the busy time of pipes, mean over cores, in us,
    by simulated pipe name (empty where the profile had none); ``l2`` one of `L2_STATES`."""

    id: str
    soc: str
    family: str
    op: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    attrs: Mapping[str, Any]
    us: float
    pipe_us: Mapping[str, float]
    l2: str
    source: str


@dataclass(frozen=True)
class ModelRow:
    """One measured network: ``us`` per execution of ``batch`` images, without host copies."""

    id: str
    soc: str
    model: str
    batch: int
    us: float
    source: str

    family = "model"

    @property
    def op(self) -> str:
        return self.model


def read_rows(path: str | Path) -> list[OpRow] | list[ModelRow]:
    """All rows of a calibration file, in order. Raises `RowError`."""
    try:
        with open(path, newline="", encoding="utf-8") as handle:
            reader = csv.DictReader(handle)
            columns = reader.fieldnames or []
            records = list(reader)
    except OSError as error:
        raise RowError(f"cannot read {path}: {error.strerror or error}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise RowError(f"{path} is not a CSV file in UTF-8: {error}") from error
    wanted = _MODEL_COLUMNS if "model" in columns else _OP_COLUMNS
    missing = [c for c in wanted if c not in columns]
    if missing:
        kind = "networks" if wanted is _MODEL_COLUMNS else "operators"
        raise RowError(f"{path} lacks the column {missing[0]}; expected those of {kind}: {', '.join(wanted)}")
    places = [f"{path} row {number} ({record['id']})" for number, record in enumerate(records, 2)]
    if wanted is _MODEL_COLUMNS:
        return [_model_row(record, place) for record, place in zip(records, places, strict=True)]
    return [_op_row(record, place) for record, place in zip(records, places, strict=True)]


def half_of(row_id: str) -> str:
    """``a`` or ``b``: the half a row belongs to, by the lowest bit of the first byte of SHA-256 of its id. Constants
    are fitted on half a only, so half b is out of sample."""
    return "ab"[hashlib.sha256(row_id.encode()).digest()[0] & 1]


def _op_row(record: Mapping[str, str], place: str) -> OpRow:
    l2 = record.get("l2") or "unknown"
    if l2 not in L2_STATES:
        raise RowError(f"{place}: l2 is {l2!r}; expected one of {', '.join(L2_STATES)}")
    attrs = _json(record.get("attrs") or "{}", "attrs", place)
    if not isinstance(attrs, dict):
        raise RowError(f"{place}: attrs is {record['attrs']!r}; expected a JSON object")
    pipes = {pipe: _number(record[c], c, place, low=0.0) for c, pipe in PIPE_COLUMNS.items() if record.get(c)}
    return OpRow(
        id=record["id"],
        soc=record["soc"],
        family=record["family"],
        op=record["op"],
        inputs=_tensors(record.get("inputs") or "[]", "inputs", place),
        outputs=_tensors(record.get("outputs") or "[]", "outputs", place),
        attrs=attrs,
        us=_number(record["us"], "us", place),
        pipe_us=pipes,
        l2=l2,
        source=record.get("source") or "",
    )


def _model_row(record: Mapping[str, str], place: str) -> ModelRow:
    batch = _number(record["batch"], "batch", place)
    if batch != int(batch):
        raise RowError(f"{place}: batch is {record['batch']!r}; expected a whole number")
    us = batch / _number(record["fps_one_chip"], "fps_one_chip", place) * 1e6
    return ModelRow(record["id"], record["soc"], record["model"], int(batch), us, record.get("source") or "")


def _json(text: str, column: str, place: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise RowError(f"{place}: {column} is not JSON ({error})") from error


def _number(text: str, column: str, place: str, low: float | None = None) -> float:
    try:
        value = float(text)
    except ValueError:
        raise RowError(f"{place}: {column} is {text!r}; expected a number") from None
    if not (value > 0 if low is None else value >= low):
        raise RowError(f"{place}: {column} is {text}; expected a number above 0")
    return value


def _tensors(text: str, column: str, place: str) -> tuple[Tensor, ...]:
    items = _json(text, column, place)
    if not isinstance(items, list):
        raise RowError(f"{place}: {column} is {text!r}; expected a JSON list of tensors")
    return tuple(_tensor(item, column, place) for item in items)


def _tensor(item: Any, column: str, place: str) -> Tensor:
    shape: Sequence[Any] | None = item.get("shape") if isinstance(item, dict) else None
    if not isinstance(shape, list) or not all(isinstance(d, int) and d >= 0 for d in shape):
        raise RowError(f"{place}: {column} holds {item!r}; expected an object with a list of sizes as shape")
    if item.get("dtype") not in ITEM_BITS:
        raise RowError(f"{place}: {column} has dtype {item.get('dtype')!r}; expected one of {', '.join(ITEM_BITS)}")
    return Tensor(tuple(shape), item["dtype"], str(item.get("format", "ND")))
