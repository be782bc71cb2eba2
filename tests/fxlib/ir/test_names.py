"""Names of nodes and of globals: the same as torch.fx gives."""

import builtins
import math
import operator

import pytest
import torch
import torch.fx.graph
import torch.fx.node
from hypothesis import given
from hypothesis import strategies as st

import fxlib.graph
import fxlib.node

PIECES = st.lists(
    st.sampled_from(["x", "1", "_", "0", "a", "_1", "_2", "print", ".", "é", "for", "None", "10"]), max_size=4
)


@given(st.lists(st.tuples(PIECES.map("".join), st.sampled_from([None, None, 1, "q"])), max_size=14))
def test_namespace_gives_the_same_names(requests):
    ours, theirs = fxlib.graph._Namespace(), torch.fx.graph._Namespace()
    for candidate, obj in requests:
        assert ours.create_name(candidate, obj) == theirs.create_name(candidate, obj)
    assert ours._used_names == theirs._used_names
    assert ours._base_count == theirs._base_count


def test_illegal_names_are_the_same():
    assert set(fxlib.graph._illegal_names) == set(torch.fx.graph._illegal_names)


@given(st.text(alphabet="aBC1_xyHT", max_size=8))
def test_snake_case(text):
    assert fxlib.graph._snake_case(text) == torch.fx.graph._snake_case(text)


def _said(function, argument):
    try:
        return function(argument)
    except Exception as error:
        return type(error).__name__, str(error)


PLACES = [torch, torch.nn.functional, operator, math, torch._C._nn, torch._C._fft, torch.linalg, torch.special,
          torch.ops.aten, torch._C.TensorBase, str, list, torch.nn.init, torch.functional]  # fmt: skip


@pytest.mark.parametrize("place", PLACES, ids=lambda place: getattr(place, "__name__", str(place)))
def test_every_function_is_called_the_same(place):
    names = [name for name in dir(place) if callable(getattr(place, name, None))]
    assert names
    for name in names:
        function = getattr(place, name)
        for ours, theirs in (
            (fxlib.node._get_qualified_name, torch.fx.node._get_qualified_name),
            (fxlib.Node._pretty_print_target, torch.fx.Node._pretty_print_target),
            (fxlib.node._type_repr, torch.fx.node._type_repr),
        ):
            assert _said(ours, function) == _said(theirs, function), name


@pytest.mark.parametrize("name", [name for name in dir(builtins) if isinstance(getattr(builtins, name), type)])
def test_builtin_types(name):
    kind = getattr(builtins, name)
    assert fxlib.node._type_repr(kind) == torch.fx.node._type_repr(kind)


def test_operators_are_written_the_same():
    assert fxlib.graph.magic_methods == torch.fx.graph.magic_methods
    assert fxlib.graph.inplace_methods == torch.fx.graph.inplace_methods
    assert fxlib.graph.reflectable_magic_methods == torch.fx.graph.reflectable_magic_methods
