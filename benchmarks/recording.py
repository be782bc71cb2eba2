"""The cost of recording: a training step of twenty small blocks, with and without ``fxlens record``, interleaved.

python benchmarks/recording.py
"""

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

STEPS = """
import time, torch
from torch import nn

torch.set_num_threads(1)

class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels)

    def forward(self, x):
        return torch.relu(self.norm(self.conv(x)) + x)

net = nn.Sequential(*[Block(16) for _ in range(20)])
optimizer = torch.optim.SGD(net.parameters(), 0.1)
x = torch.randn(2, 16, 16, 16)
times = []
for round in range(12):
    start = time.process_time()
    for _ in range(20):
        optimizer.zero_grad()
        net(x).mean().backward()
        optimizer.step()
    times.append((time.process_time() - start) / 20)
print(sorted(times)[len(times) // 2])
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "steps.py").write_text(STEPS)
        plain = [sys.executable, "steps.py"]
        recorded = [sys.executable, "-m", "fxlens", "record", "--", *plain]
        ratios = []
        for _ in range(5):
            times = [
                float(subprocess.run(c, cwd=folder, env=os.environ, capture_output=True, text=True, check=True).stdout)
                for c in (plain, recorded)
            ]
            ratios.append(times[1] / times[0])
            print(f"{times[0] * 1e3:.2f} ms, recorded {times[1] * 1e3:.2f} ms: {ratios[-1]:.3f}")
    print(f"median {statistics.median(ratios):.3f}; aim below 1.05")


if __name__ == "__main__":
    main()
