"""What ``torch.cuda.amp.common`` offers."""


def amp_definitely_not_available() -> bool:
    from torch_npu.npu.devices import is_available

    return not is_available()
