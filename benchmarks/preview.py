"""A preview of lowering ResNet-50 through the real language server: processor time of the worker, and waiting time.

    python benchmarks/preview.py [--rounds 9]

Each preview is requested for an open, traced file. Processor time is that of all processes below the server, including
the one of the preview: its fork, the import of the file, the construction, the trace, the shapes, the split and the
conversion. The first previews, which import the lowering modules, are reported separately. Times in milliseconds.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "server"))

from lsp_client import Client  # noqa: E402

MODEL = """import torch
import torchvision


# fxlens: Net() <- torch.randn(1, 3, 224, 224)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torchvision.models.resnet50()

    def forward(self, x):
        return torch.relu(self.body(x))
"""
FIRST = 3


def spent(server: int) -> float:
    """Processor seconds below the server, including ended processes."""
    return sum(sum(each.cpu_times()[:4]) for each in psutil.Process(server).children(recursive=True))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.py"
        path.write_text(MODEL)
        with Client(Path(folder), settings={"deadline": 60, "lowering": "hints"}) as client:
            uri = client.open(path)
            client.request("fxlens/record", {"uri": uri}, timeout=300)
            time.sleep(5)  # for the hints, and the rehearsal of the file
            rows = []
            for _ in range(FIRST + rounds):
                before, began = spent(client.process.pid), time.perf_counter()
                asked = {"uri": uri, "target": "Net", "options": {"preview": True}}
                answer = client.request("fxlens/lower", asked, timeout=300)
                waited = time.perf_counter() - began
                assert len(answer["result"]["report"]["layers"]) == 176, answer
                time.sleep(1)  # until its process has ended and is counted
                rows.append((1e3 * (spent(client.process.pid) - before), 1e3 * waited))
    print("the first: " + ", ".join(f"{cpu:.0f} (wait {wait:.0f})" for cpu, wait in rows[:FIRST]))
    cpu, wait = zip(*rows[FIRST:], strict=True)
    middle = statistics.median(cpu), statistics.median(wait)
    print(f"then, median of {rounds}: {middle[0]:.0f} of processor's time, wait {middle[1]:.0f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
