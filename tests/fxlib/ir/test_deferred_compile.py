"""Generated code is compiled at its first use if it is certain to compile, otherwise at once."""

from __future__ import annotations

import keyword

import pytest
import torch
from torch import nn

import fxlib


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

    def forward(self, x, y):
        x = self.body(x) + y.view(-1, 4)[..., 1:3, None]
        return torch.cat([x, x * float("inf")], dim=1), {"a": x.to(torch.float16)}


def traced() -> fxlib.Graph:
    return fxlib.symbolic_trace(Net()).graph


def test_a_usual_graph_is_certain_to_compile():
    assert traced().python_code("self")._deferrable


def _keyword_argument(graph: fxlib.Graph) -> None:
    next(node for node in graph.nodes if node.target is torch.cat).kwargs = {"class": 1}


def _object(graph: fxlib.Graph) -> None:
    next(node for node in graph.nodes if node.op == "call_method").args = (next(iter(graph.nodes)), object())


def _keyword_path(graph: fxlib.Graph) -> None:
    next(node for node in graph.nodes if node.op == "call_module").target = "body.class"


def _parameter(graph: fxlib.Graph) -> None:
    next(iter(graph.nodes)).target = next(iter(keyword.kwlist))


@pytest.mark.parametrize("change", [_keyword_argument, _object, _keyword_path, _parameter])
def test_code_that_does_not_compile_raises_at_once(change):
    graph = traced()
    change(graph)
    assert not graph.python_code("self")._deferrable
    with pytest.raises(SyntaxError):
        fxlib.GraphModule({"body.0": nn.Identity(), "body.1": nn.Identity(), "body.class": nn.Identity()}, graph)
