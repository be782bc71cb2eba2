"""The tables of the torch.fx paper (Reed et al. 2022) beside what this project measures here, in one run.

    python benchmarks/paper.py [--quick]

Each section is a script of its own in this folder; this one runs them in order and says what was counted.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent

SECTIONS: list[tuple[str, str, list[str], list[str]]] = [
    (
        "IR size of ResNet-50 (section 6.1; paper: 445 / 860 / 2614)",
        "ir_size.py",
        [],
        [],
    ),
    (
        "Conv-BN fusion of ResNet-50 (section 6.2.2; paper: -18 % one thread, -40 % default threads)",
        "fusion.py",
        [],
        ["--batches", "1", "--seconds", "3"],
    ),
    (
        "Quantization of DeepRecommender (section 6.2.1; paper: up to 3.3x)",
        "quantization.py",
        [],
        ["--items", "20000", "--batches", "1", "64", "--seconds", "1"],
    ),
    (
        "Program scheduling with torch.distributed.rpc (section 6.2.3; paper: up to +9 % QPS)",
        "rpc_schedule.py",
        [],
        ["--queries", "30"],
    ),
    (
        "Simulation: predicted and measured time (section 6.3)",
        "cost.py",
        [],
        ["--seconds", "0.5"],
    ),
]


def processor() -> str:
    """The CPU's name."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller sizes and fewer rows, for a look")
    options = parser.parse_args()
    print(
        f"torch {torch.__version__}, Python {platform.python_version()}, {processor()}, "
        f"{torch.get_num_threads()} threads"
    )
    failed = []
    for title, script, full, quick in SECTIONS:
        print(f"\n== {title}\n", flush=True)
        command = [sys.executable, "-W", "ignore", str(HERE / script), *(quick if options.quick else full)]
        if subprocess.run(command).returncode:
            failed.append(script)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
