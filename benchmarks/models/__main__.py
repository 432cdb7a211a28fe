"""``python -m benchmarks.models DIR [NAME ...]``: write the networks."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.models import NETWORKS, write


def main(argv: list[str]) -> int:
    if not argv or argv[0].startswith("-"):
        print("usage: python -m benchmarks.models DIR [NAME ...]", file=sys.stderr)
        return 2
    unknown = [name for name in argv[1:] if name not in NETWORKS]
    if unknown:
        print(f"no network is called {unknown[0]!r}; there are {', '.join(NETWORKS)}", file=sys.stderr)
        return 2
    for path in write(Path(argv[0]), argv[1:]):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
