"""A simulator of Huawei Ascend NPUs with an ACL-compatible API.

>>> from ascend_sim import simulate_op
>>> simulate_op("Add", ["1048576:float16"] * 2, soc="Ascend910B2").bytes["gm_read"]
4194304
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# A checkout has kernels and configs beside this package, an installation has them in it. A program that starts in a
# checkout imports the checkout, installed or not.
if not Path(__file__).with_name("configs").is_dir():
    __path__.append(str(Path(__file__).parent.parent))

if TYPE_CHECKING:
    from ascend_sim.api import Profile, Report, Simulator, load_soc, profile, simulate_model, simulate_op

__all__ = ["Profile", "Report", "Simulator", "load_soc", "profile", "simulate_model", "simulate_op"]


def __getattr__(name: str) -> Any:
    """The names of `ascend_sim.api`, imported when they are first asked for: `acl` needs none of them."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ascend_sim import api

    return getattr(api, name)
