"""Copies of modules: what `copy.deepcopy` gives, whatever the classes do with copies and attributes."""

from __future__ import annotations

import copy
import io
import pickle
from collections import OrderedDict

import pytest
import torch
from torch import nn

from fxlib.ir.modules import copy_with


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
