"""The ``ascend-sim`` command: a registry of subcommands, each in a module of its own."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from ascend_sim import __version__
from ascend_sim.cli.errors import CommandError
from ascend_sim.soc import SocError

# Each module has ``add_parser(subparsers)``, which sets ``func`` to a callable (args) -> exit code.
COMMANDS = ("run", "report", "compare", "op", "model", "kernel", "sweep", "validate", "configs", "smi", "msprof",
            "shims", "doctor", "completion")  # fmt: skip
RAW = "msprof"  # parses its own arguments

INTERRUPTED, BROKEN_PIPE = 130, 141  # exit codes of a shell for SIGINT and SIGPIPE


def build_parser(commands: Sequence[str] = COMMANDS) -> argparse.ArgumentParser:
    """The parser with these subcommands; only their modules are imported."""
    parser = argparse.ArgumentParser(
        prog="ascend-sim",
        description="Run Ascend programs on simulated NPUs and see where the time goes.",
        epilog="example: ascend-sim run --soc Ascend310P3 --profile out app.py",
    )
    parser.add_argument("--version", action="version", version=f"ascend-sim {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in commands:
        importlib.import_module(f"ascend_sim.cli.{name}").add_parser(subparsers)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    known = words[:1] if words and words[0] in COMMANDS else COMMANDS
    args = build_parser(known).parse_args(words[:1] if words[:1] == [RAW] else words)
    if args.command == RAW:
        args.arguments = words[1:]
    try:
        code = int(args.func(args))
        sys.stdout.flush()
    except (CommandError, SocError) as error:
        print(f"ascend-sim {args.command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"ascend-sim {args.command}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader (head, less) has gone; nothing is left to flush at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except OSError as error:  # of a program's own errors, run shows the traceback
        where = f"{error.filename}: " if error.filename is not None else ""
        print(f"ascend-sim {args.command}: {where}{error.strerror or error}", file=sys.stderr)
        return 2
    return code


if __name__ == "__main__":
    sys.exit(main())
