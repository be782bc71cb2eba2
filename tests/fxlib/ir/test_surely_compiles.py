"""What is seen of a graph's code without writing it is what writing it says."""

from __future__ import annotations

import keyword

import pytest
import torch
from torch import nn

import fxlib
from fxlib.codegen.function import surely_compiles


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
    assert surely_compiles(traced()) and traced().python_code("self")._deferrable


def _keyword_argument(graph: fxlib.Graph) -> None:
    next(node for node in graph.nodes if node.target is torch.cat).kwargs = {"class": 1}


def _object(graph: fxlib.Graph) -> None:
    next(node for node in graph.nodes if node.op == "call_method").args = (next(iter(graph.nodes)), object())


def _keyword_path(graph: fxlib.Graph) -> None:
    next(node for node in graph.nodes if node.op == "call_module").target = "body.class"


def _annotation(graph: fxlib.Graph) -> None:
    next(iter(graph.nodes)).type = list[int]


def _parameter(graph: fxlib.Graph) -> None:
    next(iter(graph.nodes)).target = next(iter(keyword.kwlist))


def _without_a_name(graph: fxlib.Graph) -> None:
    next(node for node in graph.nodes if node.target is torch.cat).target = nn.ReLU()


@pytest.mark.parametrize(
    "change", [_keyword_argument, _object, _keyword_path, _annotation, _parameter, _without_a_name]
)
def test_where_the_code_may_not_compile_it_has_to_be_written(change):
    graph = traced()
    change(graph)
    assert not surely_compiles(graph)
