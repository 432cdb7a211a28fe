"""--fusion_switch_file: which passes are off."""

from __future__ import annotations

import json
from pathlib import Path

from ascend_sim.graph.errors import AtcError


def read_switches(path: str) -> frozenset[str]:
    """Names that the file switches off, from ``Pass:off`` lines or ``{"Switch": {"GraphFusion": {"Pass": "off"}}}``."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise AtcError("E10410", f"--fusion_switch_file {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise AtcError("E10001", f"--fusion_switch_file {path} is not a text file") from None
    if text.lstrip().startswith("{"):
        try:
            switch = json.loads(text)["Switch"]
            pairs = [(name, state) for group in switch.values() for name, state in group.items()]
        except (ValueError, KeyError, AttributeError):
            raise AtcError(
                "E10001", f'--fusion_switch_file {path} is not of the form {{"Switch": {{"GraphFusion": {{...}}}}}}'
            ) from None
    else:
        pairs = []
        for line in text.splitlines():
            name, _, state = (part.strip() for part in line.partition(":"))
            if not name and not state:
                continue
            if not name or state.lower() not in ("on", "off"):
                raise AtcError("E10001", f'--fusion_switch_file {path}: {line!r} is not of the form "Pass:off"')
            pairs.append((name, state))
    return frozenset(name for name, state in pairs if str(state).lower() == "off")
