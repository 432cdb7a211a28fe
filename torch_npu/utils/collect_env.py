"""Versions of the environment."""

from __future__ import annotations


def get_cann_version(module: str = "CANN") -> str:
    """The release whose behaviour is imitated, as ``acl.get_cann_version`` says."""
    import acl

    return str(acl.get_cann_version(0)[0].get("version", ""))
