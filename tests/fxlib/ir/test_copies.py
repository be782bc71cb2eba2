"""Copies of modules: what `copy.deepcopy` gives, whatever the classes do with copies and attributes."""

from __future__ import annotations

import copy
import io
import pickle
from collections import OrderedDict

import pytest
import torch
from torch import nn

import fxlib
from fxlib.captures.isolation import restored
from fxlib.ir.modules import copy_of, copy_with, data_kept, writes_undone


def test_a_graph_keeps_what_its_tracer_needs():
    graph = fxlib.Graph(tracer_cls=fxlib.Tracer, tracer_extras={"depth": 1})
    assert copy.deepcopy(graph)._tracer_extras == {"depth": 1}


class Entangled(nn.Module):
    """Names for one thing in several places, and a way back to the root."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
        self.again = self.first[0]
        self.table = self._modules
        self.plain = [self.first, {"root": self}, torch.ones(2)]
        self.own = self.other = OrderedDict()
        self.register_buffer("none", None)
        self.nothing = None


class Rebuilt(nn.Module):
    """Looks at its parts while it is copied, which therefore have to be whole."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 2)
        self.width = 0

    def __setstate__(self, state):
        super().__setstate__(state)
        self.width = self.inner.out_features


class Own(nn.Module):
    """Says itself what a copy of it is."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 2)
        self.copies = 0

    def __deepcopy__(self, memo):
        made = Own()
        made.inner, made.copies = copy.deepcopy(self.inner, memo), self.copies + 1
        return made


class Handing(nn.Module):
    """Hands on what is asked of it, also how to copy it."""

    def __init__(self):
        super().__init__()
        self.inner = Own()

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("inner"), name)


def compiled() -> nn.Module:
    made = nn.Sequential(nn.ReLU())
    made._compiled_call_impl = print
    return made


def with_hooks() -> nn.Module:
    made = nn.Sequential(nn.ReLU(), nn.LSTM(2, 2))
    made[0].register_forward_hook(print)
    made.register_forward_pre_hook(print)
    return made


MODELS = [
    Entangled,
    Rebuilt,
    Own,
    Handing,
    compiled,
    with_hooks,
    lambda: nn.Sequential(Own(), Rebuilt(), Handing(), compiled(), Entangled()),
    lambda: nn.Transformer(8, 2, 1, 1, 8),
    lambda: nn.ModuleDict({"a": nn.ParameterList([torch.ones(1)]), "b": nn.ModuleList([nn.ReLU()])}),
]


class Pickler(pickle.Pickler):
    def reducer_override(self, value):
        """A tensor by its values: where it lies in memory is said otherwise."""
        return (torch.tensor, (value.tolist(), str(type(value)))) if isinstance(value, torch.Tensor) else NotImplemented


def written(model: nn.Module) -> bytes:
    """A text that says what is in the model, and which of its objects are the same one."""
    file = io.BytesIO()
    Pickler(file).dump(model)
    return file.getvalue()


@pytest.mark.parametrize("make", MODELS)
def test_a_copy_is_the_one_that_copy_makes(make):
    model = make()
    before = written(model)
    made, wanted = copy_with({}, model), copy.deepcopy(model)
    assert written(made) == written(wanted)
    assert written(model) == before
    tables = {id(each) for module in model.modules() for each in vars(module).values() if isinstance(each, dict)}
    assert not any(id(each) in tables for module in made.modules() for each in vars(module).values())


def test_what_is_given_instead_is_taken():
    model = Entangled()
    other = {id(each): nn.Parameter(torch.empty_like(each, device="meta")) for each in model.parameters()}
    made = copy_with(dict(other), model)
    assert [id(each) for each in made.parameters()] == [id(each) for each in other.values()]
    replaced = nn.ReLU()
    assert copy_with({id(model.first): replaced}, model).plain[0] is replaced


class Expanded(nn.Module):
    """A buffer and a plain tensor many of whose elements are one in memory; forward writes to that memory, as tracing
    does."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("row", torch.linspace(0, 1, 4))
        self.register_buffer("mask", self.row.expand(3, 4))
        self.more = torch.ones(3, 1).expand(3, 4)

    def forward(self, x):
        if self.training:
            self.row.add_(1)
        return x * self.mask + self.more


def test_what_an_expanded_tensor_held_is_put_back() -> None:
    model, x = Expanded(), torch.randn(3, 4)
    before = model.mask.clone()
    report = fxlib.diagnose(model, x)
    assert {each.code for each in report.findings} == {"FX210"}
    for around in (data_kept(model), writes_undone(model), restored(model)):
        with around:
            model(x)
            assert not torch.equal(model.mask, before)
        assert torch.equal(model.mask, before) and torch.equal(model.row, before[0])
        assert model.mask.stride() == (0, 1) and torch.equal(model.more, torch.ones(3, 4))
    assert fxlib.lower(model.eval(), (x,)).report.max_abs_error < 1e-6


def test_what_forward_computed_and_kept_is_copied_without_its_history():
    model = nn.Linear(2, 2)
    kept = model(torch.ones(1, 2))
    model.last, model.cache, model.loop = kept, {"a": [kept, (kept * 2,)]}, [1]
    model.loop.append(model.loop)
    made = copy_of(model)
    assert made.last is made.cache["a"][0] and made.last.is_leaf and made.cache["a"][1][0].equal(kept * 2)
    assert made.loop[1] is made.loop and kept.grad_fn is not None
