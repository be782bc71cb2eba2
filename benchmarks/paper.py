"""The tables of the torch.fx paper (Reed et al. 2022) next to this project's measurements, in one run.

    python benchmarks/paper.py [--quick] [--only WORD ...]

Each section is a script in this folder; this one runs them in order, describes the measurements, and prints all rows
next to the paper's at the end. A section that fails or takes too long is listed there, and the others continue. Times
are meaningful only on an idle machine; the load at the start of each section is printed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from benchmarks.rows import Row, read_rows, table  # noqa: E402

TIME_LIMIT_S = 600


@dataclass(frozen=True)
class Section:
    """One table: the paper's content, what is measured here and how, and the script."""

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
        "one forward of sparse ratings, and of images for ResNet-50, which the paper has not; eager float32, prepacked "
        "float32 and static int8 take turns, least time of each; error is the relative Euclidean norm against eager",
        "quantization.py",
        ("--items", "20000", "--batches", "1", "64", "--images", "1", "--seconds", "1"),
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


def run(section: Section, quick: bool, rows: Path) -> str:
    """Run the section's script; returns an error text, empty on success."""
    command = [sys.executable, "-W", "ignore", str(HERE / section.script), "--rows", str(rows)]
    process = subprocess.Popen([*command, *(section.quick if quick else ())], start_new_session=True)
    try:
        status = process.wait(TIME_LIMIT_S)
    except subprocess.TimeoutExpired:
        return f"{section.script} was not done after {TIME_LIMIT_S} s"
    finally:
        end_group(process)
    return f"{section.script} ended with status {status}" if status else ""


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End the script and its remaining child processes."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):  # the usual case: none is left
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller sizes and fewer rows, for a look")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="sections whose script has a WORD")
    options = parser.parse_args()
    sections = [s for s in SECTIONS if not options.only or any(word in s.script for word in options.only)]
    if not sections:
        parser.error(f"no section has {' or '.join(options.only)}; there are {', '.join(s.script for s in SECTIONS)}")
    machine = f"{processor()}, {torch.get_num_threads()} threads"
    print(f"torch {torch.__version__}, Python {platform.python_version()}, {machine}")
    found: list[Row] = []
    failed = []
    for section in sections:
        load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
        print(f"\n== {section.title}\npaper: {section.paper}\nhere: {section.counted}\nload: {load}\n", flush=True)
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            rows = Path(folder) / "rows"
            problem = run(section, options.quick, rows)
            found += read_rows(rows)
        print(f"({time.monotonic() - start:.0f} s)", flush=True)
        if problem:
            failed.append(problem)
            found.append(Row(section.title, section.paper, f"failed: {problem}"))
    print(f"\n== The paper beside this machine ({machine}{', quick sizes' if options.quick else ''})\n")
    print(table(found))
    print(
        "\nThe paper's results on a GPU (fusion -6 %; TensorRT 3.7x for ResNet-50, 1.54x for LearningToPaint) are no "
        "part of this run: benchmarks/gpu.py, where there is one. Lowering on a CPU: benchmarks/lowering.py."
    )
    if failed:
        sys.exit("\n".join(failed))


if __name__ == "__main__":
    main()
