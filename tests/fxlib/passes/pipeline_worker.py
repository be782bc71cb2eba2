"""Pipelines over gloo, one after the other: ``pipeline_worker.py FOLDER WORLD...``; the last rank compares with eager.

The processes are forked where that is possible, so that torch is imported once; they meet in a file of the folder.
"""

import multiprocessing
import sys

import timm
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

import fxlib
from fxlib.passes.stages import split_into_stages


class Residual(nn.Module):
    """Skips that span stages, so that values have to be handed through."""

    def __init__(self, width=32, depth=8):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x):
        first = x
        for layer in self.layers:
            x = torch.relu(layer(x)) + x
        return x + first


def published(rank: int, world: int) -> None:
    """A transformer of timm, whose blocks take a mask that nobody gives."""
    model = timm.models.VisionTransformer(img_size=16, patch_size=4, embed_dim=32, depth=4, num_heads=2).eval()
    x = torch.randn(8, 3, 16, 16)
    stages = split_into_stages(fxlib.symbolic_trace(model), world, x[:4])
    stage = PipelineStage(stages[rank], rank, world, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, n_microbatches=2)
    with torch.no_grad():
        out = schedule.eval(x) if rank == 0 else schedule.eval()
        if rank == world - 1:
            torch.testing.assert_close(out, model(x))


def run(rank: int, world: int, meeting: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, x = Residual(), torch.randn(16, 32)
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=world)
    try:
        published(rank, world)
        stages = split_into_stages(fxlib.symbolic_trace(model), world, x[:4])
        stage = PipelineStage(stages[rank], rank, world, torch.device("cpu"))
        inference = ScheduleGPipe(stage, n_microbatches=4)
        with torch.no_grad():
            out = inference.eval(x) if rank == 0 else inference.eval()
            if rank == world - 1:
                torch.testing.assert_close(out, model(x))
        training = Schedule1F1B(
            PipelineStage(stages[rank], rank, world, torch.device("cpu")),
            n_microbatches=4,
            loss_fn=nn.functional.mse_loss,
        )
        losses = []
        if rank == 0:
            training.step(x)
        elif rank == world - 1:
            training.step(target=torch.zeros(16, 32), losses=losses)
        else:
            training.step()
        if rank == world - 1:
            expected = sum(nn.functional.mse_loss(model(part), torch.zeros(4, 32)) for part in x.split(4)) / 4
            torch.testing.assert_close(torch.stack(losses).mean(), expected)
            print("equal", world, flush=True)
        assert all(p.grad is not None for p in stages[rank].parameters())
    finally:
        dist.destroy_process_group()


def main() -> None:
    folder, *worlds = sys.argv[1:]
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    for world in map(int, worlds):
        meeting = f"file://{folder}/{world}"
        processes = [context.Process(target=run, args=(rank, world, meeting)) for rank in range(world)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        if any(process.exitcode for process in processes):
            sys.exit(f"{world} processes ended with {[process.exitcode for process in processes]}")


if __name__ == "__main__":
    main()
