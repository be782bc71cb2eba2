"""A forward that asks for a CUDA device or a process group is judged where there is none: it runs on the CPU, alone."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from strangers import judged

WARM = "captures"

HELPER = """import torch


def grid(height, width):
    rows = torch.arange(height).cuda().float()
    return rows[:, None] + torch.linspace(0, 1, width, device="cuda")
"""
FILE = """import torch
import torch.distributed as dist
from grids import grid
from torch import nn


class Moved(nn.Module):
    def __init__(self, use_gpu=True):
        super().__init__()
        self.use_gpu = use_gpu
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        scale = torch.ones(x.size(0), 4) * 2
        if self.use_gpu:
            scale = scale.cuda()
        return self.linear(x) * scale


class Helped(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, image):
        image = self.conv(image)
        if image.shape[1] == 3:
            image = image * 2
        return image + grid(8, 8)


# fxlens: Given() <- torch.randn(2, 4, device="cuda")
class Given(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        assert x.shape[1] == 4
        return self.linear(x.to("cuda:0")).to(0, torch.float64)


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        if x.shape[0] > 64:
            x = x * 2
        return self.linear(x) / dist.get_world_size()


class Typed(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        x = self.linear(x).index_select(0, torch.cuda.LongTensor([0]))
        return x.type("torch.cuda.DoubleTensor") + torch.tensor([1, 2, 3, 4], device="cuda")


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x)
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    files = {"grids.py": HELPER, "models.py": FILE}
    found = judged(tmp_path_factory, files, arguments=["--captures", "fx,export,compile"])
    return {"findings": found["models.py"], "targets": [each for name, each in found.items() if "::" in name]}


def test_inputs_are_found_and_the_obstacle_is_named(said: dict[str, Any]):
    models = {each["name"]: each for each in said["targets"]}
    assert all(each["inputs"] for each in models.values())
    assert models["Plain"]["status"] == models["Typed"]["status"] == "traced"
    assert {each["target"]: each["code"] for each in said["findings"] if "fx" in each["captures"]} == {
        "Moved": "FX160", "Helped": "FX102", "Given": "FX104", "Shared": "FX102",
    }  # fmt: skip


def test_fixes_are_proven_on_the_processor(said: dict[str, Any]):
    proven = {each["target"] for each in said["findings"] if any(fix["preferred"] for fix in each["fixes"])}
    assert proven == {"Moved", "Helped", "Shared"}


def test_the_captures_are_judged(said: dict[str, Any]):
    for each in said["targets"]:
        assert {name: found["outcome"] for name, found in each["captures"].items()} == dict.fromkeys(
            ("export", "compile", "shapes"), "captured"
        )


def test_a_graph_keeps_the_request():
    """`cuda` is a node, as in torch.fx's graph, and the model can be called with data."""
    import torch
    from fxlens.worker import alone

    from fxlib import symbolic_trace

    class Moving(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.cuda() + torch.ones(2, device="cuda")

    with alone.alone():
        traced = symbolic_trace(Moving())
        assert [str(node.target) for node in traced.graph.nodes][1] == "cuda"
        assert traced(torch.ones(2)).tolist() == [2, 2]


COUNTED = """import torch
from torch import nn


class Counted(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        print("called")
        mask = torch.ones(4).cuda()
        if x.mean() > 0:
            mask = mask * 2
        return self.linear(x) * mask
"""


def test_a_later_text_is_traced_alone_at_once(tmp_path: Path):
    """As often as one that asks for no device; and what no longer asks for one is not said to."""
    from fxlens.host.launch import Launch, find_python
    from fxlens.host.pool import Pool
    from fxlens.ipc.request import Request
    from fxlens.jobs import trace
    from fxlens.sources import known

    path = tmp_path / "counted.py"
    plain = COUNTED.replace(".cuda()", ".float()")

    async def say() -> list[dict[str, Any]]:
        pool = Pool(Launch(find_python("", None), str(tmp_path)))
        pool.kept.learn = lambda *arguments: None  # type: ignore[method-assign]  # each text has a new process
        said: list[Any] = []
        try:
            for text in (plain, COUNTED, COUNTED, plain, plain):
                before = known.from_record(said[-1]["targets"]) if said else {}
                said.append(await trace.run(pool, Request(str(path), text, str(tmp_path), known=before)))
        finally:
            await pool.close()
        return said

    _, first, *later = asyncio.run(say())
    assert [record["targets"][0]["alone"] for record in (first, *later)] == [True, True, False, False]
    assert first["targets"][0]["findings"] == later[0]["targets"][0]["findings"]
    assert later[1]["targets"][0]["findings"] == later[2]["targets"][0]["findings"]
    calls = [record["output"].count("called") for record in (first, *later)]
    assert calls[0] > calls[1] == calls[3], calls
