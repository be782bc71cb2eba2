"""Programs that fail for control flow, iteration, lengths and numbers, as a table: name -> function.

`programs` runs this file once with torch.fx and once with fxlib bound to ``fx``, so that both trace the same text.
"""

# ruff: noqa: RUF059
import functools
import itertools
import math
import operator

import numpy as np
import torch
from tables import Table

CASES = Table()
case, cases, concrete = CASES.case, CASES.cases, CASES.concrete


# --- loud: control flow -----------------------------------------------------------------------------------------------


@case
def if_on_value(x):
    if x.sum() > 0:
        return x
    return -x


@case
def while_on_value(x):
    while x.sum() > 0:
        x = x - 1
    return x


@case
def assert_on_value(x):
    assert x.sum() > 0, "positive"
    return x


@case
def bool_argument_with_default(x, flag: bool = False):
    return x if flag else -x


@case
def string_argument_with_default(x, mode="a"):
    if mode == "a":
        return x
    return -x


@case
def integer_argument_with_default(x, n: int = 2):
    if n > 1:
        return x
    return -x


cases(
    "control",
    lambda x: x if x.mean() > 0 else -x,
    lambda x: x and -x,
    lambda x: x or -x,
    lambda x: not x,
    lambda x: 0 < x < 1,
    lambda x: x.shape[0] in (1, 2),
    lambda x: x.shape[0] in [1, 2],
    lambda x: max(x, x + 1),
    lambda x: min(x.shape[0], 3),
    lambda x: bool(x),
    lambda x: x if x.shape[0] > 1 else -x,
    lambda x: x if x.dim() == 2 else -x,
    lambda x: x if x.dtype == torch.float32 else -x,
    lambda x: x if x.is_cuda else -x,
    lambda x: all([x > 0]),
    lambda x: any(c for c in [x]),
    lambda x: sorted([x, x]),
    lambda x: [v for v in [1, 2] if x > v],
    lambda x: x == x and x,
    lambda x: x != 1 or x,
    lambda x: [x].index(x + 1),
    lambda x: {1: x}.get(x, x) or 1,
    lambda x: isinstance(x.shape[0], int) and x,
)


# --- loud: iteration --------------------------------------------------------------------------------------------------


@case
def for_over_value(x):
    total = 0
    for row in x:
        total = total + row
    return total


@case
def starred_unpack(x):
    b, *rest = x.shape
    return x.view(b, -1)


@case
def star_argument(x):
    return torch.add(*x)


@case
def double_star_argument(x):
    return dict(**x)


@case
def range_of_shape(x):
    for _ in range(x.shape[0]):
        x = x + 1
    return x


cases(
    "iteration",
    lambda x: [v for v in x],
    lambda x: list(x),
    lambda x: tuple(x.shape),
    lambda x: sum(x.shape),
    lambda x: max(x.shape),
    lambda x: sorted(x.shape),
    lambda x: list(enumerate(x)),
    lambda x: list(zip(x, x)),  # noqa: B905
    lambda x: x.view(*x.shape[:2], -1),
    lambda x: {**x},
    lambda x: x.items(),
    lambda x: [k for k in x.items()],
    lambda x: "a" in x,
    lambda x: list(x.chunk(2, 1)),
    lambda x: torch.cat([*x.split(1)]),
    lambda x: functools.reduce(operator.add, x),
    lambda x: list(map(torch.relu, x)),
    lambda x: next(iter(x)),
    lambda x: list(itertools.chain(x, x)),
    lambda x: [*x],
    lambda x: dict(x),
    lambda x: set(x),
    lambda x: "".join(x),
    lambda x: x.keys(),
    lambda x: [k for k in x.keys()],  # noqa: SIM118
    lambda x: np.array([x, x]),
)


# --- loud: length, numbers, numpy -------------------------------------------------------------------------------------

cases(
    "number",
    lambda x: len(x),
    lambda x: len(x.shape),
    lambda x: list(reversed(x)),
    lambda x: torch.tensor([x, 3]),
    lambda x: torch.tensor(x),
    lambda x: int(x),
    lambda x: float(x.sum()),
    lambda x: complex(x),
    lambda x: round(x),
    lambda x: round(x, 2),
    lambda x: divmod(x, 2),
    lambda x: range(x),
    lambda x: [1, 2, 3][x],
    lambda x: [1, 2, 3][:x],
    lambda x: {1: 2}[x],
    lambda x: "%d" % x,  # noqa: UP031
    lambda x: f"{x:3d}",
    lambda x: f"{x.sum():.3f}",
    lambda x: math.floor(x),
    lambda x: math.trunc(x),
    lambda x: operator.index(x),
    lambda x: hex(x),
    lambda x: chr(x),
    lambda x: [0] * x,
    lambda x: x * [0],
    lambda x: "a" * x,
    lambda x: bytes(x),
    lambda x: np.asarray(x),
    lambda x: np.sqrt(x),
    lambda x: x * np.float32(2.0),
    lambda x: np.float32(2.0) * x,
    lambda x: x + np.array([1.0]),
    lambda x: torch.from_numpy(x),
    lambda x: x.foo(np.int64(3)),
    lambda x: pow(2, x),
    lambda x: pow(x, 2),
    lambda x: pow(x, 2, 5),
    lambda x: abs(x),
    lambda x: sum([x, x]),
    lambda x: +x,
    lambda x: ~x,
)


@case
def set_item(x):
    x[0] = 1
    return x


@case
def add_into_item(x):
    x[:, 0] += 1
    return x


@case
def delete_item(x):
    del x[0]
    return x


@case
def set_attribute(x):
    x.foo = 3
    return x


@case
def set_data(x):
    x.data = x + 1
    return x.data


@case
def with_proxy(x):
    with x:
        return x


@case
def await_like(x):
    return (yield x)
