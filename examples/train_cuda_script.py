"""A training script as people write it for CUDA. The one line for the NPU is marked; the rest knows nothing of it.

    torchrun --nproc_per_node 2 examples/train_cuda_script.py --steps 6
    python examples/train_cuda_script.py --profile log

A small residual network on made-up 32x32 pictures: mixed precision with a gradient scaler, data loader workers with
pinned memory, DistributedDataParallel, checkpoints that a second start goes on from, and torch.profiler.
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from torch_npu.contrib import transfer_to_npu  # noqa: F401  <- the line for the NPU


class Pictures(Dataset):
    """Ten classes of noisy 3x32x32 patterns."""

    def __init__(self, n: int = 256) -> None:
        made = torch.Generator().manual_seed(1)
        self.labels = torch.randint(0, 10, (n,), generator=made)
        patterns = torch.randn(10, 3, 32, 32, generator=made)
        self.pictures = patterns[self.labels] + 0.5 * torch.randn(n, 3, 32, 32, generator=made)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.pictures[i], self.labels[i]


class Block(nn.Module):
    def __init__(self, cin: int, cout: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True),
            nn.Conv2d(cout, cout, 3, 1, 1, bias=False), nn.BatchNorm2d(cout),
        )  # fmt: skip
        self.skip = nn.Conv2d(cin, cout, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(x) + self.skip(x))


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 1, 1), nn.ReLU(inplace=True), Block(16, 16, 1), Block(16, 32, 2), Block(32, 64, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.1), nn.Linear(64, 10),
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--checkpoint", default="")
    parser.add_argument("--profile", default="", help="folder for the trace of torch.profiler")
    args = parser.parse_args()

    assert torch.cuda.is_available()
    torch.backends.cudnn.benchmark = True
    world = int(os.environ.get("WORLD_SIZE", "1"))
    local = int(os.environ.get("LOCAL_RANK", "0"))
    torch.cuda.set_device(local)
    device = torch.device("cuda", local)
    if world > 1:
        dist.init_process_group(backend="nccl")

    data = Pictures()
    sampler = DistributedSampler(data, shuffle=False) if world > 1 else None
    loader = DataLoader(data, batch_size=32, sampler=sampler, num_workers=2, pin_memory=True, drop_last=True)

    model: nn.Module = network().to(device)
    if world > 1:
        model = nn.parallel.DistributedDataParallel(model, device_ids=[local])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.steps)
    scaler = torch.cuda.amp.GradScaler()
    criterion = nn.CrossEntropyLoss().cuda()
    done = 0
    if args.checkpoint and os.path.exists(args.checkpoint):
        state = torch.load(args.checkpoint, map_location=f"cuda:{local}")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        scaler.load_state_dict(state["scaler"])
        done = state["done"]

    profiler = None
    if args.profile:
        profiler = torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA],
            schedule=torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=1),
            on_trace_ready=torch.profiler.tensorboard_trace_handler(args.profile),
            record_shapes=True,
            profile_memory=True,
        )
        profiler.start()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    losses: list[float] = []
    while len(losses) < args.steps:
        for pictures, labels in loader:
            x, y = pictures.cuda(non_blocking=True), labels.cuda(non_blocking=True)
            with torch.cuda.amp.autocast():
                loss = criterion(model(x), y)
            optimizer.zero_grad(set_to_none=True)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            scaler.step(optimizer)
            scaler.update()
            schedule.step()
            losses.append(loss.item())
            if profiler is not None:
                profiler.step()
            if len(losses) == args.steps:
                break
    end.record()
    torch.cuda.synchronize()
    if profiler is not None:
        profiler.stop()
    if args.checkpoint and local == 0:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scaler": scaler.state_dict(),
                 "done": done + len(losses)}  # fmt: skip
        torch.save(state, args.checkpoint)
    if local == 0:
        print(f"{torch.cuda.get_device_name(0)}: steps {done} to {done + len(losses)}, loss {losses[0]:.3f} -> "
              f"{losses[-1]:.3f}, {start.elapsed_time(end) / len(losses):.2f} ms a step, "
              f"peak {torch.cuda.max_memory_allocated() / 2**20:.0f} MiB")  # fmt: skip
    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
