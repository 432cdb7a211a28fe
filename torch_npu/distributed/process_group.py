"""The process group ``hccl``: gloo moves the values between processes, the link model says how long it takes.

Every collective joins the ranks' simulated clocks: it begins when the last rank's stream has come to it. The call
returns when the values are there; in simulated time the host goes on at once, as with the real library.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d
from torch.distributed import ProcessGroup, ProcessGroupGloo
from torch.futures import Future

from acl import _eager
from torch_npu import _setup
from torch_npu._backend import backend
from torch_npu.distributed.rank_table import check_rank_table


class _Done(dist.Work):
    """A collective whose values are there."""

    def __init__(self, result: Any, device: int, stream: int) -> None:
        super().__init__()
        self._result, self._place = result, (device, stream)
        self._event = backend.record(0, device, stream, 0)

    def wait(self, timeout: Any = timedelta(0)) -> bool:
        device, _ = self._place
        backend.block(self._event, device, _setup.ext.current_stream(device))
        return True

    def is_completed(self) -> bool:
        return backend.query_event(self._event)

    def is_success(self) -> bool:
        return True

    def synchronize(self) -> None:
        self.wait()

    def result(self) -> Any:
        return self._result

    def get_future(self) -> Any:
        future: Future[Any] = Future(devices=[torch.device("npu", self._place[0])])
        future.set_result(self._result)
        return future


def _leaves(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [t for v in value for t in _leaves(v)]
    return []


class ProcessGroupHCCL(ProcessGroup):
    """One communicator. Options and signatures are those of torch's process groups."""

    class Options(ProcessGroup.Options if hasattr(ProcessGroup, "Options") else object):  # type: ignore[misc]
        """Accepted: ``is_high_priority_stream`` and a time-out."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self.is_high_priority_stream = False
            self.op_timeout = timedelta(seconds=1836)
            self.hccl_config: dict[str, Any] = {}

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)
        self._gloo = ProcessGroupGloo(store, rank, size, timeout)
        self._rank, self._size = rank, size
        self._names: dict[str, int] = {}

    def getBackendName(self) -> str:
        return "hccl"

    @property
    def group_name(self) -> str:
        """The name under which functional collectives find the group."""
        return str(c10d._world.pg_names[self])

    pg_name = group_name

    @property
    def supports_splitting(self) -> bool:
        return False

    def _get_backend(self, device: Any) -> ProcessGroupHCCL:
        """The group serves every device itself (``init_process_group(device_id=...)`` asks)."""
        return self

    def get_hccl_comm_name(self, rank: int, init_comm: bool = True) -> str:
        return f"group_{self._size}_{rank}"

    # -- how every collective runs

    def _join(self, stream: Any) -> int:
        """Simulated time (ps) at which the last rank is there."""
        mine = torch.tensor([_eager.ready_ps(stream)], dtype=torch.int64)
        if self._size > 1:
            options = dist.AllreduceOptions()
            options.reduceOp = dist.ReduceOp.MAX
            self._gloo.allreduce([mine], options).wait()
        return int(mine.item())

    def _run(self, name: str, nbytes: int, tensors: Any, do: Any, joined: bool = True) -> Any:
        """``do`` gets a function from npu tensors to CPU tensors with their values and moves them between processes."""
        found = _leaves(tensors)
        device = next((t.device.index for t in found if t.device.type == "npu"), _setup.ext.current_device())
        number = _setup.ext.current_stream(device)
        stream = backend.stream(device, number)
        ready = _eager.ready_ps(stream)
        start = self._join(stream) if joined else ready
        copies: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

        def host(t: torch.Tensor) -> torch.Tensor:
            if t.device.type != "npu":
                return t
            made = _setup.ext.host_alias(t)
            if not t.is_contiguous():
                dense = made.contiguous()
                copies[id(t)] = (made, dense)
                return dense
            return made

        do(host)
        for alias, dense in copies.values():
            alias.copy_(dense)
        count = self._names[name] = self._names.get(name, 0) + 1
        _eager.collective(stream, name, nbytes, self._size, start, group=f"hccl_world_{self._size}", rank=self._rank,
                          count=count)  # fmt: skip
        return _Done(tensors if isinstance(tensors, list) else [tensors], device, number)

    # -- the collectives of torch.distributed

    def allreduce(self, tensors: Any, opts: Any = None) -> Any:
        opts = opts or dist.AllreduceOptions()
        nbytes = sum(t.nbytes for t in tensors)

        def do(host: Any) -> None:
            on_host = [host(t) for t in tensors]
            average = opts.reduceOp == dist.ReduceOp.AVG
            chosen = dist.AllreduceOptions()
            chosen.reduceOp = dist.ReduceOp.SUM if average else opts.reduceOp
            self._gloo.allreduce(on_host, chosen).wait()
            if average:
                for tensor in on_host:
                    tensor.div_(self._size)

        return self._run("allreduce", nbytes, tensors, do)

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> Any:
        result = None
        for tensor in tensors:
            result = self.allreduce([tensor], _allreduce_options(opts))
        return result

    def broadcast(self, tensors: Any, opts: Any = None) -> Any:
        opts = opts or dist.BroadcastOptions()
        nbytes = sum(t.nbytes for t in tensors)
        return self._run("broadcast", nbytes, tensors,
                         lambda host: self._gloo.broadcast([host(t) for t in tensors], opts).wait())  # fmt: skip

    def allgather(self, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Any:
        nbytes = sum(t.nbytes for t in _leaves(output_tensors))

        def do(host: Any) -> None:
            for outs, given in zip(output_tensors, input_tensors, strict=True):
                self._gloo.allgather([[host(o) for o in outs]], [host(given)]).wait()

        return self._run("allgather", nbytes, output_tensors, do)

    def _allgather_base(self, output: Any, given: Any, opts: Any = None) -> Any:
        def do(host: Any) -> None:
            whole, part = host(output).view(-1), host(given).reshape(-1)
            parts = list(whole.chunk(self._size)) if whole.numel() else []
            if parts:
                self._gloo.allgather([parts], [part]).wait()

        return self._run("allgather", output.nbytes, output, do)

    all_gather_single = _allgather_base

    def all_gather_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        result = None
        for output, given in zip(outputs, inputs, strict=True):
            result = self._allgather_base(output, given)
        return result

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def reduce(self, tensors: Any, opts: Any = None) -> Any:
        opts = opts or dist.ReduceOptions()
        nbytes = sum(t.nbytes for t in tensors)
        return self._run("reduce", nbytes, tensors,
                         lambda host: self._gloo.reduce([host(t) for t in tensors], opts).wait())  # fmt: skip

    def _reduce_scatter(self, output: Any, parts: Any, operation: Any, host: Any) -> None:
        average = operation == dist.ReduceOp.AVG
        chosen = dist.AllreduceOptions()
        chosen.reduceOp = dist.ReduceOp.SUM if average else operation
        whole = torch.cat([host(p).reshape(-1) for p in parts])
        self._gloo.allreduce([whole], chosen).wait()
        mine = whole.chunk(self._size)[self._rank] if whole.numel() else whole
        target = host(output)
        target.copy_((mine / self._size if average else mine).reshape(target.shape))

    def reduce_scatter(self, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Any:
        operation = (opts or dist.ReduceScatterOptions()).reduceOp
        nbytes = sum(t.nbytes for t in _leaves(input_tensors))

        def do(host: Any) -> None:
            for output, parts in zip(output_tensors, input_tensors, strict=True):
                self._reduce_scatter(output, parts, operation, host)

        return self._run("reduce_scatter", nbytes, output_tensors, do)

    def _reduce_scatter_base(self, output: Any, given: Any, opts: Any = None) -> Any:
        operation = (opts or dist.ReduceScatterOptions()).reduceOp
        return self._run("reduce_scatter", given.nbytes, output,
                         lambda host: self._reduce_scatter(output, [given], operation, host))  # fmt: skip

    reduce_scatter_single = _reduce_scatter_base

    def reduce_scatter_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        result = None
        for output, given in zip(outputs, inputs, strict=True):
            result = self._reduce_scatter_base(output, given, opts)
        return result

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def gather(self, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Any:
        opts = opts or dist.GatherOptions()
        nbytes = sum(t.nbytes for t in input_tensors) * self._size

        def do(host: Any) -> None:
            outs = [[host(o) for o in group] for group in output_tensors]
            self._gloo.gather(outs, [host(t) for t in input_tensors], opts).wait()

        return self._run("gather", nbytes, output_tensors or input_tensors, do)

    def scatter(self, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Any:
        opts = opts or dist.ScatterOptions()
        nbytes = sum(t.nbytes for t in output_tensors) * self._size

        def do(host: Any) -> None:
            given = [[host(t) for t in group] for group in input_tensors]
            self._gloo.scatter([host(t) for t in output_tensors], given, opts).wait()

        return self._run("scatter", nbytes, output_tensors, do)

    def alltoall_base(self, output: Any, given: Any, output_sizes: Any, input_sizes: Any, opts: Any = None) -> Any:
        def do(host: Any) -> None:
            self._gloo.alltoall_base(host(output), host(given), output_sizes, input_sizes).wait()

        return self._run("alltoall", given.nbytes, output, do)

    def alltoall(self, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Any:
        nbytes = sum(t.nbytes for t in input_tensors)

        def do(host: Any) -> None:
            flat = torch.cat([host(t).reshape(-1) for t in input_tensors])
            outs = [host(t) for t in output_tensors]
            result = torch.empty(sum(o.numel() for o in outs), dtype=flat.dtype)
            self._gloo.alltoall_base(result, flat, [o.numel() for o in outs], [t.numel() for t in input_tensors]).wait()
            for out, part in zip(outs, result.split([o.numel() for o in outs]), strict=True):
                out.copy_(part.reshape(out.shape))

        return self._run("alltoall", nbytes, output_tensors, do)

    def send(self, tensors: Any, peer: int, tag: int = 0) -> Any:
        nbytes = sum(t.nbytes for t in tensors)

        def do(host: Any) -> None:
            self._gloo.send([torch.tensor([_eager.host().now])], peer, tag + (1 << 20)).wait()
            self._gloo.send([host(t) for t in tensors], peer, tag).wait()

        return self._run("send", nbytes, tensors, do, joined=False)

    def recv(self, tensors: Any, peer: int, tag: int = 0) -> Any:
        nbytes = sum(t.nbytes for t in tensors)

        def do(host: Any) -> None:
            sent = torch.zeros(1, dtype=torch.int64)
            self._gloo.recv([sent], peer, tag + (1 << 20)).wait()
            _eager.host().join(int(sent.item()))
            self._gloo.recv([host(t) for t in tensors], peer, tag).wait()

        return self._run("recv", nbytes, tensors, do, joined=False)

    def barrier(self, opts: Any = None) -> Any:
        return self._run("barrier", 0, [], lambda host: self._gloo.barrier().wait())


def _allreduce_options(opts: Any) -> Any:
    chosen = dist.AllreduceOptions()
    if opts is not None:
        chosen.reduceOp = opts.reduceOp
    return chosen


def create(store: Any, rank: int, size: int, timeout: timedelta) -> ProcessGroupHCCL:
    """Called by ``init_process_group``; a rank table in ``RANK_TABLE_FILE`` is checked first."""
    path = os.environ.get("RANK_TABLE_FILE")
    if path:
        ranks = check_rank_table(path)
        if len(ranks) < size:
            raise ValueError(
                f"rank table {path!r} has {len(ranks)} ranks, the process group {size}, error code is EI0014"
            )
    return ProcessGroupHCCL(store, rank, size, timeout)
