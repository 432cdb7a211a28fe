"""``from torch_npu.contrib import transfer_to_npu``: scripts written for CUDA run on device npu.

``torch.cuda`` becomes ``torch.npu``, "cuda" in device arguments becomes "npu", "nccl" becomes "hccl". What is replaced
follows the public list of torch_npu (Ascend/pytorch, torch_npu/contrib/transfer_to_npu.py).
"""

from __future__ import annotations

import functools
import os
import sys
import warnings
from typing import Any

import torch

import torch_npu
from torch_npu import profiler

_FUNCTIONS = [
    "arange",
    "as_tensor",
    "asarray",
    "bartlett_window",
    "blackman_window",
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_quantized",
    "empty_strided",
    "eye",
    "fft.fftfreq",
    "fft.rfftfreq",
    "from_file",
    "full",
    "full_like",
    "hamming_window",
    "hann_window",
    "kaiser_window",
    "linspace",
    "load",
    "logspace",
    "normal",
    "ones",
    "ones_like",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "randperm",
    "range",
    "scalar_tensor",
    "set_default_device",
    "sparse_bsc_tensor",
    "sparse_bsr_tensor",
    "sparse_compressed_tensor",
    "sparse_coo_tensor",
    "sparse_csc_tensor",
    "sparse_csr_tensor",
    "tensor",
    "tril_indices",
    "triu_indices",
    "zeros",
    "zeros_like",
    "get_device_module",
    "_pin_memory",
    "autocast",
]
_TENSOR = [
    "new_empty",
    "new_empty_strided",
    "new_full",
    "new_ones",
    "new_tensor",
    "new_zeros",
    "to",
    "pin_memory",
    "is_pinned",
]
_MODULE = ["to", "to_empty"]
_DEVICE_FUNCTIONS = [
    "set_device",
    "get_device_name",
    "get_device_properties",
    "get_device_capability",
    "synchronize",
    "memory_allocated",
    "max_memory_allocated",
    "memory_reserved",
    "max_memory_reserved",
    "memory_stats",
    "memory_summary",
    "memory_snapshot",
    "reset_peak_memory_stats",
    "reset_max_memory_allocated",
    "mem_get_info",
    "current_stream",
    "default_stream",
    "stream",
    "set_rng_state",
    "get_rng_state",
    "set_per_process_memory_fraction",
    "utilization",
    "can_device_access_peer",
    "device",
]
_KEYWORDS = ("device", "device_type", "map_location", "device_id", "device_ids", "output_device")


def _moved(value: Any) -> Any:
    """ "cuda..." as "npu...", wherever a device may be named."""
    if isinstance(value, str):
        return value.replace("cuda", "npu") if value.startswith("cuda") else value
    if isinstance(value, torch.device):
        return torch.device("npu", value.index) if value.type == "cuda" else value
    if isinstance(value, dict):
        return {_moved(k): _moved(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_moved(v) for v in value) if type(value) in (list, tuple) else value
    return value


def _keyword(name: str, value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool) and name in ("device", "map_location", "device_id"):
        return f"npu:{value}"
    return _moved(value)


def _wrapped(function: Any) -> Any:
    if getattr(function, "_moved_to_npu", False):
        return function

    @functools.wraps(function, assigned=[a for a in functools.WRAPPER_ASSIGNMENTS if hasattr(function, a)])
    def call(*args: Any, **kwargs: Any) -> Any:
        if args:
            args = tuple(_moved(a) if isinstance(a, str | torch.device | dict) else a for a in args)
        for name in _KEYWORDS:
            if name in kwargs:
                kwargs[name] = _keyword(name, kwargs[name])
        return function(*args, **kwargs)

    call._moved_to_npu = True  # type: ignore[attr-defined]
    return call


def _wrap(owner: Any, names: list[str]) -> None:
    for name in names:
        *path, last = name.split(".")
        place = owner
        for part in path:
            place = getattr(place, part)
        found = getattr(place, last, None)
        if found is None:
            continue
        if isinstance(found, type):
            found.__init__ = _wrapped(found.__init__)  # type: ignore[misc]
        else:
            setattr(place, last, _wrapped(found))


class _DeviceMeta(type):
    """``torch.device("cuda")`` is device npu, and still a `torch.device`."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, _device)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        args = tuple(_moved(a) for a in args)
        if "type" in kwargs:
            kwargs["type"] = _moved(kwargs["type"])
        if args and isinstance(args[0], int):
            return _device("npu", args[0])
        return _device(*args, **kwargs)


class _ProxyMeta(type):
    """A class of torch whose constructor takes "cuda" for npu."""

    real: Any

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, cls.real)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, cls.real)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return _wrapped(cls.real)(*args, **kwargs)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls.real, name)


_device = torch.device


def _proxy(real: Any) -> Any:
    return _ProxyMeta(real.__name__, (), {"real": real, "__doc__": real.__doc__})


def _swap_modules() -> None:
    npu = torch.npu  # type: ignore[attr-defined]
    original = torch.cuda
    for name in dir(original):  # names that scripts ask for and device npu has no own of
        if not hasattr(npu, name) and not name.startswith("__"):
            setattr(npu, name, getattr(original, name))
    npu._CudaDeviceProperties = npu._NPUDeviceProperties
    npu.CUDAGraph = npu.NPUGraph
    npu.DoubleTensor = npu.FloatTensor
    npu.amp.autocast_mode.autocast = npu.amp.autocast
    torch.cuda = npu  # type: ignore[assignment]
    npu.__path__ = [*npu.__path__, *original.__path__]  # modules of torch.cuda that nobody has imported so far
    for name, module in {
        "torch.cuda": npu, "torch.cuda.amp": npu.amp, "torch.cuda.random": npu.random,
        "torch.cuda.amp.autocast_mode": npu.amp.autocast_mode, "torch.cuda.amp.common": npu.amp.common,
        "torch.cuda.amp.grad_scaler": npu.amp.grad_scaler, "torch.cuda.memory": npu.memory,
        "torch.cuda.streams": npu.streams, "torch.cuda.graphs": sys.modules["torch_npu.npu.graphs"],
    }.items():  # fmt: skip
        sys.modules[name] = module
    torch.amp.GradScaler.__init__ = _wrapped(torch.amp.GradScaler.__init__)  # type: ignore[method-assign]


def _swap_tensors() -> None:
    tensor, module = torch.Tensor, torch.nn.Module
    npu_tensor, npu_module = tensor.npu, module.npu  # type: ignore[attr-defined]

    def cuda(self: Any, device: Any = None, non_blocking: bool = False, **_: Any) -> Any:
        device = _moved(device)
        if isinstance(device, _device):
            device = device.index
        elif isinstance(device, str):
            device = _device(device).index
        return npu_tensor(self, device, non_blocking) if device is not None else npu_tensor(self)

    def module_cuda(self: Any, device: Any = None) -> Any:
        device = _moved(device)
        if isinstance(device, str):
            device = _device(device)
        return npu_module(self, device.index if isinstance(device, _device) else device)

    tensor.cuda = cuda  # type: ignore[method-assign]
    module.cuda = module_cuda  # type: ignore[method-assign]
    tensor.is_cuda = property(lambda self: self.device.type == "npu")  # type: ignore[assignment]
    for storage in (torch.UntypedStorage, torch.TypedStorage):
        storage.cuda = storage.npu  # type: ignore[attr-defined]
        storage.is_cuda = property(lambda self: self.device.type == "npu")  # type: ignore[attr-defined]


def _swap_distributed() -> None:
    import torch.distributed as dist

    if not dist.is_available():
        return
    import torch.distributed.distributed_c10d as c10d

    def hccl(name: Any) -> Any:
        return name.replace("nccl", "hccl").replace("cuda", "npu") if isinstance(name, str) else name

    def renamed(function: Any) -> Any:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            args = tuple(hccl(a) for a in args)
            if "backend" in kwargs:
                kwargs["backend"] = hccl(kwargs["backend"])
            if "device_id" in kwargs:
                kwargs["device_id"] = _moved(kwargs["device_id"])
            return function(*args, **kwargs)

        return call

    for name in ("init_process_group", "_new_group_with_tag", "new_group"):
        wrapped = renamed(getattr(c10d, name))
        setattr(c10d, name, wrapped)
        if hasattr(dist, name):
            setattr(dist, name, wrapped)
    for place in (dist, c10d):
        place.is_nccl_available = torch_npu.distributed.is_hccl_available  # type: ignore[attr-defined]
        place.ProcessGroupNCCL = place.ProcessGroupHCCL  # type: ignore[attr-defined]
    dist.Backend.default_device_backend_map.pop("cuda", None)
    torch.nn.parallel.DistributedDataParallel.__init__ = _wrapped(  # type: ignore[method-assign]
        torch.nn.parallel.DistributedDataParallel.__init__
    )
    try:
        from torch.distributed import device_mesh
        from torch.distributed.fsdp import FullyShardedDataParallel

        FullyShardedDataParallel.__init__ = _wrapped(FullyShardedDataParallel.__init__)  # type: ignore[method-assign]
        device_mesh.DeviceMesh.__init__ = _wrapped(device_mesh.DeviceMesh.__init__)  # type: ignore[method-assign]
        device_mesh.init_device_mesh = _wrapped(device_mesh.init_device_mesh)
        dist.init_device_mesh = device_mesh.init_device_mesh
    except ImportError:
        pass


def _swap_profiler() -> None:
    for name in ("profile", "schedule", "tensorboard_trace_handler", "ProfilerAction"):
        setattr(torch.profiler, name, getattr(profiler, name))

    class Activity:
        CPU, CUDA, NPU = profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.NPU, profiler.ProfilerActivity.NPU

    torch.profiler.ProfilerActivity = Activity  # type: ignore[misc, assignment]
    torch.autograd.profiler_util.Kernel = _proxy(torch.autograd.profiler_util.Kernel)  # type: ignore[misc, assignment]


def _identity_script(value: Any = None, *_: Any, **__: Any) -> Any:
    warnings.warn("torch.jit.script will be disabled by transfer_to_npu, which currently does not support it",
                  RuntimeWarning, stacklevel=2)  # fmt: skip
    return value if value is not None else (lambda v: v)


def _install() -> None:
    if getattr(torch, "_moved_to_npu", False):
        return
    torch._moved_to_npu = True  # type: ignore[attr-defined]
    if os.environ.get("RANK", "0") == "0":
        warnings.warn(
            "torch.cuda and its device strings are replaced: .cuda() and 'cuda' mean device npu, nccl means hccl",
            ImportWarning, stacklevel=3,
        )  # fmt: skip
    from torch.utils import _device as contexts

    contexts._device_constructors()  # remembers the functions that `with torch.device(...)` moves, as they are now
    _swap_modules()
    _swap_tensors()
    _wrap(torch, _FUNCTIONS)
    _wrap(torch.Tensor, _TENSOR)
    _wrap(torch.nn.Module, _MODULE)
    _wrap(torch.npu, _DEVICE_FUNCTIONS)  # type: ignore[attr-defined]
    torch.autocast.__init__ = _wrapped(torch.autocast.__init__)  # type: ignore[method-assign]
    contexts.DeviceContext.__init__ = _wrapped(contexts.DeviceContext.__init__)  # type: ignore[method-assign]
    torch.UntypedStorage.__new__ = staticmethod(_wrapped(torch.UntypedStorage.__new__))  # type: ignore[assignment]
    torch.Generator = _proxy(torch.Generator)  # type: ignore[misc]
    torch.Event = _proxy(torch.Event)  # type: ignore[misc]
    torch.device = _DeviceMeta("device", (), {})  # type: ignore[misc, assignment]
    torch._C._host_emptyCache = torch_npu._C._npu_hostEmptyCache  # type: ignore[attr-defined]
    _swap_distributed()
    _swap_profiler()
    torch.jit.script = torch.jit.script_method = _identity_script
    from torch.utils import _triton

    _triton.has_triton = lambda: False  # type: ignore[assignment]


_install()
