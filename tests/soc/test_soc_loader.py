"""Names, inheritance, overriding and every way a chip file can be wrong."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.soc import CONFIDENCES, Soc, SocError, load_soc, resolve_name, soc_names


@pytest.fixture(autouse=True)
def _no_user_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASCEND_SIM_CONFIG_PATH", raising=False)
    monkeypatch.delenv("ASCEND_SIM_SOC", raising=False)


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("Ascend310P3", "Ascend310P3"),
        ("310P3", "Ascend310P3"),
        ("310p3", "Ascend310P3"),
        ("ascend310p3", "Ascend310P3"),
        ("ASCEND-310P3", "Ascend310P3"),
        (" 910b2 ", "Ascend910B2"),
        ("910B4-1", "Ascend910B4-1"),
        ("910prob", "Ascend910ProB"),
        ("310", "Ascend310"),
        ("Ascend910B", "Ascend910B"),
        ("ascend910b", "Ascend910B"),
    ],
)
def test_exact_names_need_no_notice(typed: str, name: str) -> None:
    assert resolve_name(typed) == (name, None)
    assert load_soc(typed).name == name


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("910B", "Ascend910B2"),
        ("910b", "Ascend910B2"),
        ("310P", "Ascend310P3"),
        ("Ascend310P", "Ascend310P3"),
        ("310b", "Ascend310B1"),
        ("Ascend910", "Ascend910A"),
    ],
)
def test_family_names_come_with_a_notice(typed: str, name: str) -> None:
    canonical, notice = resolve_name(typed)
    assert canonical == name and notice is not None and name in notice and typed in notice


def test_bare_910b_tells_how_to_get_the_old_part() -> None:
    assert "write Ascend910B " in (resolve_name("910B")[1] or "")
    assert load_soc("Ascend910B").cores.ai_core_count == 30


def test_default_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    name, notice = resolve_name(None)
    assert name == "Ascend910B2" and notice and "ASCEND_SIM_SOC" in notice
    monkeypatch.setenv("ASCEND_SIM_SOC", "310p3")
    assert resolve_name() == ("Ascend310P3", None)
    assert load_soc().name == "Ascend310P3"


def test_unknown_name_suggests() -> None:
    with pytest.raises(SocError, match=r"unknown soc '310P4'.*did you mean.*Ascend310P3"):
        load_soc("310P4")
    with pytest.raises(SocError, match=r"unknown soc 'h100'.*known: Ascend310, "):
        load_soc("h100")
    with pytest.raises(SocError, match=r"string or a path, got int 310"):
        load_soc(310)  # type: ignore[arg-type]


@given(st.text(max_size=12))
def test_any_text_is_a_chip_or_a_soc_error(text: str) -> None:
    try:
        soc = load_soc(text)
    except SocError:
        return
    assert soc.name in soc_names()


# ---------------------------------------------------------------- user files


def write(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8")
    return path


FASTER = """
name = "Ascend910B2"
base = "Ascend910B2"
[memory]
read_gbps = { value = 2000, unit = "GB/s", source = "what if", confidence = "guess" }
"""


def test_file_by_path_inherits(tmp_path: Path) -> None:
    path = write(tmp_path / "fast.toml", FASTER.replace('name = "Ascend910B2"', 'name = "Fast"'))
    for given_as in (path, str(path)):
        soc = load_soc(given_as)
        assert soc.name == "Fast" and soc.memory.read_gbps == 2000
        assert soc.figures["memory.read_gbps"].source == "what if"
        assert soc.cores == load_soc("910B2").cores
    assert resolve_name(path)[0] == "Fast"


def test_search_path_overrides_packaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "ascend910b2.toml", FASTER)
    write(tmp_path / "mine.toml", 'name = "Mine"\naliases = ["my chip"]\nbase = "Ascend310"\n')
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.setenv("ASCEND_SIM_CONFIG_PATH", os.pathsep.join([str(other), str(tmp_path)]))
    assert load_soc("910b2").memory.read_gbps == 2000
    assert load_soc("mychip").cores.clock_mhz == 680
    assert "Mine" in soc_names()
    write(tmp_path / "ascend910b2.toml", FASTER.replace("2000", "2100"))
    os.utime(tmp_path / "ascend910b2.toml", ns=(1, 1))
    assert load_soc("910b2").memory.read_gbps == 2100  # a changed file is read again


def test_rows_inherit_and_restated_confidence_holds_for_them(tmp_path: Path) -> None:
    text = """
name = "Mine"
base = "Ascend910B2"
[vector.cycles]
unit = "cycles"
source = "measured here"
confidence = "guess"
vadd = [9, 8, 7]
vsub = { value = [1, 1, 1], source = "board", confidence = "measured" }
[mte.paths]
unit = "cycles, B/cycle"
GM_L1 = { fixed_cycles = 1, burst_cycles = 0, bytes_per_cycle = 2, latency_cycles = 3, source = "x", confidence = "guess" }
"""  # noqa: E501
    soc, base = load_soc(write(tmp_path / "mine.toml", text)), load_soc("910B2")
    assert soc.vector.cycles["vadd"] == (9, 8, 7)
    assert soc.confidence("vector.cycles.vadd") == "guess"
    assert soc.confidence("vector.cycles.vsub") == "measured"
    assert base.confidence("vector.cycles.vexp") == "measured"  # has its own confidence in the base ...
    assert soc.confidence("vector.cycles.vexp") == "guess"  # ... which a restated table overrides
    assert soc.figures["vector.cycles.vexp"].source == "measured here"
    assert soc.vector.cycles["vexp"] == base.vector.cycles["vexp"]
    assert soc.mte.paths["GM_L1"].latency_cycles == 3
    assert soc.figures["mte.paths.GM_UB"] == base.figures["mte.paths.GM_UB"]


GOOD = '{ value = 1000, unit = "GB/s", source = "s", confidence = "guess" }'
ROW = "fixed_cycles = 1, burst_cycles = 0, bytes_per_cycle = 2, latency_cycles = 3"


def memory(figure: str) -> str:
    return f"[memory]\nread_gbps = {figure}\n"


@pytest.mark.parametrize(
    ("body", "key", "problem"),
    [
        ("[memry]\n", "memry", "unknown section; did you mean memory"),
        (f"[memory]\nread_gpbs = {GOOD}\n", "memory.read_gpbs", "unknown key; did you mean read_gbps"),
        (memory(GOOD.replace("GB/s", "GiB/s")), "memory.read_gbps", "wrong unit 'GiB/s', expected 'GB/s'"),
        (memory('{ value = 1, source = "s", confidence = "guess" }'), "memory.read_gbps", "wrong unit None"),
        (memory(GOOD.replace("1000", '"fast"')), "memory.read_gbps", "wrong type, expected float, got 'fast'"),
        (memory(GOOD.replace("1000", "true")), "memory.read_gbps", "wrong type, expected float, got True"),
        (memory(GOOD.replace("1000", "nan")), "memory.read_gbps", "nan GB/s is out of range"),
        (memory(GOOD.replace("1000", "-1")), "memory.read_gbps", "-1 GB/s is out of range"),
        (memory(GOOD.replace("1000", "0")), "memory.read_gbps", "must be positive"),
        (memory('{ unit = "GB/s", source = "s", confidence = "guess" }'), "memory.read_gbps", "missing value"),
        (memory('{ value = 1, unit = "GB/s", confidence = "guess" }'), "memory.read_gbps", "missing source"),
        (memory(GOOD.replace('"s"', '" "')), "memory.read_gbps", "missing source"),
        (memory(GOOD.replace('"s"', '"@inii rate"')), "memory.read_gbps", r"'@inii' is not in \[sources\]"),
        (memory(GOOD.replace("guess", "sure")), "memory.read_gbps", "bad confidence 'sure', expected one of measured"),
        (memory('{ value = 1, unit = "GB/s", source = "s" }'), "memory.read_gbps", "bad confidence None"),
        (memory(GOOD.replace("source", "sauce")), "memory.read_gbps", "unknown key 'sauce'; did you mean source"),
        (memory("1000"), "memory.read_gbps", "must be { value, unit, source, confidence }, got 1000"),
        ("memory = 3\n", "memory", "must be a table"),
        ("[memory]\nl2_bytes = { value = 1.5, unit = 'B', source = 's', confidence = 'guess' }\n", "memory.l2_bytes",
         "wrong type, expected int, got 1.5"),
        ("[memory]\nkind = { value = 'SRAM', unit = 'name', source = 's', confidence = 'guess' }\n", "memory.kind",
         "'SRAM' is not one of HBM, DDR"),
        ("[chip]\nsplit_cores = { value = 1, unit = 'flag', source = 's', confidence = 'guess' }\n",
         "chip.split_cores", "expected bool"),
        ("[cores]\nai_core_count = { value = 0, unit = 'cores', source = 's', confidence = 'guess' }\n",
         "cores.ai_core_count", "at least one AI core"),
        ("[vector.cycles]\nunit = 'ns'\nsource = 's'\nconfidence = 'guess'\nvadd = [1, 2, 3]\n", "vector.cycles",
         "wrong unit 'ns', expected 'cycles'"),
        ("[vector.cycles]\nunit = 'cycles'\nconfidence = 'guess'\nvadd = [1, 2, 3]\n", "vector.cycles.vadd",
         "missing source"),
        ("[vector.cycles]\nunit = 'cycles'\nsource = 's'\nconfidence = 'guess'\nvadd = [1, 2]\n",
         "vector.cycles.vadd", r"expected \[first, per_repeat, tail\]"),
        ("[vector.cycles]\nunit = 'cycles'\nsource = 's'\nconfidence = 'guess'\nvadd = [1, 'x', 2]\n",
         "vector.cycles.vadd", "wrong type, expected float, got 'x'"),
        ("[mte.paths]\nunit = 'cycles, B/cycle'\nsource = 's'\nconfidence = 'guess'\nGM_L1 = { fixed_cycles = 1 }\n",
         "mte.paths.GM_L1", "missing figure burst_cycles"),
        (f"[mte.paths]\nunit = 'cycles, B/cycle'\nsource = 's'\nconfidence = 'guess'\nGM_L1 = {{ {ROW}, lag = 1 }}\n",
         "mte.paths.GM_L1", "unknown key 'lag'"),
        (f"[mte.paths]\nunit = 'cycles, B/cycle'\nsource = 's'\nGM_L1 = {{ {ROW} }}\n", "mte.paths.GM_L1",
         "bad confidence None"),
        (f"[mte.paths]\nunit = 'cycles, B/cycle'\nsource = 's'\nconfidence = 'guess'\n"
         f"GM_L1 = {{ {ROW.replace('= 2', '= 0')} }}\n", "mte.paths.GM_L1.bytes_per_cycle", "must be positive"),
        ("[mte.paths]\nunit = 'cycles, B/cycle'\nsource = 's'\nconfidence = 'guess'\nGM_L1 = 3\n", "mte.paths.GM_L1",
         "wrong type"),
        ("[mte]\npaths = 3\n", "mte.paths", "must be a table"),
        ("[mte.paths]\nunit = 'cycles, B/cycle'\nconfidence = 'sure'\n", "mte.paths", "bad confidence 'sure'"),
        ("[mte.paths]\nunit = 'cycles, B/cycle'\nsource = ''\n", "mte.paths", "missing source"),
    ],
)  # fmt: skip
def test_wrong_file_names_file_and_key(tmp_path: Path, body: str, key: str, problem: str) -> None:
    path = write(tmp_path / "bad.toml", f'name = "Bad"\nbase = "Ascend910B2"\n{body}')
    with pytest.raises(SocError, match=problem) as caught:
        load_soc(path)
    assert str(path) in str(caught.value) and f"{key}:" in str(caught.value)


def test_missing_figure_and_missing_name(tmp_path: Path) -> None:
    lone = write(tmp_path / "lone.toml", 'name = "Lone"\n')
    with pytest.raises(SocError, match=r"lone.toml: board.short_name: missing figure \(unit name\)"):
        load_soc(lone)
    nameless = write(tmp_path / "nameless.toml", 'base = "Ascend310"\n')
    with pytest.raises(SocError, match=r"nameless.toml: name: missing"):
        load_soc(nameless)


def test_broken_files(tmp_path: Path) -> None:
    with pytest.raises(SocError, match=r"nowhere.toml does not exist"):
        load_soc(tmp_path / "nowhere.toml")
    with pytest.raises(SocError, match=r"junk.toml: not valid TOML"):
        load_soc(write(tmp_path / "junk.toml", 'name = "x\n'))
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SocError, match=r"binary.toml: cannot be read"):
        load_soc(binary)
    with pytest.raises(SocError, match=r"orphan.toml: base: no chip or file 'Ascend999'"):
        load_soc(write(tmp_path / "orphan.toml", 'name = "Orphan"\nbase = "Ascend999"\n'))
    with pytest.raises(SocError, match=r"gone.toml: base: .*missing.toml does not exist"):
        load_soc(write(tmp_path / "gone.toml", 'name = "Gone"\nbase = "missing.toml"\n'))
    with pytest.raises(SocError, match=r"name must be a string"):
        load_soc(write(tmp_path / "number.toml", "name = 3\n"))
    with pytest.raises(SocError, match=r"base: must be a string"):
        load_soc(write(tmp_path / "basenumber.toml", 'name = "B"\nbase = 3\n'))
    with pytest.raises(SocError, match=r"sources: must be a table of texts"):
        load_soc(write(tmp_path / "src.toml", 'name = "B"\nbase = "Ascend310"\n[sources]\nx = 3\n'))


def test_bad_search_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ASCEND_SIM_CONFIG_PATH", str(tmp_path / "absent"))
    with pytest.raises(SocError, match=r"ASCEND_SIM_CONFIG_PATH: .*absent is not a directory"):
        load_soc("310")


def test_inheritance_cycle(tmp_path: Path) -> None:
    write(tmp_path / "a.toml", 'name = "A"\nbase = "b.toml"\n')
    write(tmp_path / "b.toml", 'name = "B"\nbase = "a.toml"\n')
    with pytest.raises(SocError, match=r"inheritance cycle a.toml -> b.toml -> a.toml"):
        load_soc(tmp_path / "a.toml")
    with pytest.raises(SocError, match=r"inheritance cycle me.toml -> me.toml"):
        load_soc(write(tmp_path / "me.toml", 'name = "Me"\nbase = "me.toml"\n'))


# ---------------------------------------------------------------- Soc


def test_digest_equality_and_hash() -> None:
    a, b = load_soc("910B2"), load_soc("Ascend910B2")
    assert a == b and hash(a) == hash(b) and len({a, b, load_soc("310")}) == 2
    assert a != "Ascend910B2"
    assert len({load_soc(name).digest for name in soc_names()}) == len(soc_names())


def test_digest_is_stable_across_processes_and_hash_seeds() -> None:
    import subprocess
    import sys

    code = "from ascend_sim.soc import load_soc; print(load_soc('310P3').digest)"
    for seed in ("0", "7"):
        env = {**os.environ, "PYTHONHASHSEED": seed}
        out = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
        assert out.stdout.strip() == load_soc("310P3").digest


@pytest.mark.parametrize("name", ["Ascend310P3", "Ascend910B4"])
def test_digest_changes_with_any_figure(name: str) -> None:
    soc = load_soc(name)
    seen = {soc.digest}
    numbers = [k for k, f in soc.figures.items() if isinstance(f.value, (int, float)) and not isinstance(f.value, bool)]
    for key in numbers:
        if key == "chip.run_mode":
            continue
        changed = soc.override({key: soc.figures[key].value + 1})  # type: ignore[operator]
        assert changed.digest not in seen, key
        seen.add(changed.digest)
    assert len(seen) > 80


def change(key: str, value: object) -> Callable[[Soc], Soc]:
    return lambda soc: soc.override({key: value})


@pytest.mark.parametrize(
    ("key", "value", "same_traces"),
    [
        ("cores.clock_mhz", 2000, True),
        ("memory.read_gbps", 900, True),
        ("vector.cycles.vadd", [1, 1, 1], True),
        ("mte.paths.GM_L1.bytes_per_cycle", 64, True),
        ("launch.head_us", 9, True),
        ("cores.ai_core_count", 8, False),
        ("buffers.ub_bytes", 65536, False),
        ("memory.l2_bytes", 2**20, False),
        ("sync.flag_ids", 4, False),
        ("chip.has_fixpipe", False, False),
    ],
)
def test_tiling_key_ignores_what_traces_do_not_depend_on(key: str, value: object, same_traces: bool) -> None:
    soc = load_soc("910B2")
    other = change(key, value)(soc)
    assert other.digest != soc.digest
    assert (other.tiling_key == soc.tiling_key) is same_traces
    hash(other.tiling_key)


def test_chips_of_one_generation_share_traces() -> None:
    assert load_soc("910B1").tiling_key == load_soc("910B2").tiling_key
    assert load_soc("910B2").tiling_key != load_soc("910B3").tiling_key


def test_override() -> None:
    soc = load_soc("910B2")
    other = soc.override({"read_gbps": 900, "mte.paths.UB_GM.latency_cycles": 1, "vector.cycles.vadd": (1, 2, 3)})
    assert other.memory.read_gbps == 900.0 and soc.memory.read_gbps == 1230
    assert other.mte.paths["UB_GM"] == dataclasses.replace(soc.mte.paths["UB_GM"], latency_cycles=1.0)
    assert other.vector.cycles["vadd"] == (1, 2, 3) and soc.vector.cycles["vadd"] == (3, 2, 24)
    assert other.figures["memory.read_gbps"].source == "override"
    assert other.confidence("memory.read_gbps") == "guess"
    assert soc.override({}) == soc
    path = {"fixed_cycles": 1, "burst_cycles": 2, "bytes_per_cycle": 3, "latency_cycles": 4, "floor_cycles": 5}
    assert dataclasses.asdict(soc.override({"mte.paths.GM_L1": path}).mte.paths["GM_L1"]) == path


def test_override_of_coupled_figures() -> None:
    soc = load_soc("910B2")
    half = soc.override({"ai_core_count": 12})
    assert (half.cores.ai_core_count, half.cores.vector_core_count) == (12, 24)
    assert soc.override({"ai_core_count": 12, "vector_core_count": 48}).cores.vector_core_count == 48
    assert load_soc("310P3").override({"ai_core_count": 4}).cores.vector_core_count == 7
    hbm = soc.override({"memory.hbm_gbps": 615})
    assert hbm.memory.read_gbps == 615 and hbm.memory.write_gbps == pytest.approx(895)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"memory.read_gpbs": 1}, "no figure 'memory.read_gpbs'; did you mean memory.read_gbps"),
        ({"nonsense": 1}, "no figure 'nonsense'"),
        ({3: 1}, "override keys are strings"),
        ({"cycles": 1}, "no figure 'cycles'"),
        ({"memory.read_gbps": "fast"}, "override memory.read_gbps: wrong type, expected float, got 'fast'"),
        ({"memory.hbm_gbps": 0}, "override memory.hbm_gbps: 0 GB/s is out of range"),
        ({"ai_core_count": 1.5}, "override cores.ai_core_count: wrong type, expected int"),
        ({"ai_core_count": 0}, "at least one AI core"),
        ({"vector.cycles.vadd": [1, 2]}, r"vector.cycles.vadd: wrong type, expected \[first, per_repeat, tail\]"),
        ({"vector.cycles.vadd": 5}, "vector.cycles.vadd: wrong type"),
        ({"mte.paths.GM_L1.bytes_per_cycle": -1}, "GM_L1.bytes_per_cycle: -1 B/cycle is out of range"),
        ({"mte.paths.GM_L1.lag": 1}, "no figure 'mte.paths.GM_L1.lag'"),
        ({"mte.paths.GM_L1": 5}, "mte.paths.GM_L1: wrong type"),
        ({"mte.paths.GM_L1": {"fixed_cycles": 1}}, "mte.paths.GM_L1: missing figure burst_cycles"),
    ],
)
def test_override_errors(changes: dict[str, object], problem: str) -> None:
    with pytest.raises(SocError, match=problem):
        load_soc("910B2").override(changes)


def test_confidence_is_the_worst() -> None:
    soc = load_soc("910B2")
    assert soc.confidence("cores.clock_mhz") == "measured"
    assert soc.confidence("buffers.l1_bytes", "cores.clock_mhz") == "documented"
    assert soc.confidence("cores.clock_mhz", "memory.read_gbps") == "derived"
    assert soc.confidence("mte.paths.L1_L0A") == "measured"
    assert soc.confidence() == "guess"
    worst = max(CONFIDENCES.index(f.confidence) for k, f in soc.figures.items() if k.startswith("memory."))
    assert soc.confidence("memory") == CONFIDENCES[worst]
    with pytest.raises(SocError, match=r"no figure 'memory.speed'"):
        soc.confidence("memory.speed")
