"""From the last key to the verdicts of torch.fx, torch.export and torch.compile, through the real language server.

    python benchmarks/captures.py [--edits 15] [--json FILE]

For each model a client opens its file, types in the class (a changed comment, so that every text is new) and waits for
the code lens that has all three verdicts. The server's own waits count: its debounce, and the pause before it runs
torch. The first request also starts the processes for captures; it is reported separately. Times in milliseconds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "server"))

from lsp_client import Client  # noqa: E402

SMALL = """import torch
from torch import nn


# fxlens: Small() <- torch.randn(4, 16)
class Small(nn.Module):
    # 0
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))

    def forward(self, x):
        if x.sum() > 0:
            x = x + 1
        return self.layers(x)
"""
LAYER = """import torch
from torch import nn


# fxlens: Layer() <- torch.randn(2, 16, 64)
class Layer(nn.Module):
    # 0
    def __init__(self, width=64, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.before(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.feed(self.between(x))
"""


def models() -> dict[str, tuple[str, str]]:
    """Name to text and class; the comment ``# 0`` changes."""
    resnet = (ROOT / "examples" / "resnet50.py").read_text()
    head = "class ResNet50(nn.Module):\n"
    assert head in resnet
    return {
        "small model": (SMALL, "Small"),
        "Transformer layer": (LAYER, "Layer"),
        "ResNet-50": (resnet.replace(head, f"{head}    # 0\n"), "ResNet50"),
    }


def alone(text: str, edits: int) -> float:
    """The median of torch.fx alone."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.py"
        path.write_text(text)
        settings = {"debounce": 150, "deadline": 60, "verify": False, "lowering": "off", "captures": ["fx"]}
        with Client(Path(folder), settings=settings) as client:
            uri = client.open(path)
            client.diagnostics(uri)
            times = []
            for number in range(1, edits + 2):
                began = time.perf_counter()
                client.edit(uri, text.replace("    # 0\n", f"    # {number}\n"))
                times.append((time.perf_counter() - began) * 1000)
                time.sleep(1)
    return statistics.median(times[1:])


def measure(text: str, name: str, edits: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.py"
        path.write_text(text)
        settings = {
            "debounce": 150,
            "deadline": 60,
            "verify": False,
            "lowering": "off",
            "captures": ["fx", "export", "compile"],
        }
        with Client(Path(folder), settings=settings) as client:
            uri = client.open(path)
            client.diagnostics(uri)
            times, fx = [], []
            for number in range(1, edits + 2):
                began = time.perf_counter()
                version = client.change(uri, text.replace("    # 0\n", f"    # {number}\n"))
                client.diagnostics(uri, version)
                fx.append((time.perf_counter() - began) * 1000)
                title = ""
                while "compile" not in title:
                    client.wait(lambda each: each.get("method") == "fxlens/recordChanged", 600)
                    title = verdicts(client, uri, name)
                times.append((time.perf_counter() - began) * 1000)
                time.sleep(0.5)
            memory = json.loads(client.request("fxlens/debugInfo", {})["text"])["workers"][0]["captures"]
    return {
        "verdicts": title, "first": times[0], "median": statistics.median(times[1:]),
        "worst": max(times[1:]), "fx": statistics.median(fx[1:]), "fx without": alone(text, edits), "MB": memory / 1e6,
    }  # fmt: skip


def verdicts(client: Client, uri: str, name: str) -> str:
    """The lens with the verdicts of the class, once complete."""
    lenses = client.request("textDocument/codeLens", {"textDocument": {"uri": uri}}) or []
    titles = [each["command"]["title"] for each in lenses if (each["command"].get("arguments") or [None])[-1] == name]
    return next((title for title in titles if "export" in title), "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edits", type=int, default=15)
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    results = {}
    for label, (text, name) in models().items():
        found = results[label] = measure(text, name, arguments.edits)
        print(f"{label}: {found['verdicts']}; the zygote takes {found['MB']:.0f} MB more")
        times = (found[name] for name in ("median", "worst", "first", "fx", "fx without"))
        print("  {:.0f} median, {:.0f} worst, {:.0f} first; torch.fx {:.0f}, with nothing else {:.0f}".format(*times))
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
