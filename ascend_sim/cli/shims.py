"""Entry points that stand in for the vendor's command-line tools."""

from __future__ import annotations


def atc() -> int:
    """The ``atc`` command."""
    from ascend_sim.graph.atc import atc_main

    return atc_main()
