"""Functions that exist on some products only, as the public documentation of the runtime says.

Source: "hicann/runtime" docs/zh/api_ref, the table of supported products of each function. Chips are named by their
core architecture: c220 (Atlas A2), m300 (Atlas 200I/500 A2), m200 (Atlas inference series), c100 (Atlas training
series). The documentation says nothing of m100 (Ascend 310), where everything is allowed.
"""

from __future__ import annotations

from typing import Final

_GROUPS: Final = {
    ("m300", "m200", "c100"): """
        acl.rt.cmo_async acl.rt.device_get_uuid acl.rt.device_task_abort acl.rt.get_mem_uce_info
        acl.rt.get_stream_overflow_switch acl.rt.set_stream_overflow_switch acl.rt.host_get_device_pointer
        acl.rt.host_register acl.rt.host_register_v2 acl.rt.host_unregister acl.rt.mem_uce_repair
        acl.rt.notify_batch_reset acl.rt.stream_abort acl.rt.value_wait acl.rt.value_write
    """,
    ("m300",): """
        acl.rt.allocator_register acl.rt.allocator_unregister acl.rt.device_can_access_peer
        acl.rt.device_disable_peer_access acl.rt.device_enable_peer_access acl.rt.ipc_mem_close
        acl.rt.ipc_mem_get_export_key acl.rt.ipc_mem_import_by_key acl.rt.ipc_mem_set_import_pid
        acl.rt.notify_get_export_key acl.rt.notify_import_by_key acl.rt.notify_set_import_pid
    """,
    ("m300", "m200"): "acl.op.start_dump_args acl.op.stop_dump_args",
    ("m200", "c100"): "acl.rt.get_memcpy_desc_size acl.rt.memcpy_async_with_desc acl.rt.set_memcpy_desc",
    ("m200",): "acl.rt.set_op_wait_timeout",
}

MISSING_ON: Final = {name: archs for archs, names in _GROUPS.items() for name in names.split()}
