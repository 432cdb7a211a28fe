from torch_npu import _setup
from torch_npu.npu import config


def is_available(): return True
def device_count(): return 8
def current_device(): return _setup.ext.current_device()
def _is_in_bad_fork(): return False
def _lazy_init(): pass
def manual_seed_all(s): pass
def is_initialized(): return True
def synchronize(d=None):
    from torch_npu._backend import backend
    backend.synchronize_device(0)
def get_amp_supported_dtype():
    import torch
    return [torch.float16, torch.bfloat16]
