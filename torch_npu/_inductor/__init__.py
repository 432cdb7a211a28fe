"""Name that programs import before ``torch.compile``; graphs run operator by operator, no kernels are generated."""
