"""Finds, merges and checks chip description files (TOML) and builds `ascend_sim.soc.Soc` from them.

A file has ``name``, ``aliases``, optionally ``base`` (another chip, another file's stem, or a relative path), a table
``sources`` (abbreviations, cited as ``"@key"`` with optional further text) and one table per section of `Soc`. Each
figure is an inline table ``{ value, unit, source, confidence }``. Tables of rows (``vector.cycles``, ``mte.paths``)
state unit, source and confidence once, and a row may carry its own source and confidence; where a file that
inherits restates them for the table, they hold for the inherited rows too.
"""

from __future__ import annotations

import dataclasses
import math
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ascend_sim.soc import CONFIDENCES, DEFAULT_SOC, SECTIONS, Figure, Soc, SocError, closest
from ascend_sim.soc import Path as DataPath

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FIGURE_KEYS = ("value", "unit", "source", "confidence")
TOP_KEYS = ("name", "aliases", "base", "sources")
MUST_BE_POSITIVE = ("MHz", "GB/s", "B/cycle", "instructions")
CHOICES = {
    "chip.arch": ("m100", "m200", "m300", "c100", "c220", "c310"),
    "memory.kind": ("HBM", "DDR"),
    "memory.l2_kind": ("cache", "buffer"),
    "chip.run_mode": (0, 1),
}
TABLES = {  # unit each table must state
    "vector.cycles": "cycles",
    "mte.paths": "cycles, B/cycle",
    "launch.code": "us",
    "scalar.start": "cycles",
    "scalar.operands": "cycles",
    "scalar.work": "cycles",
}
PATH_UNITS = {f.name: f.metadata["unit"] for f in dataclasses.fields(DataPath)}
PATH_DEFAULTS = {f.name: f.default for f in dataclasses.fields(DataPath) if f.default is not dataclasses.MISSING}
Table = dict[str, Any]


@dataclass(frozen=True)
class Choice:
    """What a name stands for: the chip's name, its file, and a notice for the user if the name was not exact."""

    name: str
    path: Path
    notice: str | None = None


@dataclass(frozen=True)
class _Entry:
    name: str
    aliases: tuple[str, ...]
    path: Path


# ---------------------------------------------------------------- finding files


def load(name: str | os.PathLike[str] | None) -> Soc:
    choice = resolve(name)
    return _build(choice.path, _search_path())


def names() -> tuple[str, ...]:
    return tuple(sorted({entry.name for entry in _entries()}))


def resolve(name: str | os.PathLike[str] | None) -> Choice:
    notice = None
    if name is None or name == "":
        name = os.environ.get("ASCEND_SIM_SOC", "")
        if not name:
            name = DEFAULT_SOC
            notice = f"no chip chosen (--soc or ASCEND_SIM_SOC): simulating {DEFAULT_SOC}"
    if not isinstance(name, (str, os.PathLike)):
        raise SocError(f"soc name must be a string or a path, got {type(name).__name__} {name!r}")
    text = os.fspath(name)
    if not isinstance(name, str) or text.endswith(".toml") or os.sep in text:
        path = Path(text)
        if not path.is_file():
            raise SocError(f"soc file {text} does not exist")
        return Choice(_header(path).name or str(path), path, notice)
    entries = _entries()
    wanted, prefixed = _normalise(text)
    by_name = {_normalise(e.name)[0]: e for e in reversed(entries)}
    by_alias = {_normalise(alias)[0]: e for e in reversed(entries) for alias in e.aliases}
    # "Ascend910B" is a genuine chip while a bare "910B" means the 910B generation: an alias wins on bare names.
    order = (by_name, by_alias) if prefixed else (by_alias, by_name)
    for table in order:
        if wanted in table:
            entry = table[wanted]
            if table is by_alias:
                notice = f"'{text}' names a family of chips: simulating {entry.name}"
                if wanted in by_name:
                    notice += f" (write {by_name[wanted].name} for the chip of that name)"
            return Choice(entry.name, entry.path, notice)
    known = [e.name for e in entries]
    hint = closest(text if prefixed else "Ascend" + text, known)
    raise SocError(f"unknown soc '{text}'{hint or ''} (known: {', '.join(sorted(known))})")


def _normalise(name: str) -> tuple[str, bool]:
    text = "".join(name.split()).lower().replace("_", "")
    prefixed = text.startswith("ascend")
    return (text[6:].lstrip("-") if prefixed else text), prefixed


def _search_path() -> tuple[Path, ...]:
    """Directories with chip files, the user's first."""
    user = os.environ.get("ASCEND_SIM_CONFIG_PATH", "")
    found = []
    for part in user.split(os.pathsep):
        if part:
            if not Path(part).is_dir():
                raise SocError(f"ASCEND_SIM_CONFIG_PATH: {part} is not a directory")
            found.append(Path(part))
    return (*found, _packaged())


@lru_cache(maxsize=1)
def _packaged() -> Path:
    from importlib import resources

    return Path(str(resources.files("ascend_sim.configs")))


def _entries() -> list[_Entry]:
    """Chips in search order; a file without ``name`` is only a base."""
    found = []
    for folder in _search_path():
        for path in sorted(folder.glob("*.toml")):
            entry = _header(path)
            if entry.name:
                found.append(entry)
    return found


def _header(path: Path) -> _Entry:
    return _header_cached(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=256)
def _header_cached(path: Path, _mtime: int) -> _Entry:
    """Name and aliases of a file, read without parsing its tables."""
    text = _text(path)
    end = text.find("\n[")
    data = _parse(text if end < 0 else text[:end], path)
    aliases = data.get("aliases", [])
    name = data.get("name", "")
    if not isinstance(name, str) or not isinstance(aliases, list) or not all(isinstance(a, str) for a in aliases):
        raise SocError(f"{path}: name must be a string and aliases a list of strings")
    return _Entry(name, tuple(aliases), path)


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as err:
        raise SocError(f"{path}: cannot be read: {err}") from err


def _parse(text: str, path: Path) -> Table:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as err:
        raise SocError(f"{path}: not valid TOML: {err}") from err


def _base_path(path: Path, base: str, search: tuple[Path, ...]) -> Path:
    if not isinstance(base, str):
        raise SocError(f"{path}: base: must be a string, got {base!r}")
    if base.endswith(".toml"):
        target = (path.parent / base).resolve()
        if not target.is_file():
            raise SocError(f"{path}: base: {target} does not exist")
        return target
    for folder in dict.fromkeys((path.parent, *search)):
        for candidate in (folder / f"{base}.toml", folder / f"{base.lower()}.toml"):
            if candidate.is_file() and candidate.resolve() != path.resolve():
                return candidate
    for entry in _entries():
        if entry.name == base and entry.path.resolve() != path.resolve():
            return entry.path
    raise SocError(f"{path}: base: no chip or file '{base}'")


# ---------------------------------------------------------------- merging and checking


@dataclass
class _Raw:
    """A figure as found, with the file to blame."""

    data: Any
    path: Path


@dataclass
class _Row:
    data: Any
    meta: Table
    path: Path


class _Merged:
    """Figures by ``section.key`` and rows by table, of a file and its bases; later files win."""

    def __init__(self) -> None:
        self.figures: dict[str, _Raw] = {}
        self.rows: dict[str, dict[str, _Row]] = {table: {} for table in TABLES}
        self.sources: dict[str, str] = {}

    def add(self, path: Path, data: Table) -> None:
        self._add_sources(path, data.get("sources", {}))
        for section, body in data.items():
            if section in TOP_KEYS:
                continue
            if section not in SECTIONS:
                raise SocError(f"{path}: {section}: unknown section{closest(section, SECTIONS)}")
            if not isinstance(body, dict):
                raise SocError(f"{path}: {section}: must be a table, got {body!r}")
            fields = {f.name: f for f in dataclasses.fields(SECTIONS[section])}
            for key, value in body.items():
                full = f"{section}.{key}"
                if key not in fields:
                    raise SocError(f"{path}: {full}: unknown key{closest(key, fields)}")
                if full in TABLES:
                    self._add_rows(path, full, value)
                else:
                    self.figures[full] = _Raw(value, path)

    def _add_sources(self, path: Path, sources: Any) -> None:
        if not isinstance(sources, dict) or not all(isinstance(v, str) and v for v in sources.values()):
            raise SocError(f"{path}: sources: must be a table of texts")
        self.sources.update(sources)

    def _add_rows(self, path: Path, table: str, body: Any) -> None:
        if not isinstance(body, dict):
            raise SocError(f"{path}: {table}: must be a table, got {body!r}")
        meta = {k: body[k] for k in ("unit", "source", "confidence") if k in body}
        if meta.get("unit") != TABLES[table]:
            raise SocError(f"{path}: {table}: wrong unit {meta.get('unit')!r}, expected '{TABLES[table]}'")
        if "source" in meta:
            _source(f"{path}: {table}", meta, self.sources)
        if "confidence" in meta:
            _confidence(f"{path}: {table}", meta)
        rows = self.rows[table]
        if "source" in meta or "confidence" in meta:
            for row in rows.values():
                row.meta = {**row.meta, **meta}
                if isinstance(row.data, dict):
                    row.data = {k: v for k, v in row.data.items() if k not in meta}
        for name, value in body.items():
            if name not in ("unit", "source", "confidence"):
                rows[name] = _Row(value, meta, path)


@lru_cache(maxsize=64)
def _build_cached(path: Path, search: tuple[Path, ...], _stamps: tuple[int, ...]) -> Soc:
    chain = list(_chain(path, search))
    merged = _Merged()
    for file, data in reversed(chain):
        merged.add(file, data)
    head = chain[0][1]
    name, aliases = head.get("name"), head.get("aliases", [])
    if not isinstance(name, str) or not name:
        raise SocError(f"{path}: name: missing (this file can only be the base of another)")
    figures: dict[str, Figure] = {}
    sections: dict[str, Any] = {}
    for section, cls in SECTIONS.items():
        values: Table = {}
        for f in dataclasses.fields(cls):
            full = f"{section}.{f.name}"
            if full in TABLES:
                values[f.name] = _rows(full, merged, figures)
                continue
            raw = merged.figures.get(full)
            if raw is None:
                raise SocError(f"{path}: {full}: missing figure (unit {f.metadata['unit']})")
            figures[full] = _figure(full, raw, f, merged.sources)
            values[f.name] = figures[full].value
        sections[section] = cls(**values)
    return Soc(name=name, aliases=tuple(aliases), figures=figures, **sections)


def _build(path: Path, search: tuple[Path, ...]) -> Soc:
    path = path.resolve()
    stamps, seen, current = [], set(), path
    while current not in seen:  # a changed base must not serve a stale chip
        seen.add(current)
        stamps.append(current.stat().st_mtime_ns)
        base = _base_name(current, stamps[-1])
        if base is None:
            break
        current = _base_path(current, base, search).resolve()
    return _build_cached(path, search, tuple(stamps))


@lru_cache(maxsize=256)
def _base_name(path: Path, _mtime: int) -> Any:
    text = _text(path)
    end = text.find("\n[")
    return _parse(text if end < 0 else text[:end], path).get("base")


def _chain(path: Path, search: tuple[Path, ...]) -> Iterator[tuple[Path, Table]]:
    """The file and its bases, most derived first."""
    seen: list[Path] = []
    while True:
        if path in seen:
            loop = " -> ".join(p.name for p in [*seen[seen.index(path) :], path])
            raise SocError(f"{seen[0]}: base: inheritance cycle {loop}")
        seen.append(path)
        data = _read(path, path.stat().st_mtime_ns)
        yield path, data
        base = data.get("base")
        if base is None:
            return
        path = _base_path(path, base, search).resolve()


@lru_cache(maxsize=64)
def _read(path: Path, _mtime: int) -> Table:
    return _parse(_text(path), path)


def _figure(full: str, raw: _Raw, f: dataclasses.Field[Any], sources: Mapping[str, str]) -> Figure:
    where = f"{raw.path}: {full}"
    if not isinstance(raw.data, dict):
        raise SocError(f"{where}: must be {{ value, unit, source, confidence }}, got {raw.data!r}")
    for key in raw.data:
        if key not in FIGURE_KEYS:
            raise SocError(f"{where}: unknown key '{key}'{closest(key, FIGURE_KEYS)}")
    if "value" not in raw.data:
        raise SocError(f"{where}: missing value")
    unit = f.metadata["unit"]
    if raw.data.get("unit") != unit:
        raise SocError(f"{where}: wrong unit {raw.data.get('unit')!r}, expected '{unit}'")
    value = _checked(where, full, raw.data["value"], str(f.type), unit)
    return Figure(value, unit, _source(where, raw.data, sources), _confidence(where, raw.data))


def _source(where: str, data: Mapping[str, Any], sources: Mapping[str, str]) -> str:
    text = data.get("source")
    if not isinstance(text, str) or not text.strip():
        raise SocError(f"{where}: missing source")
    if text.startswith("@"):
        key = text[1:].split(" ", 1)[0].rstrip(",;:")
        if key not in sources:
            raise SocError(f"{where}: source '@{key}' is not in [sources]{closest(key, dict(sources))}")
        more = text[1 + len(key) :]
        return sources[key] + (f": {more.strip()}" if more.startswith(" ") else more)
    return text


def _confidence(where: str, data: Mapping[str, Any]) -> str:
    value = data.get("confidence")
    if value not in CONFIDENCES:
        raise SocError(f"{where}: bad confidence {value!r}, expected one of {', '.join(CONFIDENCES)}")
    return str(value)


def _checked(where: str, full: str, value: Any, kind: str, unit: str) -> Any:
    """``value`` as ``kind`` (int, float, bool, str), or `SocError`."""
    if kind in ("bool", "str"):
        if not isinstance(value, bool if kind == "bool" else str):
            raise SocError(f"{where}: wrong type, expected {kind}, got {value!r}")
    else:
        accepted = (int,) if kind == "int" else (int, float)
        if isinstance(value, bool) or not isinstance(value, accepted):
            raise SocError(f"{where}: wrong type, expected {kind}, got {value!r}")
        if not math.isfinite(value) or value < 0 or (value == 0 and unit in MUST_BE_POSITIVE):
            limit = "positive" if unit in MUST_BE_POSITIVE else "0 or more"
            raise SocError(f"{where}: {value!r} {unit} is out of range, must be {limit}")
        value = int(value) if kind == "int" else float(value)
    if full in CHOICES and value not in CHOICES[full]:
        raise SocError(f"{where}: {value!r} is not one of {', '.join(map(str, CHOICES[full]))}")
    if full == "cores.ai_core_count" and value < 1:
        raise SocError(f"{where}: a chip needs at least one AI core, got {value}")
    return value


def _rows(table: str, merged: _Merged, figures: dict[str, Figure]) -> Table:
    """Values of a table; its figures are added to ``figures``."""
    result: Table = {}
    sources = merged.sources
    for name, row in merged.rows[table].items():
        where = f"{row.path}: {table}.{name}"
        data = row.data if isinstance(row.data, dict) else {"value": row.data}  # a bare row
        meta = {**row.meta, **{k: v for k, v in data.items() if k in ("source", "confidence")}}
        body = {k: v for k, v in data.items() if k not in ("source", "confidence")}
        if table == "vector.cycles":
            value: Any = _cycles(where, body)
        elif table == "launch.code":
            value = _code(where, body)
        elif table.startswith("scalar."):
            value = _number(where, body)
        else:
            value = _path(where, body if isinstance(row.data, dict) else row.data)
        flat = dataclasses.astuple(value) if isinstance(value, DataPath) else value
        figures[f"{table}.{name}"] = Figure(
            flat, TABLES[table], _source(where, meta, sources), _confidence(where, meta)
        )
        result[name] = value
    return result


def _cycles(where: str, body: Table) -> tuple[float, float, float]:
    if set(body) != {"value"}:
        raise SocError(f"{where}: must be [first, per_repeat, tail], got {body!r}")
    row = body["value"]
    if not isinstance(row, (list, tuple)) or len(row) != 3:
        raise SocError(f"{where}: wrong type, expected [first, per_repeat, tail], got {row!r}")
    first, slope, tail = (_checked(where, "", value, "float", "cycles") for value in row)
    return first, slope, tail


def _code(where: str, body: Table) -> tuple[float, float]:
    row = body.get("value") if set(body) == {"value"} else None
    if not isinstance(row, (list, tuple)) or len(row) != 2:
        raise SocError(f"{where}: must be [flushed, network], got {body!r}")
    flushed, network = (_checked(where, "", value, "float", "us") for value in row)
    return flushed, network


def _number(where: str, body: Table) -> float:
    if set(body) != {"value"}:
        raise SocError(f"{where}: must be one number, got {body!r}")
    number = _checked(where, "", body["value"], "float", "cycles")
    assert isinstance(number, float)
    return number


def _path(where: str, body: Any) -> DataPath:
    if not isinstance(body, Mapping):
        raise SocError(f"{where}: wrong type, expected a table with {', '.join(PATH_UNITS)}, got {body!r}")
    for key in body:
        if key not in PATH_UNITS:
            raise SocError(f"{where}: unknown key '{key}'{closest(key, PATH_UNITS)}")
    for key, unit in PATH_UNITS.items():
        if key not in body and key not in PATH_DEFAULTS:
            raise SocError(f"{where}: missing figure {key} (unit {unit})")
    full = {**PATH_DEFAULTS, **body}
    return DataPath(**{k: _checked(f"{where}.{k}", "", full[k], "float", unit) for k, unit in PATH_UNITS.items()})


# ---------------------------------------------------------------- overriding


def apply_overrides(soc: Soc, changes: Mapping[str, Any]) -> Soc:
    """See `Soc.override`."""
    wanted = {_full_key(soc, key): value for key, value in changes.items()}
    if "memory.hbm_gbps" in wanted:
        rate = _checked("override memory.hbm_gbps", "", wanted.pop("memory.hbm_gbps"), "float", "GB/s")
        wanted.setdefault("memory.read_gbps", rate)
        wanted.setdefault("memory.write_gbps", rate * soc.memory.write_gbps / soc.memory.read_gbps)
    cores = wanted.get("cores.ai_core_count")
    if soc.chip.split_cores and isinstance(cores, int) and "cores.vector_core_count" not in wanted:
        wanted["cores.vector_core_count"] = cores * soc.cores.vector_core_count // soc.cores.ai_core_count
    figures = dict(soc.figures)
    sections: dict[str, Table] = {}
    for full, value in wanted.items():
        where = f"override {full}"
        section, key, *rest = full.split(".", 2)
        cls = SECTIONS[section]
        f = next(f for f in dataclasses.fields(cls) if f.name == key)
        changed = sections.setdefault(section, {})
        if not rest:
            new = _checked(where, full, value, str(f.type), f.metadata["unit"])
            figures[full] = Figure(new, f.metadata["unit"], "override", "guess")
            changed[key] = new
            continue
        table = changed.setdefault(key, dict(getattr(getattr(soc, section), key)))
        row, _, part = rest[0].partition(".")
        if part:
            number = _checked(where, "", value, "float", PATH_UNITS[part])
            table[row] = dataclasses.replace(table[row], **{part: number})
        else:
            read = {"cycles": _cycles, "code": _code, "paths": None}.get(key, _number)
            table[row] = read(where, {"value": value}) if read else _path(where, value)
        flat = dataclasses.astuple(table[row]) if isinstance(table[row], DataPath) else table[row]
        figures[f"{section}.{key}.{row}"] = Figure(flat, TABLES[f"{section}.{key}"], "override", "guess")
    built = {name: dataclasses.replace(getattr(soc, name), **body) for name, body in sections.items()}
    return dataclasses.replace(soc, figures=figures, **built)


def _full_key(soc: Soc, key: str) -> str:
    """``section.key`` of a key as a user may write it; `SocError` if there is none or more than one."""
    if not isinstance(key, str):
        raise SocError(f"override keys are strings like 'memory.read_gbps', got {key!r}")
    if key in ("memory.hbm_gbps", "hbm_gbps"):
        return "memory.hbm_gbps"
    if key in soc.figures:
        return key
    row, _, part = key.rpartition(".")
    if row.startswith("mte.paths.") and row in soc.figures and part in PATH_UNITS:
        return key
    matches = [full for full in soc.figures if full.count(".") == 1 and full.endswith("." + key)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise SocError(f"override '{key}' is ambiguous: {', '.join(matches)}")
    raise SocError(f"override: {soc.name} has no figure '{key}'{closest(key, soc.figures)}")
