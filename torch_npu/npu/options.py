"""Options and switches: which are accepted, what they are now. Few of them change what a simulated chip does."""

from __future__ import annotations

import contextlib
import json
import os
import warnings
from collections.abc import Iterator
from enum import Enum
from typing import Any, ClassVar

from torch_npu.utils._error_code import ErrCode, pta_error

_ALLOWED: dict[str, tuple[str, ...] | None] = {
    # option -> values (None: any text), as Ascend/pytorch documents them (torch_npu/npu/npu_config.py)
    "ACL_PRECISION_MODE": ("allow_fp32_to_fp16", "must_keep_origin_dtype"),
    "ACL_OP_SELECT_IMPL_MODE": ("high_performance", "high_precision"),
    "ACL_AICORE_NUM": tuple(str(i) for i in range(1, 33)),
    "ACL_OPTYPELIST_FOR_IMPLMODE": None,
    "ACL_OP_DEBUG_LEVEL": ("0", "1", "2", "3", "4"),
    "ACL_DEBUG_DIR": None,
    "ACL_OP_COMPILER_CACHE_MODE": ("disable", "enable", "force"),
    "ACL_OP_COMPILER_CACHE_DIR": None,
    "ACL_OP_DEBUG_OPTION": None,
    "MM_BMM_ND_ENABLE": ("enable", "disable"),
    "NPU_FUZZY_COMPILE_BLACKLIST": None,
    "MDL_CONFIG": None,
    "jitCompile": ("enable", "disable"),
    "bmmv2_enable": ("enable", "disable"),
    "deterministic": ("enable", "disable"),
    "ALLOW_INTERNAL_FORMAT": ("enable", "disable"),
    "ALLOW_CONV_HF32": ("enable", "disable"),
    "ALLOW_MATMUL_HF32": ("enable", "disable"),
    "MM_BMM_FORMAT": None,
    "FORCE_ACLNN_OP_LIST": None,
    "ACL_OP_DETERMINISTIC": ("0", "1"),
}
_options: dict[str, str] = {"jitCompile": "disable", "MM_BMM_ND_ENABLE": "enable", "ALLOW_INTERNAL_FORMAT": "disable",
                            "ALLOW_CONV_HF32": "enable", "ALLOW_MATMUL_HF32": "disable"}  # fmt: skip


def set_option(option: dict[str, Any]) -> None:
    """Set options by name. TypeError when it is no dict, ValueError for a name or value that does not exist."""
    if not isinstance(option, dict):
        raise TypeError("npu option must be a dict." + pta_error(ErrCode.PARAM))
    for name, value in option.items():
        if name not in _ALLOWED:
            raise ValueError(
                f"value of npu option {name} is not valid: no option has this name" + pta_error(ErrCode.VALUE)
            )
        allowed = _ALLOWED[name]
        if allowed is not None and str(value) not in allowed:
            raise ValueError(
                f"value of {name} should be in [{', '.join(allowed)}] but got {value}" + pta_error(ErrCode.VALUE)
            )
    for name, value in option.items():
        _options[name] = str(value)


def get_option(name: str) -> str:
    return _options.get(name, "")


def set_compile_mode(jit_compile: bool = False) -> None:
    set_option({"jitCompile": "enable" if jit_compile else "disable"})


def is_jit_compile_false() -> bool:
    return _options["jitCompile"] == "disable"


def set_mm_bmm_format_nd(nd: bool) -> None:
    if not isinstance(nd, bool):
        raise TypeError(f"nd should be a bool, but got {type(nd)}" + pta_error(ErrCode.TYPE))
    set_option({"MM_BMM_ND_ENABLE": "enable" if nd else "disable"})


def get_mm_bmm_format_nd() -> bool:
    return _options["MM_BMM_ND_ENABLE"] == "enable"


def check_environment() -> None:
    """What variables of the environment say about the start of acl: RuntimeError for a file that is no use, a warning
    for a mode that does not exist (names and rules of torch_npu)."""
    mode = os.environ.get("ACL_OP_INIT_MODE")
    if mode not in (None, "0", "1", "2"):
        warnings.warn(f"Get env ACL_OP_INIT_MODE not in [0, 1, 2], but got {mode}: the default is used", stacklevel=2)
    path = os.environ.get("TORCH_ACL_INIT_CONFIG_PATH")
    if not path:
        return
    if not os.path.isfile(path):
        raise RuntimeError(f"TORCH_ACL_INIT_CONFIG_PATH is invalid: there is no file {path}" + pta_error(ErrCode.PARAM))
    try:
        with open(path, encoding="utf-8") as file:
            given = json.load(file)
    except ValueError as error:
        raise RuntimeError(f"Failed to parse user acl json {path}: {error}" + pta_error(ErrCode.PARAM)) from error
    default = given.get("defaultDevice") if isinstance(given, dict) else None
    if not isinstance(default, dict) or "default_device" not in default:
        raise RuntimeError(f"{path} lacks 'defaultDevice' with 'default_device'" + pta_error(ErrCode.PARAM))
    given = default["default_device"]
    if given != "0":
        raise RuntimeError(f"{path} requires default_device to be '0', but got {given!r}" + pta_error(ErrCode.VALUE))


def set_aoe(dump_path: str) -> None:
    os.makedirs(dump_path, exist_ok=True)


def set_dump(path_to_json: str) -> None:
    if not os.path.exists(path_to_json):
        raise AssertionError("cfg_path is not exists!" + pta_error(ErrCode.NOT_FOUND))


def init_dump() -> None:
    """Dumping of operators' inputs is not there; accepted."""


def finalize_dump() -> None:
    """Ends what `init_dump` began."""


def set_op_timeout_ms(timeout: int) -> None:
    """Operators of a simulated chip do not hang; accepted."""
    if not isinstance(timeout, int):
        raise TypeError(f"timeout must be an int, got {type(timeout).__name__}" + pta_error(ErrCode.TYPE))
    if timeout < 0:
        raise OverflowError("can't convert negative value to unsigned int")
    if timeout >= 1 << 32:
        raise OverflowError("Overflow when unpacking unsigned int")


_overflow = [False]


def get_npu_overflow_flag() -> bool:
    """Whether a half overflowed since the flag was cleared: gradients are checked by value, so it stays False."""
    return _overflow[0]


def clear_npu_overflow_flag() -> None:
    _overflow[0] = False


class _NPUConfig:
    """``torch.npu.config``: ``allow_internal_format`` may be set and read."""

    _names: ClassVar[dict[str, str]] = {"allow_internal_format": "ALLOW_INTERNAL_FORMAT"}

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._names:
            raise AttributeError(f"torch.npu.config has no attribute {name!r}")
        set_option({self._names[name]: "enable" if value else "disable"})

    def __getattr__(self, name: str) -> Any:
        if name not in self._names:
            raise AttributeError(f"torch.npu.config has no attribute {name!r}")
        return _options[self._names[name]] == "enable"


class _HF32:
    """``torch.npu.matmul`` and ``torch.npu.conv``: ``allow_hf32``."""

    def __init__(self, option: str) -> None:
        self.__dict__["_option"] = option

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "allow_hf32":
            raise AttributeError(f"expected allow_hf32, got {name!r}")
        set_option({self._option: "enable" if value else "disable"})

    def __getattr__(self, name: str) -> Any:
        if name != "allow_hf32":
            raise AttributeError(f"expected allow_hf32, got {name!r}")
        return _options[self.__dict__["_option"]] == "enable"


config = _NPUConfig()
matmul = _HF32("ALLOW_MATMUL_HF32")
conv = _HF32("ALLOW_CONV_HF32")


class CubeMathType(Enum):
    """How the cube may compute float32 (values of aclnn's cubeMathType)."""

    KEEP_DTYPE = 0
    ALLOW_FP32_DOWN_PRECISION = 1
    USE_FP16 = 2
    USE_HF32 = 3


_deterministic = {"level": 0, "backward": False}


def enable_deterministic_with_backward(tensor: Any) -> Any:
    _deterministic["backward"] = True
    return tensor


def disable_deterministic_with_backward(tensor: Any) -> Any:
    _deterministic["backward"] = False
    return tensor


def set_deterministic_level(level: int) -> None:
    _deterministic["level"] = level


_compatible = {"on": False}


def use_compatible_impl(is_compatible: bool) -> None:
    _compatible["on"] = bool(is_compatible)


def are_compatible_impl_enabled() -> bool:
    return _compatible["on"]


@contextlib.contextmanager
def _super_kernel() -> Iterator[None]:
    yield


def super_kernel_scope_begin(*_: Any, **__: Any) -> None:
    """Kernels are not joined here; accepted."""


def super_kernel_scope_end(*_: Any, **__: Any) -> None:
    """Ends what `super_kernel_scope_begin` began."""


def obfuscation_initialize(*_: Any, **__: Any) -> Any:
    raise NotImplementedError("model obfuscation needs a hardware service that is not simulated")


obfuscation_finalize = obfuscation_calculate = obfuscation_initialize
