"""What stock kernels spend on the scalar unit before they compute, in scalar instructions.

Public times of tiny calls lie several microseconds above launch and data: the kernel copies its tiling data, sets up
queues and, where it is built on the Matmul object of the Ascend C library, that object. Fitted on public cann-bench
times of Ascend910B2 (quantised and grouped products; rows of the fit in docs/accuracy.md).
"""

from __future__ import annotations

OBJECT_INIT = 2600
