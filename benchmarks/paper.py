"""The tables of the torch.fx paper (Reed et al. 2022) beside what this project measures here, in one run.

    python benchmarks/paper.py [--quick]

Each section is a script of its own in this folder; this one runs them in order and says what was counted.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Section:
    """One table: what the paper has, what is counted here and how, and the script that measures it."""

    title: str
    paper: str
    counted: str
    script: str
    quick: tuple[str, ...] = ()


SECTIONS = (
    Section(
        "IR size of ResNet-50 (section 6.1)",
        "torch.fx 445, jit.trace 860, jit.script 2614 operations",
        "printed lines of the graph in evaluation mode; fxlib without leaf modules, TorchScript inlined",
        "ir_size.py",
    ),
    Section(
        "Conv-BN fusion of ResNet-50 (section 6.2.2)",
        "-18 % with one thread, -40 % with the default number",
        "one forward of float32 images 224 x 224 on this CPU; folded = batch norms folded alone, packed = "
        "optimize_for_inference; least time of runs that take turns, per cent of eager",
        "fusion.py",
        ("--batches", "1", "--seconds", "3"),
    ),
    Section(
        "Quantization of DeepRecommender (section 6.2.1)",
        "up to 3.3x over float32",
        "one forward of sparse ratings; eager float32, prepacked float32 and static int8 take turns, least time of "
        "each; error is the relative Euclidean norm against eager",
        "quantization.py",
        ("--items", "20000", "--batches", "1", "64", "--seconds", "1"),
    ),
    Section(
        "Program scheduling with torch.distributed.rpc (section 6.2.3)",
        "up to +9 % queries per second",
        "queries per second of two real local processes with an injected latency, before and after schedule_rpc",
        "rpc_schedule.py",
        ("--queries", "30"),
    ),
    Section(
        "Simulation: predicted and measured time (section 6.3)",
        "no figure; the use is described",
        "prediction by fxlib.passes.cost on a CPU calibrated in a second, against the least time of real runs",
        "cost.py",
        ("--seconds", "0.5"),
    ),
)


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
    for section in SECTIONS:
        print(f"\n== {section.title}\npaper: {section.paper}\nhere: {section.counted}\n", flush=True)
        command = [
            sys.executable,
            "-W",
            "ignore",
            str(HERE / section.script),
            *(section.quick if options.quick else ()),
        ]
        if subprocess.run(command).returncode:
            failed.append(section.script)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
