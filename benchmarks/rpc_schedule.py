"""Queries per second of a model that asks two remote tables, before and after scheduling; real torch.distributed.rpc.

    python benchmarks/rpc_schedule.py [--latency 0.002] [--queries 200] [--rows FILE]

Three local processes: the model and two servers that take ``--latency`` seconds to answer. The paper reports up to
+9 %.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed import rpc  # noqa: E402

import fxlib  # noqa: E402
from benchmarks.rows import add_row  # noqa: E402
from fxlib.passes.schedule_rpc import RpcTracer, schedule_rpc  # noqa: E402


def lookup(indices: torch.Tensor, latency: float) -> torch.Tensor:
    """Runs on a server: an embedding table behind a slow network."""
    time.sleep(latency)
    return torch.sin(indices.float())


class Ranking(nn.Module):
    """A recommender: two remote embeddings, a dense part that needs neither, and a top that needs all."""

    def __init__(self, latency: float, width: int = 512):
        super().__init__()
        self.latency = latency
        self.dense = nn.Sequential(*[nn.Linear(width, width) for _ in range(4)])
        self.top = nn.Linear(width, 1)

    def forward(self, x, users, items):
        who = rpc.rpc_sync("server1", lookup, args=(users, self.latency))
        dense = self.dense(x)
        what = rpc.rpc_sync("server2", lookup, args=(items, self.latency))
        return self.top(dense + who + what)


def client(options: argparse.Namespace) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Ranking(options.latency).eval()
    before = fxlib.GraphModule(model, RpcTracer().trace(model))
    after = schedule_rpc(fxlib.GraphModule(model, RpcTracer().trace(model)))
    x, users, items = torch.randn(64, 512), torch.arange(512).expand(64, 512), torch.arange(512).expand(64, 512)
    times: dict[str, list[float]] = {"blocking": [], "scheduled": []}
    with torch.no_grad():
        torch.testing.assert_close(after(x, users, items), model(x, users, items))
        for _ in range(options.queries):
            for name, module in (("blocking", before), ("scheduled", after)):
                start = time.perf_counter()
                module(x, users, items)
                times[name].append(time.perf_counter() - start)
    rate = {name: 1 / statistics.median(t) for name, t in times.items()}
    latency, gain = f"{options.latency * 1e3:g} ms", f"{100 * (rate['scheduled'] / rate['blocking'] - 1):+.0f} %"
    print(
        f"latency {latency}, {options.queries} queries: blocking {rate['blocking']:.1f} QPS, "
        f"scheduled {rate['scheduled']:.1f} QPS ({gain})"
    )
    add_row(options.rows, f"queries per second with scheduled remote calls, {latency} latency", "up to +9 %", gain)


def serve(rank: int, meeting: str, options: argparse.Namespace) -> None:
    """One of the three processes; the client is the first."""
    how = rpc.TensorPipeRpcBackendOptions(init_method=meeting, rpc_timeout=300)
    rpc.init_rpc(["client", "server1", "server2"][rank], rank=rank, world_size=3, rpc_backend_options=how)
    try:
        if rank == 0:
            client(options)
    finally:
        rpc.shutdown()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--latency", type=float, default=0.002)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--rows", type=Path, metavar="FILE", help="append the row for benchmarks/paper.py")
    options = parser.parse_args()
    os.environ.update(GLOO_SOCKET_IFNAME="lo", TP_SOCKET_IFNAME="lo")
    torch.set_num_threads(1)
    # Forked where that is possible: torch is imported once.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    with tempfile.TemporaryDirectory() as folder:
        processes = [context.Process(target=serve, args=(r, f"file://{folder}/meeting", options)) for r in range(3)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
    sys.exit(any(process.exitcode for process in processes))


if __name__ == "__main__":
    main()
