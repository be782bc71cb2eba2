"""Programs with concrete arguments, as a table; see `cases_control` for how it is used."""

# ruff: noqa: F821
import collections
import enum
import typing

import torch
import torch.nn as nn
from tables import Table

CASES = Table()
case, cases, concrete = CASES.case, CASES.cases, CASES.concrete


class Color(enum.Enum):
    RED = 1


class Point(typing.NamedTuple):
    x: typing.Any
    y: typing.Any


@concrete({"masked": False})
def concrete_bool(scores, masked):
    if masked:
        scores = scores.tril()
    return scores.softmax(-1)


@concrete({"b": 3, "c": None, "d": "s", "e": 2.0})
def concrete_scalars(a, b, c=None, d="x", e=1.0):
    return a + b


@concrete({"b": torch.float32})
def concrete_dtype(a, b):
    return a.to(b)


@concrete({"b": torch.zeros(2)})
def concrete_tensor(a, b):
    return a + b


@concrete({"zz": 3})
def concrete_unknown(a):
    return a


@concrete({"x": {"a": fx.PH, "b": [fx.PH, 3]}})
def concrete_nested(x, y):
    return {"o": x["a"], "l": [y, y + x["b"][1]]}


@concrete({"features": {"low": fx.PH, "high": fx.PH}})
def concrete_loop(features):
    pooled = [value.mean((2, 3)) for value in features.values()]
    return torch.cat(pooled, 1)


@concrete((fx.PH, 3, None))
def concrete_positional(a, b, c=None):
    return a + b


@concrete((1, 2))
def concrete_positional_wrong(a, b, c=None):
    return a + b


@concrete((fx.PH, fx.PH))
def concrete_variadic(a, *args):
    return a + args[0]


@concrete((fx.PH,))
def concrete_variadic_short(a, *args):
    return a + args[0]


@concrete((fx.PH, 1))
def concrete_only_variadic(*args):
    return args[0]


@concrete({"args": (1, 2)})
def concrete_args_name(*args):
    return args[0]


@concrete({"*args": (1, 2)})
def concrete_star_args_name(*args):
    return args[0]


@concrete({"a": (fx.PH, fx.PH)})
def concrete_nested_variadic(a, *args):
    return a[0] + a[1] + args[0]


@concrete({"x": [], "y": ()})
def concrete_empty(x, y, z):
    return z


@concrete({"x": collections.OrderedDict(a=fx.PH)})
def concrete_ordered(x):
    return x["a"]


@concrete({"x": Point(fx.PH, 2)})
def concrete_named_tuple(x):
    return x.x + x.y


@concrete({"k": 4})
def concrete_keyword_only(x, *, k=3):
    return x + k


@concrete({"flag": True})
class ConcreteModule(nn.Module):
    def forward(self, x, flag=False):
        return x if flag else -x


@concrete({"x": Color.RED, "y": True})
def concrete_enum(x, y):
    return x
