"""acl.mdl: the operator behind a failed task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from acl import errors, handles
from acl._api import api
from acl._descs import DTYPE_NUMBERS, FORMAT_NUMBERS, TensorDesc
from acl._rt_exception import failed_tasks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ascend_sim.ops.schema import TensorSpec

_NAME_LIMIT = 4096


def _descs(specs: Sequence[TensorSpec | None], addresses: Sequence[int]) -> tuple[int, int]:
    """A handle for descriptions of tensors, and how many they are; the rest hangs on the first one."""
    made = []
    for spec, address in zip(specs, addresses, strict=True):
        if spec is None:
            continue
        desc = TensorDesc(
            DTYPE_NUMBERS.get(spec.dtype, -1), list(spec.shape), FORMAT_NUMBERS.get(spec.format, -1), address=address
        )
        made.append(desc)
    if not made:
        return 0, 0
    made[0].others = [handles.new(desc) for desc in made[1:]]
    return handles.new(made[0]), len(made)


@api("acl.mdl.create_and_get_op_desc", "aclmdlCreateAndGetOpDesc")
def create_and_get_op_desc(
    device_id: int, stream_id: int, task_id: int, op_name_len: int, /
) -> tuple[str, int, int, int, int, int]:
    def refused(ret: int) -> tuple[str, int, int, int, int, int]:
        return "", 0, 0, 0, 0, ret

    if not 0 < op_name_len <= _NAME_LIMIT:
        return refused(errors.bad("op_name_len", op_name_len, f"1..{_NAME_LIMIT}"))
    task = failed_tasks.get((device_id, stream_id, task_id))
    operator = None if task is None else task.operator()
    if operator is None:
        return refused(
            errors.fail(
                errors.INVALID_PARAM,
                f"no operator failed as task {task_id} of stream {stream_id} on device {device_id}.",
                "the ids come from the callback of acl.rt.set_exception_info_callback.",
            )
        )
    name, call, addresses = operator
    if len(name) >= op_name_len:
        return refused(errors.bad("op_name_len", op_name_len, f"more than {len(name)}, the length of {name!r}"))
    split = len(call.inputs)
    inputs, num_inputs = _descs(call.inputs, addresses[:split])
    outputs, num_outputs = _descs(call.outputs, addresses[split:])
    return name, inputs, num_inputs, outputs, num_outputs, 0
