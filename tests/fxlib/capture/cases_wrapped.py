"""Programs that ask whether they are traced, call wrapped functions, or make arguments of their own, as a table; see
`cases_control` for how it is used.
"""

# ruff: noqa: F821
from math import sqrt

import torch
from tables import Table

CASES = Table()
case, cases, concrete = CASES.case, CASES.cases, CASES.concrete


@case
def asks_whether_tracing(x):
    from torch.fx._symbolic_trace import is_fx_symbolic_tracing, is_fx_tracing

    return x + 1 if is_fx_tracing() and is_fx_symbolic_tracing() else x - 1


@fx.wrap
def leaf(x, n=2):
    return x if n > 1 else -x


@fx.wrap
def leaf_of_list(values):
    return values[0]


def leaf_by_name(x):
    return x + 100


fx.wrap("leaf_by_name")
fx.wrap("len")
fx.wrap("float")
fx.wrap("sqrt")


@torch.fx.wrap
def leaf_by_torch(x):
    return x + 1000


cases(
    "wrap",
    lambda x: leaf(x),
    lambda x: leaf(x, n=3) + leaf(1) + leaf(x=x),
    lambda x: leaf_of_list([x, 1]) + leaf_of_list([{"a": x}]) + leaf_of_list([1]),
    lambda x: leaf_by_name(x) + leaf_by_name(3),
    lambda x: len(x) + len([1, 2]),
    lambda x: x.narrow(0, 0, len(x) - 1) * float(len(x)),
    lambda x: sqrt(x),
    lambda x: leaf_by_torch(x),
    lambda x: [leaf(leaf(x))],
)


class Boxes(metaclass=fx.ProxyableClassMeta):
    def __init__(self, corners, labels):
        self.corners, self.labels = corners, labels

    def moved(self, other):
        return Boxes(self.corners + other.corners, self.labels)


@case
def proxyable_class(boxes: Boxes, offset: torch.Tensor):
    return boxes.moved(Boxes(offset, offset))


@case
def proxyable_constant(boxes):
    return boxes.moved(Boxes(torch.ones(4), torch.ones(1)))


@case
def proxyable_inside(x):
    return Boxes(x, 1).moved(Boxes(x, 2))


class CreatesItsArgument:
    def __fx_create_arg__(self, tracer):
        return tracer.create_node("call_function", CreatesItsArgument, (), {})


@case
def own_argument(x):
    return x.foo(CreatesItsArgument())
