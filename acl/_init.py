"""acl.init, finalize, versions, messages."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import Any

from acl import _config, _plog, errors
from acl._api import api, refuse_child
from acl._common import caller
from ascend_sim.runtime.system import system

_MAX_NESTING = 10
_VERSION = (8, 5, 0)  # the release whose codes and rules are imitated
_LOG_LEVELS = {0: logging.DEBUG, 1: logging.INFO, 2: logging.WARNING, 3: logging.ERROR}


@dataclass
class State:
    """``count`` of init calls not finalized; ``config`` of the first one; ``finalized`` since the last init."""

    count: int = 0
    config: str = ""
    finalized: bool = False


state = State()


def forget_all() -> None:
    """Tests: start over."""
    state.count, state.config, state.finalized = 0, "", False
    _config.forget_all()
    _plog.forget_all()


def _nesting(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max((_nesting(v) for v in value.values()), default=0)
    if isinstance(value, list):
        return 1 + max((_nesting(v) for v in value), default=0)
    return 0


def _read(path: str) -> tuple[str, dict[str, Any]] | int:
    """Text and content of acl.json."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        return errors.fail(errors.INVALID_FILE, f"config file {path!r} cannot be read: {error}.")
    if not text.strip():
        return text, {}
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        return errors.fail(errors.PARSE_FILE, f"config file {path!r} is not JSON: {error}.")
    if not isinstance(content, dict):
        kind = type(content).__name__
        return errors.fail(errors.PARSE_FILE, f"config file {path!r} holds a {kind}: expected an object.")
    if _nesting(content) > _MAX_NESTING:
        return errors.fail(errors.PARSE_FILE, f"config file {path!r} nests deeper than {_MAX_NESTING} levels.")
    return text, content


@api("acl.init", "aclInit")
def init(config_path: str | None = None, /) -> int:
    if config_path is not None and not isinstance(config_path, str):
        raise TypeError(f"init() argument 1: expected str, got {type(config_path).__name__}")
    refused = refuse_child("acl.init")
    if refused:
        return int(refused)
    text = ""
    content: dict[str, Any] = {}
    if config_path:
        read = _read(config_path)
        if isinstance(read, int):
            return read
        text, content = read
    if state.count:
        if text and text != state.config:
            return errors.fail(
                errors.INVALID_PARAM,
                f"config file {config_path!r} differs from the one acl.init was called with first.",
                "one configuration per process.",
            )
        state.count += 1
        return errors.fail(
            errors.REPEAT_INITIALIZE,
            f"acl.init was called before (now {state.count} times); this is harmless, everything keeps working.",
            "another framework of this process may have called it.",
        )
    ret = _config.choose_machine(content, str(config_path))
    if ret:
        return ret
    system()
    ret = _config.apply(content, str(config_path))
    if ret:
        return ret
    state.count, state.config, state.finalized = 1, text, False
    _plog.write(_plog.INFO, "ASCENDCL", f"acl.init({config_path!r})", kind="run")
    return 0


@api("acl.finalize", "aclFinalize")
def finalize() -> int:
    if state.finalized:
        return errors.fail(errors.REPEAT_FINALIZE, "acl.finalize was called before.", "acl.init starts anew.")
    state.finalized = True
    state.count = 0
    _config.end()
    return 0


@api("acl.finalize_reference", "aclFinalizeReference")
def finalize_reference() -> tuple[int, int]:
    if state.count < 1:
        return 0, errors.fail(errors.REPEAT_FINALIZE, "there is no acl.init left to finalize.")
    state.count -= 1
    state.finalized = state.count == 0
    if state.finalized:
        _config.end()
    return state.count, 0


@api("acl.get_version", "aclrtGetVersion")
def get_version() -> tuple[int, int, int, int]:
    return (*_VERSION, 0)


@api("acl.get_version_str", "aclsysGetVersionStr")
def get_version_str(pkg_name: str, /) -> tuple[str, int]:
    return ".".join(str(v) for v in _VERSION), 0


@api("acl.get_cann_version", "aclsysGetCANNVersion")
def get_cann_version(pkg_name_enum: int, /) -> tuple[dict[str, Any], int]:
    if not 0 <= pkg_name_enum <= 9:
        return {}, errors.bad("pkg_name_enum", pkg_name_enum, "a package number, 0 (CANN) first")
    major, minor, release = (str(v) for v in _VERSION)
    return {
        "version": f"{major}.{minor}.{release}",
        "major_version": major,
        "minor_version": minor,
        "release_version": release,
        "patch_version": "",
        "reserved": "",
    }, 0


@api("acl.get_soc_name", "aclrtGetSocName")
def get_soc_name() -> str | None:
    return str(system().soc.name)


@api("acl.app_log", "aclAppLog")
def app_log(log_level: int, message: str, /) -> None:
    logging.getLogger("acl").log(_LOG_LEVELS.get(log_level, logging.INFO), "%s", message)
    _plog.write(log_level if log_level in _LOG_LEVELS else _plog.INFO, "APP", message, caller())


@api("acl.get_recent_err_msg", "aclGetRecentErrMsg")
def get_recent_err_msg() -> str | None:
    return errors.take_messages()
