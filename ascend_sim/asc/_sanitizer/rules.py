"""Broken restrictions of instructions and queues as findings."""

from __future__ import annotations

from ascend_sim.asc._sanitizer.report import Report, Site
from ascend_sim.isa.legality import InstructionError

_QUEUE = {
    ("TQue.alloc_tensor", "slots"): "ErrorLeak", ("TQue.free_tensor", "tensor"): "ErrorFree",
    ("TQue.enque", "tensor"): "ErrorBuffer1", ("TQue.enque", "depth"): "ErrorBuffer2",
    ("TQue.deque", "queue"): "ErrorBuffer2",
}  # fmt: skip


def code_of(error: InstructionError) -> str:
    """The code that names a broken restriction."""
    call, operand, rule = error.instruction, error.operand, error.rule
    writes = operand.startswith("dst") or (operand == "global tensor" and _goes_out(error))
    if "init_buffer was not called" in rule:
        return "ErrorBuffer0"
    if (call, operand) in _QUEUE:
        return _QUEUE[call, operand]
    if call.startswith("TBufPool"):
        return "ErrorBuffer4"
    if call in ("TPipe.init_buffer", "LocalTensor", "LocalTensorAuto") and "bytes" in rule:
        return "ErrorBuffer3"
    if "must be a multiple of" in rule and "address" in operand:
        return "ErrorWrite4" if writes else "ErrorRead4"
    if "runs past" in rule or "lies outside" in rule or (operand == "index" and "elements" in rule):
        return "ErrorWrite2" if writes or call == "set_value" else "ErrorRead3"
    if call == "wait_flag":
        return "ErrorSync3"
    return "Restriction"


def _goes_out(error: InstructionError) -> bool:
    """Whether the transfer that broke the rule writes global memory: its frame has a global destination."""
    trace = error.__traceback__
    while trace is not None:
        target = trace.tb_frame.f_locals.get("dst")
        if getattr(target, "mem", None) == "GM":
            return True
        trace = trace.tb_next
    return False


def tell_broken_rule(report: Report, error: InstructionError) -> None:
    """Add an `InstructionError` to a report."""
    text = f"{error.instruction}: {error.operand} = {error.value}: {error.rule}"
    report.add(code_of(error), "error", text, (Site("instruction", error.place),))
