"""An agent that edits and asks at once, through the protocol's own client: is an answer ever about an older text?

    python benchmarks/agents.py --rounds 1000

Each round changes one thing (the model's file, a file that it imports, the file that constructs the model, or a text
that is not saved), keeps its size where that is possible, and asks. Prints the number of stale answers and how long
they took.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

NET = """import torch
from torch import nn

from helper import gate


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        sign = 1 if {question} > 0 else 2
        return gate(self.linear(x)) * sign
"""
HELPER = "def gate(x):\n    return x if {question} > 0 else -x\n"
TRAIN = "import torch\n\nfrom net import Net\n\nmodel = Net({width})\nmodel(torch.randn(2, {width}))\n"
QUESTIONS = {True: "x.max()", False: "x.dim()"}  # of one size; FX101 is the values', FX102 the shape's
OWN_LINE, HELPERS_LINE = 12, 13


class Scene:
    """The files, and their current state."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.random = folder, random.Random(seed)
        self.own = self.helpers = False
        self.width = 16
        self.unsaved: str | None = None
        self.write_all()

    def write_all(self) -> None:
        (self.folder / "net.py").write_text(NET.format(question=QUESTIONS[self.own]))
        (self.folder / "helper.py").write_text(HELPER.format(question=QUESTIONS[self.helpers]))
        (self.folder / "train.py").write_text(TRAIN.format(width=self.width))

    def change(self) -> tuple[str, dict[str, Any]]:
        """Changes one thing; returns the tool to ask, and its arguments."""
        kind = self.random.choice(("own", "helper", "train", "unsaved", "quick"))
        arguments: dict[str, Any] = {"file": "net.py"}
        self.unsaved = None
        if kind == "unsaved":
            text = NET.format(question=QUESTIONS[not self.own])
            self.unsaved = arguments["text"] = text
        elif kind == "own":
            self.own = not self.own
        elif kind == "helper":
            self.helpers = not self.helpers
        elif kind == "train":
            self.width = self.random.choice([each for each in range(16, 99) if each != self.width])
        else:  # twice in a row: the first change must not be visible
            self.own, self.helpers = not self.own, not self.helpers
            self.write_all()
            self.own = not self.own
        self.write_all()
        return ("shapes" if kind == "train" else "diagnose"), arguments

    def is_stale(self, tool: str, answer: dict[str, Any]) -> bool:
        text = (self.folder / "net.py").read_text() if self.unsaved is None else self.unsaved
        if answer["version"] != hashlib.sha256(text.encode()).hexdigest()[:12] or not answer["fresh"]:
            return True
        if tool == "shapes":
            values = {each["node"]: each["value"] for each in answer["values"]}
            return values.get("linear") != f"float32[2, {self.width}]"
        lines = {each["range"]["start"]["line"] for each in answer.get("findings", ()) if each["code"] == "FX101"}
        own = self.own if self.unsaved is None else not self.own
        return (OWN_LINE in lines, HELPERS_LINE in lines) != (own, self.helpers)


async def measure(rounds: int, seed: int) -> tuple[int, list[float], int]:
    """The stale answers, the seconds of each answer, and the bytes of the longest."""
    with tempfile.TemporaryDirectory() as folder:
        scene = Scene(Path(folder), seed)
        environment = {**os.environ, "FXLENS_PYTHON": sys.executable, "XDG_CACHE_HOME": f"{folder}/.cache"}
        server = StdioServerParameters(
            command=sys.executable, args=["-m", "fxlens", "mcp", "--trust"], cwd=folder, env=environment
        )
        stale, seconds, longest = 0, [], 0
        async with Client(server) as client:
            await client.call_tool("diagnose", {"file": "net.py"})
            for number in range(rounds):
                tool, arguments = scene.change()
                start = time.perf_counter()
                result = await client.call_tool(tool, arguments)
                seconds.append(time.perf_counter() - start)
                text = result.content[0].text
                longest = max(longest, len(text.encode()))
                if result.is_error or scene.is_stale(tool, json.loads(text)):
                    stale += 1
                    print(f"round {number}: {tool} {sorted(arguments)}: {text[:200]}", file=sys.stderr)
        return stale, seconds, longest


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    stale, seconds, longest = asyncio.run(measure(given.rounds, given.seed))
    median, slow = statistics.median(seconds) * 1e3, sorted(seconds)[int(len(seconds) * 0.95)] * 1e3
    print(f"{given.rounds} rounds of edit and ask: {stale} stale answers")
    print(f"{median:.0f} ms (median), {slow:.0f} ms (95 %); the longest answer has {longest} bytes")
    return 1 if stale else 0


if __name__ == "__main__":
    raise SystemExit(main())
