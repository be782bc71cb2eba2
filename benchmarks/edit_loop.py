"""From an edit to fresh diagnostics, through the real language server.

    python benchmarks/edit_loop.py [--edits 40] [--json FILE]

For each model a client opens its file, edits it, and waits for the diagnostics of that version. It edits the forward of
the model, which is traced again while its parts are not; that of a part, which changes the model too; a comment; the
number of comments at the top, which moves every line; and the number of statements in the forward of the model. Each
text is new, and keeps the earlier edits at other places. The server's debounce is set to 0, since it is a wait and not
work. Also measured in the same run: a cold ``python -c`` that imports torch and the file and calls
``torch.fx.symbolic_trace``, and the same inside a process that has everything imported (file executed again, module
built under meta, traced). Edits of the server and traces of the warm process are interleaved, with a pause of 0.3 s
between edits: edits are never faster than the debounce, during which the server prepares its next process. Before the
edits at another place there is a pause of 2 s, like that of a user who goes there: after a second the server learns
again what each model depends on. Times in milliseconds.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "server"))

from lsp_client import Client  # noqa: E402

PAUSE, ELSEWHERE = 0.3, 2.0
MODELS = {
    "ResNet-50": ("resnet50.py", "ResNet50()", ("self.layer1(x)", "self.bn3(self.conv3(out))")),
    "Transformer": ("transformer.py", "TransformerEncoder()", ("self.embeddings(ids)", "F.gelu(self.expand(x))")),
}
KINDS = ("the model", "a part", "a comment", "lines above", "lines of the model")

WARM = """
import json, sys, time
import torch, torch.fx
torch.set_num_threads(1)
path, make = sys.argv[1:]
for line in sys.stdin:
    text = json.loads(line)
    began = time.perf_counter()
    namespace = {"__name__": "model"}
    exec(compile(text, path, "exec"), namespace)
    with torch.device("meta"):
        module = eval(make, namespace)
    torch.fx.symbolic_trace(module)
    print((time.perf_counter() - began) * 1000, flush=True)
"""

COLD = """
import runpy, sys, torch, torch.fx
namespace = runpy.run_path(sys.argv[1])
with torch.device("meta"):
    module = eval(sys.argv[2], namespace)
torch.fx.symbolic_trace(module)
"""


def edited(text: str, places: tuple[str, str], kind: str, number: int) -> str:
    """A new text; lines move only in the last two kinds."""
    if kind == "a comment":
        return f"{text}# {number}\n"
    if kind == "lines above":
        return f"# {number}\n" * (number % 5 + 1) + text
    if kind == "lines of the model":
        first, rest = text.split(places[0])
        first, _, begun = first.rpartition("\n")
        indent = begun[: len(begun) - len(begun.lstrip())]
        more = "\n".join(f"{indent}_ = 1.{number:04}" for _ in range(number % 5 + 1))
        return f"{first}\n{more}\n{begun}{places[0]}{rest}"
    text += "# 0\n"
    place = places[KINDS.index(kind)]
    assert text.count(place) == 1
    return text.replace(place, f"{place} * 1.{number:04}")


def measure(path: Path, make: str, places: tuple[str, str], edits: int) -> dict[str, Any]:
    """Medians and 95th percentiles for one model."""
    text = path.read_text()
    warm = subprocess.Popen(
        [sys.executable, "-c", WARM, str(path), make], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with Client(path.parent, settings={"debounce": 0, "deadline": 30, "verify": False}) as client:
        uri = client.open(path)
        first = client.diagnostics(uri)
        loop: dict[str, list[float]] = {kind: [] for kind in KINDS}
        inside = []
        for number in range(len(KINDS) * (edits + 5)):
            kind = KINDS[number // (edits + 5)]  # users edit at one place for a while
            new = edited(text, places, kind, number)
            began = time.perf_counter()
            found = client.edit(uri, new)
            took = (time.perf_counter() - began) * 1000
            assert [each["code"] for each in found if "code" in each] == [
                each["code"] for each in first if "code" in each
            ]
            warm.stdin.write(json.dumps(new) + "\n")
            warm.stdin.flush()
            other = float(warm.stdout.readline())
            if last := (number + 1) % (edits + 5) == 0:
                text = new
            time.sleep(ELSEWHERE if last else PAUSE)
            if number % (edits + 5) >= 5:
                loop[kind].append(took)
                inside.append(other)
        record = client.request("fxlens/record", {"uri": uri})["record"]
    warm.stdin.close()
    warm.wait()
    cold = []
    for _ in range(3):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", COLD, str(path), make], check=True)
        cold.append((time.perf_counter() - began) * 1000)
    return {
        "targets": {target["name"]: [target["status"], len(target["nodes"])] for target in record["targets"]},
        "job": record["timings"],
        **{f"an edit in {kind}, median": statistics.median(times) for kind, times in loop.items()},
        **{f"an edit in {kind}, p95": statistics.quantiles(times, n=20)[-1] for kind, times in loop.items()},
        "torch.fx in a warm process, median": statistics.median(inside),
        "cold python -c, median": statistics.median(cold),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--edits", type=int, default=40, help="of each kind")
    parser.add_argument("--json", type=Path, help="also write the figures there")
    arguments = parser.parse_args()
    results = {
        name: measure(ROOT / "examples" / file, make, places, arguments.edits)
        for name, (file, make, places) in MODELS.items()
    }
    print(
        f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, {arguments.edits} edits\n"
    )
    print("| milliseconds | " + " | ".join(results) + " |\n|---|" + "--:|" * len(results))
    for row in next(iter(results.values())):
        if row not in ("targets", "job"):
            print(f"| {row} | " + " | ".join(f"{result[row]:.0f}" for result in results.values()) + " |")
    for name, result in results.items():
        traced = ", ".join(f"{target} {status} ({nodes})" for target, (status, nodes) in result["targets"].items())
        print(f"\n{name}: the file has {traced}; inside the last job {result['job']}")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
