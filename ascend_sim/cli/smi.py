"""``ascend-sim smi``: simulated devices in the layouts of ``npu-smi info``.

Layouts are those of public npu-smi listings: one table for chips with HBM (910 and 910B), one for 310, 310P and 310B.
Devices are those of running ``ascend-sim run`` processes (or the last one); otherwise idle ones of the chosen chip.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from ascend_sim import __version__, soc
from ascend_sim.cli import smi_watch
from ascend_sim.cli.errors import CommandError
from ascend_sim.runtime import status
from ascend_sim.runtime.system import device_count
from ascend_sim.soc import Soc

MIB = 1 << 20
IDLE_C = 36  # nothing models heat
TYPES = ("power", "usages", "memory", "temp", "health", "board", "common", "proc-mem")
NO_PROC = "This device does not support querying proc info."  # of its operating system: as npu-smi says of most chips


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "smi",
        help="show simulated devices as npu-smi does",
        epilog="examples: ascend-sim smi info -t usages -i 0 | ascend-sim smi info watch -d 5 -s pam",
    )
    parser.add_argument("what", nargs="?", default="info", choices=["info"])
    parser.add_argument("how", nargs="?", choices=["watch", "proc"], help="watch: a line a device, again and again")
    parser.add_argument("--soc", help="chip when no simulation has run (default: ASCEND_SIM_SOC, else Ascend910B2)")
    parser.add_argument("-l", dest="listing", action="store_true", help="list the NPUs")
    parser.add_argument("-m", dest="mapping", action="store_true", help="map NPUs to chips and names")
    parser.add_argument("-t", dest="type", choices=TYPES, help="one kind of facts of an NPU")
    parser.add_argument("-i", dest="npu", type=int, metavar="ID", help="the NPU of -t (default 0) or watch (all)")
    parser.add_argument("-c", dest="chip", type=int, default=0, metavar="CHIP", help="the chip of the NPU, always 0")
    parser.add_argument("-d", dest="delay", type=int, default=1, metavar="S", help="seconds between two of watch")
    letters = "what watch shows: Power, Temperature, Ai core, aI cpu, Control cpu, Memory, memory Bandwidth"
    parser.add_argument("-s", dest="metrics", default=smi_watch.ALL, metavar="LETTERS", help=letters)
    parser.add_argument("--rounds", type=int, metavar="N", help="end watch after N (not an option of npu-smi itself)")
    parser.add_argument("--json", action="store_true", help="machine readable")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    chip, devices = _present(args.soc)
    if args.chip != 0:
        raise CommandError(f"-c {args.chip}: an NPU has one chip, 0")
    if args.how == "proc":
        print(NO_PROC)
    elif args.how == "watch":
        _watch(args)
    elif args.json:
        shown = [_one(devices, args.npu or 0)] if args.type else devices
        print(json.dumps({"soc": chip.name, "devices": shown}, indent=1))
    elif args.listing:
        print(_listing(devices))
    elif args.mapping:
        print(_mapping(devices, chip))
    elif args.type:
        print(_facts(args.type, _one(devices, args.npu or 0), chip))
    else:
        print(_table(devices, chip))
        _say_last(devices)
    return 0


def _present(name: str | None) -> tuple[Soc, list[dict[str, Any]]]:
    """The chip and its devices as they are now."""
    try:
        states = status.processes()
        chip = soc.load_soc(name or (states[0]["soc"] if states else None))
        return chip, _devices([s for s in states if s["soc"] == chip.name], chip)
    except ValueError as error:  # no such chip, or a wrong ASCEND_SIM_DEVICES
        raise CommandError(str(error)) from error


def _watch(args: argparse.Namespace) -> None:
    smi_watch.check(args.metrics, args.delay)
    for number in smi_watch.rounds(args.delay, args.rounds):
        chip, devices = _present(args.soc)
        shown = devices if args.npu is None else [_one(devices, args.npu)]
        if args.json:
            print(json.dumps({"soc": chip.name, "devices": shown}), flush=True)
            continue
        lines = [] if number else [smi_watch.title(args.metrics)]
        lines += [smi_watch.row(device, args.metrics, IDLE_C) for device in shown]
        print("\n".join(lines), flush=True)


def _say_last(devices: list[dict[str, Any]]) -> None:
    """To stderr: readers of the table expect nothing else in it."""
    for device in devices:
        for last in device["last"]:
            print(
                f"NPU {device['id']}, last run ({last['program']}): {last['us']:.1f} us, AI cores {last['aicore']:.1%},"
                f" memory peak {last['peak'] / MIB:.1f} MB",
                file=sys.stderr,
            )


def _one(devices: list[dict[str, Any]], npu: int) -> dict[str, Any]:
    for device in devices:
        if device["id"] == npu:
            return device
    raise CommandError(f"-i {npu}: expected an NPU from 0 to {len(devices) - 1}")


def _devices(states: list[dict[str, Any]], chip: Soc) -> list[dict[str, Any]]:
    """One record per NPU: memory in bytes, use of the AI cores (0..1) and power, with the processes on it."""
    count = max((int(s["count"]) for s in states), default=device_count())
    found = []
    for number in range(count):
        owners = [(s, d) for s in states for d in s["devices"] if d["id"] == number]
        running = [(s, d) for s, d in owners if s["alive"]]
        use = min(1.0, sum(d["aicore"] for _, d in running))
        board = chip.board
        found.append({
            "id": number, "name": board.smi_name, "bus": f"0000:{0x81 + number:02X}:00.0",
            "capacity": chip.memory.capacity_bytes, "used": sum(d["used"] for _, d in running), "aicore": use,
            "power": board.idle_power_w + use * (board.power_w - board.idle_power_w),
            "processes": [{"pid": s["pid"], "name": s["program"], "used": d["used"]} for s, d in running],
            "last": [{"program": s["program"], "peak": d["peak"], "aicore": d["aicore"], "us": d["us"]}
                     for s, d in owners if not s["alive"]],
        })  # fmt: skip
    return found


# -- the table ---------------------------------------------------------------------------------------------


def _table(devices: list[dict[str, Any]], chip: Soc) -> str:
    hbm = chip.memory.kind == "HBM"
    widths = (27, 15, 52) if hbm else (31, 17, 54)
    first = 6 if hbm else 8
    rule, double = _rule(widths, "-"), _rule(widths, "=")
    whole = sum(widths) + 2
    lines = [
        "+" + "-" * whole + "+",
        _row((f" npu-smi {__version__}".ljust(34) + f"Version: {__version__}",), (whole,)),
    ]
    if hbm:
        titles = ("Power(W)    Temp(C)           Hugepages-Usage(page)", "AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)")
    else:
        titles = ("Power(W)     Temp(C)           Hugepages-Usage(page)", "AICore(%)    Memory-Usage(MB)")
    lines += [rule, _row((f" {'NPU':<{first}}Name", " Health", f" {titles[0]}"), widths)]
    lines += [_row((f" {'Chip':<{first}}{'' if hbm else 'Device'}", " Bus-Id", f" {titles[1]}"), widths), double]
    for d in devices:
        memory = f"{d['used'] // MIB:<5}/ {d['capacity'] // MIB}"
        core = f"{100 * d['aicore']:.0f}"
        if hbm:
            upper, lower = f" {d['power']:<12.1f}{IDLE_C:<18}0    / 0", f" {core:<12}0    / 0          {memory}"
        else:
            upper, lower = f" {d['power']:<13.1f}{IDLE_C:<18}0     / 0", f" {core:<13}{memory}"
        lines.append(_row((f" {d['id']:<{first}}{d['name']}", " OK", upper), widths))
        lines.append(_row((f" {0:<{first}}{'' if hbm else d['id']}", f" {d['bus']}", lower), widths))
        lines.append(double)
    parts = (*widths[:2], 26, widths[2] - 27)  # the rules of this table keep three columns
    heads = (" NPU     Chip", " Process id", " Process name", " Process memory(MB)")
    lines += [rule, _row(heads, parts), double]
    for d in devices:
        for p in d["processes"]:
            cells = (f" {d['id']:<8}0", f" {p['pid']}", f" {p['name'][:24]}", f" {p['used'] // MIB}")
            lines.append(_row(cells, parts))
        if not d["processes"]:
            lines.append(_row((f" No running processes found in NPU {d['id']}",), (whole,)))
        lines.append(double)
    return "\n".join(lines)


def _rule(widths: tuple[int, ...], mark: str) -> str:
    return "+" + "+".join(mark * w for w in widths) + "+"


def _row(cells: tuple[str, ...], widths: tuple[int, ...]) -> str:
    return "|" + "|".join(c[:w].ljust(w) for c, w in zip(cells, widths, strict=True)) + "|"


# -- lists and facts ---------------------------------------------------------------------------------------


def _pairs(pairs: list[tuple[str, object]]) -> str:
    return "\n".join(f"\t{key:<31}: {value}" for key, value in pairs)


def _listing(devices: list[dict[str, Any]]) -> str:
    blocks = [_pairs([("Card Count", len(devices))])]
    blocks += [_pairs([("NPU ID", d["id"]), ("Chip Count", 1)]) for d in devices]
    return "\n\n".join(blocks)


def _mapping(devices: list[dict[str, Any]], chip: Soc) -> str:
    lines = [f"\t{'NPU ID':<31}{'Chip ID':<31}{'Chip Logic ID':<31}Chip Name"]
    lines += [f"\t{d['id']:<31}{0:<31}{d['id']:<31}Ascend {chip.board.smi_name}" for d in devices]
    return "\n".join(lines)


def _facts(kind: str, device: dict[str, Any], chip: Soc) -> str:
    if kind == "proc-mem":
        ends = (_pairs([("NPU ID", device["id"]), ("Chip Count", 1)]), _pairs([("Chip ID", 0)]))
        return f"{ends[0]}\n\n{smi_watch.processes(device)}\n{ends[1]}"
    memory = "HBM" if chip.memory.kind == "HBM" else "Memory"
    rate = f"{100 * device['used'] / device['capacity']:.0f}"
    head: list[tuple[str, object]] = [("NPU ID", device["id"]), ("Chip Count", 1)]
    capacity: tuple[str, object] = (f"{memory} Capacity(MB)", device["capacity"] // MIB)
    usage: tuple[str, object] = (f"{memory} Usage Rate(%)", rate)
    cores: tuple[str, object] = ("Aicore Usage Rate(%)", f"{100 * device['aicore']:.0f}")
    power: tuple[str, object] = ("Power Dissipation(W)", f"{device['power']:.1f}")
    heat: tuple[str, object] = ("Temperature(C)", IDLE_C)
    facts: dict[str, list[tuple[str, object]]] = {
        "power": [power],
        "usages": [capacity, usage, ("Hugepages Total(page)", 0), ("Hugepages Usage Rate(%)", 0), cores,
                   ("Aicpu Usage Rate(%)", 0), ("Ctrlcpu Usage Rate(%)", 0)],
        "memory": [capacity, (f"{memory} Clock Speed(MHz)", "NA")],
        "temp": [heat],
        "health": [("Health", "OK"), ("Error Code", "NA")],
        "board": [("Product Name", chip.board.product), ("Software Version", __version__),
                  ("PCIe Bus Info", device["bus"])],
        "common": [cores, usage, power, heat, ("Aicore Freq(MHZ)", f"{chip.cores.clock_mhz:g}")],
    }  # fmt: skip
    return _pairs([*head, *facts[kind], ("Chip ID", 0)])
