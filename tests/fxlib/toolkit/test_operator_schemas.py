"""Signatures, normalisation and type matching over torch's operators, against torch.fx."""

import re
import typing
import warnings

import pytest
import torch
import torch.fx.operator_schemas as theirs
import torch.nn.functional as F

import fxlib
import fxlib.operator_schemas as ours


def operators():
    for owner in (torch, F):
        for name in sorted(dir(owner)):
            value = getattr(owner, name)
            if callable(value) and not isinstance(value, type):
                yield value
    names = {s.name.split("::")[1] for s in torch._C._jit_get_all_schemas() if s.name.startswith("aten::")}
    for name in sorted(names):
        packet = getattr(torch.ops.aten, name, None)
        if packet is not None:
            yield packet
            yield from (getattr(packet, overload) for overload in packet.overloads())


def outcome(function):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            text = str(function())
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
    return re.sub(r" at 0x[0-9a-f]+|~", "", text)


X = torch.ones(2, device="meta")  # whose values nobody has to write in each result
CALLS = [((X,), {}), ((X, X), {}), ((X, 1), {}), ((X,), {"dim": 1}), ((X, X, X), {}), (([X, X],), {})]


def test_every_operator():
    compared = 0
    for number, op in enumerate(operators()):
        signatures = [outcome(lambda m=m, op=op: m.get_signature_for_torch_op(op, True)) for m in (theirs, ours)]
        assert signatures[0] == signatures[1], op
        args, kwargs = CALLS[number % len(CALLS)]
        types = tuple(type(arg) for arg in args)
        for given, only_kwargs in ((None, number % 2 == 0), (types, number % 2 == 1)):  # operators come in pairs
            call = (op, args, kwargs, given, None, only_kwargs)
            results = [outcome(lambda m=m, call=call: m.normalize_function(*call)) for m in (theirs, ours)]
            assert results[0] == results[1], (op, args, kwargs)
            compared += 1
        call = (op, args, kwargs)
        results = [outcome(lambda m=m, call=call: m.check_for_mutable_operation(*call)) for m in (theirs, ours)]
        assert results[0] == results[1], op
    assert compared > 4000


def test_python_functions():
    def plain(a, b=2, *, c):
        pass

    def positional(a, /, b):
        pass

    def variadic(a, *rest, **more):
        pass

    cases = [
        (plain, (1,), {}), (plain, (1,), {"c": 2}), (plain, (1, 2, 3), {"c": 2}), (plain, (1,), {"c": 2, "d": 2}),
        (plain, (1,), {"a": 2, "c": 2}), (plain, (), {}), (positional, (1, 2), {}), (variadic, (1, 2), {}),
        (F.max_pool2d, (X, 2), {"return_indices": True}), (torch.nn.Linear(2, 2), (1,), {}), ("text", (), {}),
        (torch.Tensor.add, (1, 2), {}), (F.relu, (X,), {}), (F.gelu, (X,), {}),
    ]  # fmt: skip
    for function, args, kwargs in cases:
        for only in (False, True):
            results = [
                outcome(lambda m=m: m.normalize_function(function, args, kwargs, normalize_to_only_use_kwargs=only))  # noqa: B023
                for m in (theirs, ours)
            ]
            assert results[0] == results[1], (function, args, kwargs)


def test_modules():
    root = torch.nn.Module()
    root.c = torch.nn.Conv2d(1, 1, 1)
    root.own = type("Own", (torch.nn.Module,), {"forward": lambda self, x: x})()
    for target, args in (("c", (X,)), ("c", (X, X)), ("gone", (X,)), ("own", (X,))):
        for only in (False, True):
            results = [outcome(lambda m=m: m.normalize_module(root, target, args, {}, only)) for m in (theirs, ours)]  # noqa: B023
            assert results[0] == results[1], target


# ruff: noqa: UP006, UP007, UP045
TYPES = [
    int, float, bool, str, complex, type(None), list, tuple, dict, torch.Tensor, torch.nn.Parameter, torch.dtype,
    list[int], typing.List[int], list[float], list[bool], list[torch.Tensor], list[typing.Any], typing.Any,
    tuple[int, ...], tuple[int, int], tuple[int, str], tuple[torch.Tensor, torch.nn.Parameter],
    typing.Optional[int], typing.Union[int, float],
]  # fmt: skip


@pytest.mark.parametrize("wanted", TYPES, ids=str)
def test_type_matches(wanted):
    for given in TYPES:
        results = [outcome(lambda m=m, given=given: m.type_matches(wanted, given)) for m in (theirs, ours)]
        assert results[0] == results[1], given


def test_type_hints():
    tensors = [torch.Tensor, torch.nn.Parameter]
    for value in ([int, int], [int, str], (int, float), [], (), [bool, int], int, tensors, None, [None]):
        results = [outcome(lambda m=m, value=value: m.create_type_hint(value)) for m in (theirs, ours)]
        assert results[0] == results[1], value


def test_node_normalized_arguments():
    gm = fxlib.symbolic_trace(torch.nn.Sequential(torch.nn.Conv2d(1, 1, 1)))
    node = next(node for node in gm.graph.nodes if node.op == "call_module")
    assert set(node.normalized_arguments(gm, normalize_to_only_use_kwargs=True).kwargs) == {"input"}
    gm = fxlib.symbolic_trace(lambda x: torch.flatten(x, 1))
    node = gm.graph.find_nodes(op="call_function", target=torch.flatten)[0]
    pair = node.normalized_arguments(gm, normalize_to_only_use_kwargs=True)
    assert pair.kwargs == {"input": node.args[0], "start_dim": 1, "end_dim": -1}
