"""Return codes of pyACL, and the text behind the last failure of each thread.

Codes are those of the public headers of CANN ("hicann/runtime", "hicann/ge"); which situation gives which code
follows the current sources. Message ids name the class of the mistake; the wording is our own.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from acl import _plog, _strict
from ascend_sim.runtime.host import host_thread

SUCCESS: Final = 0
# parameters and states
INVALID_PARAM: Final = 100000
UNINITIALIZE: Final = 100001
REPEAT_INITIALIZE: Final = 100002
INVALID_FILE: Final = 100003
WRITE_FILE: Final = 100004
INVALID_FILE_SIZE: Final = 100005
PARSE_FILE: Final = 100006
FILE_MISSING_ATTR: Final = 100007
INVALID_DUMP_CONFIG: Final = 100009
INVALID_PROFILING_CONFIG: Final = 100010
INVALID_MODEL_ID: Final = 100011
OP_INPUT_NOT_MATCH: Final = 100021
OP_OUTPUT_NOT_MATCH: Final = 100022
OP_ATTR_NOT_MATCH: Final = 100023
OP_NOT_FOUND: Final = 100024
OP_LOAD_FAILED: Final = 100025
UNSUPPORTED_DATA_TYPE: Final = 100026
READ_MODEL_FAILURE: Final = 100014
SELECTOR_NOT_REGISTERED: Final = 100028
KERNEL_NOT_FOUND: Final = 100029
SELECTOR_REGISTERED: Final = 100030
KERNEL_REGISTERED: Final = 100031
REPEAT_FINALIZE: Final = 100037
NOT_STATIC_AIPP: Final = 100038
DUMP_ALREADY_RUN: Final = 100044
DUMP_NOT_RUN: Final = 100045
RT_PARAM_INVALID: Final = 107000
RT_INVALID_DEVICE: Final = 107001
RT_CONTEXT_NULL: Final = 107002
RT_STREAM_CONTEXT: Final = 107003
RT_MODEL_CONTEXT: Final = 107004
RT_EVENT_TIMESTAMP_INVALID: Final = 107006
RT_EVENT_TIMESTAMP_REVERSAL: Final = 107007
RT_STREAM_SUBSCRIBED: Final = 107011
RT_THREAD_SUBSCRIBE: Final = 107012
RT_STREAM_NOT_SUBSCRIBED: Final = 107015
RT_INVALID_HANDLE: Final = 107017
RT_WAIT_TIMEOUT: Final = 107019
RT_TASK_TIMEOUT: Final = 107020
# models
GE_PARAM: Final = 145000
GE_NOT_INIT: Final = 145001
GE_MODEL_PATH: Final = 145002
GE_MODEL_ID: Final = 145003
GE_DATA_SIZE: Final = 145006
GE_REPEATED_LOAD: Final = 145009
GE_INPUT_LENGTH: Final = 145012
GE_BATCH_NAME: Final = 145013
GE_DATATYPE: Final = 145020
PROF_MODEL_SUBSCRIBED: Final = 148046
PROF_API_CONFLICT: Final = 148047
MAX_OP_QUEUE: Final = 148048
CHANNEL_DESC_IN_USE: Final = 148051
UNSUPPORTED_JPEG: Final = 148052
BUNDLE_ID: Final = 148053
BAD_ALLOC: Final = 200000
UNSUPPORTED_API: Final = 200001
# resources
RT_FEATURE_NOT_SUPPORT: Final = 207000
RT_NO_PERMISSION: Final = 207006
RT_NO_NOTIFY: Final = 207009
RT_MEMORY_ALLOCATION: Final = 207001
RT_NO_EVENT: Final = 207007
RT_NO_STREAM: Final = 207008
# inner
INTERNAL: Final = 500000
FAILURE: Final = 500001
GE_FAILURE: Final = 500002
RT_INTERNAL: Final = 507000
RT_NEVER_SET: Final = 507007
RT_MODEL_EXECUTE: Final = 507011
RT_REPORT_TIMEOUT: Final = 507012
RT_AICORE_TIMEOUT: Final = 507014
RT_AICORE_EXCEPTION: Final = 507015
RT_AICPU_EXCEPTION: Final = 507018
RT_STREAM_SYNC_TIMEOUT: Final = 507046
RT_EVENT_SYNC_TIMEOUT: Final = 507047
RT_DRV_INTERNAL: Final = 507899

_IDS: Final = {
    INVALID_PARAM: "EH0001",
    RT_CONTEXT_NULL: "EE1016",
    RT_STREAM_CONTEXT: "EE1010",
    RT_MODEL_CONTEXT: "EE1010",
    RT_INVALID_DEVICE: "EE1003",
    RT_NEVER_SET: "EE1018",
    RT_MEMORY_ALLOCATION: "EL0004",
    GE_PARAM: "E13025",
}

_process_messages: deque[str] = deque(maxlen=256)
_process_wide = False


def set_process_wide(flag: bool) -> None:
    """``err_msg_mode`` "1" of acl.json: one store for the process instead of one per thread."""
    global _process_wide
    _process_wide = flag


def _id(code: int) -> str:
    known = _IDS.get(code)
    if known is not None:
        return known
    if code // 1000 == 107:
        return "EE1001"
    return "EZ9999" if code >= 500000 else "EE1016"


def explain(code: int, problem: str, related: str = "") -> None:
    """Store why the current call of this thread fails with ``code``."""
    thread = host_thread()
    thread.last_error = code
    text = f"{_id(code)}: {thread.call or 'acl'} failed with {code}: {problem}"
    if related:
        text += f" Related: {related}"
    (_process_messages if _process_wide else thread.messages).appendleft(text)
    _plog.write(_plog.ERROR, "ASCENDCL", text)
    if _strict.watch is not None:
        _strict.watch.failed(problem)


def fail(code: int, problem: str, related: str = "") -> int:
    """`explain`, and give the code back: ``return fail(...)``."""
    explain(code, problem, related)
    return code


def bad(argument: str, value: Any, expected: str, related: str = "", code: int = INVALID_PARAM) -> int:
    """A wrong argument value."""
    shown = hex(value) if isinstance(value, int) and value > 0xFFFFF else repr(value)
    return fail(code, f"argument {argument} is {shown}: expected {expected}.", related)


def take_messages() -> str | None:
    """All messages of this thread, newest first, which are then forgotten; None when there are none."""
    store = _process_messages if _process_wide else host_thread().messages
    if not store:
        return None
    text = "\n".join(store)
    store.clear()
    return text
