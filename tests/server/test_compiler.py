"""torch's compiler takes a second to import: a worker has it imported once a file needs it, and not before."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from lsp_client import Client

# What it raises is the finding FX302; the constructor runs in the job.
SEES = """import sys

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional


# fxlens: Net() <- torch.randn(2, 4)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(4, 4)
        functional.gelu(torch.empty(3))
        with FakeTensorMode():
            torch.ones(2, 3) @ torch.ones(3, 2)
        raise ValueError("there" if "torch._dynamo" in sys.modules else "not there")

    def forward(self, x):
        return x
"""
COMPILED = """import torch
from torch import nn


@torch.compile
def double(x):
    return x * 2


# fxlens: Net() <- torch.randn(2, 4)
class Net(nn.Module):
    def forward(self, x):
        return x + 1
"""


@pytest.mark.parametrize("worker", ["fork", "spawn"])
def test_the_compiler_is_imported_once_a_file_needs_it(tmp_path: Path, worker: str):
    with Client(tmp_path, settings={"worker": worker, "deadline": 30, "verify": False}) as client:

        def seen(name: str) -> str:
            (found,) = client.diagnostics(client.open(tmp_path / name, SEES))
            return "not there" if "not there" in found["message"] else found["message"]

        assert seen("first.py") == "not there"
        compiled = client.open(tmp_path / "compiled.py", COMPILED)
        assert client.diagnostics(compiled) == []
        client.request("fxlens/record", {"uri": compiled})
        seen("second.py")  # without fork, its process had been prepared before
        assert "raises ValueError: there" in seen("third.py")


PUT_OFF = """
import sys
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from fxlens.worker import compiler
from fxlib.shapes.fake import fake_mode

def ran():
    with torch.device("meta"):
        return [type(each).__name__ for each in (torch.nn.functional.gelu(torch.empty(3)), torch.nn.Embedding(3, 4))]

def faked():
    with FakeTensorMode():
        return (torch.ones(2, 3) @ torch.ones(3, 4)).shape

whole = torch.arange(24.0).reshape(2, 3, 4)
views = [whole[1:, ::2], whole.permute(2, 0, 1), whole[:, :1].expand(2, 5, 4)]
real = [torch.nn.Parameter(torch.ones(2, 3)), whole, *views]

def fakes_of_real_ones(mode):
    found = []
    with mode:
        for each in real:
            one, same = each.view_as(each), each.view_as(each)
            at = each.as_strided((2,), (1,), each.storage_offset())
            found.append((one.shape, one.stride(), one.storage_offset(), one.requires_grad, one.device, at.shape))
            assert one.untyped_storage()._cdata == same.untyped_storage()._cdata
        found.append((real[1] + 1, real[2].sum(0)))
    return [tuple(map(str, each)) for each in found]

put_off = compiler.put_off
put_off()
before = ran(), faked()
fakes = fakes_of_real_ones(fake_mode())
torch._dynamo.config.recompile_limit = 77
assert "torch._dynamo" not in sys.modules
assert torch._dynamo.is_compiling() is False
assert "torch._dynamo" in sys.modules and sys.modules["torch._dynamo"] is torch._dynamo
assert sys.modules["torch._dynamo.config"] is torch._dynamo.config
assert torch._dynamo.config.recompile_limit == 77
assert fakes_of_real_ones(FakeTensorMode(allow_non_fake_inputs=True)) == fakes
assert (ran(), faked()) == before == (["Tensor", "Embedding"], (2, 4))
function = torch._refs.normal
while "fn" not in function.__code__.co_freevars or function.__code__.co_filename != torch._compile.__file__:
    function = function.__wrapped__
(kept,) = (each.cell_contents for each in function.__closure__ if callable(each.cell_contents))
assert kept.__dict__["__dynamo_disable"].__module__ != "fxlens.worker.compiler"
module = torch.compile(torch.nn.Linear(2, 2), backend="eager", fullgraph=True)
assert module(torch.ones(1, 2)).shape == (1, 2)
print("done")
"""


def test_once_imported_it_is_asked_as_torch_asks_it():
    done = subprocess.run([sys.executable, "-c", PUT_OFF], capture_output=True, text=True, timeout=120)
    assert done.stdout == "done\n", done.stderr
