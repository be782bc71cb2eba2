"""Functions that trace, as a table; see `cases_control` for how it is used."""

# ruff: noqa: F821, RUF059, SIM300, UP006, UP045
import collections
import dataclasses
import enum
import functools
import math
import operator
import typing
from math import sqrt

import torch
import torch.nn.functional as F
from tables import Table

CASES = Table()
case, cases, concrete = CASES.case, CASES.cases, CASES.concrete


class Color(enum.Enum):
    RED = 1


class Number(enum.IntEnum):
    ONE = 1


@dataclasses.dataclass
class Pair:
    left: typing.Any
    right: typing.Any


class Point(typing.NamedTuple):
    x: typing.Any
    y: typing.Any


Plain = collections.namedtuple("Plain", "p q")

cases(
    "operator",
    lambda x: x + 1,
    lambda x: 1 + x,
    lambda x, y: (x + y, x - y, x * y, x / y, x // y, x % y, x**y, x @ y),
    lambda x: (1 - x, 2 * x, 3 / x, 4 // x, 5 % x, 6**x),
    lambda x: (x << 1, x >> 1, x & 1, x | 1, x ^ 1),
    lambda x: (1 << x, 1 >> x, 1 & x, 1 | x, 1 ^ x),
    lambda x: (x == 1, x != 1, x < 1, x > 1, x <= 1, x >= 1),
    lambda x: (1 == x, 1 < x),
    lambda x: (-x, +x, ~x, abs(x)),
    lambda x: x[0],
    lambda x: x[0, :, None, ..., 1:2],
    lambda x: x[x > 0],
    lambda x: x[x.shape[0] // 2 :],
    lambda x: x[[0, 1]],
    lambda x: x["a"]["b"],
    lambda x: x[0][1].y.z(3),
    lambda x: operator.add(x, 1),
    lambda x: operator.matmul(x, x),
    lambda x: operator.getitem(x, 0),
    lambda x: torch.ones(2) + x,
    lambda x: torch.ones(2) @ x,
    lambda x: torch.ones(2)[x],
    lambda x: 2.5 * x + 1j,
)


@case
def in_place_operators(x, y):
    x += y
    x -= 1
    x *= 2
    x /= 3
    x @= y
    x **= 2
    x //= 2
    x %= 2
    x <<= 1
    x >>= 1
    x &= 1
    x |= 1
    x ^= 1
    return x


cases(
    "attribute",
    lambda x: x.shape,
    lambda x: x.shape[0],
    lambda x: x.T.H.real,
    lambda x: x.size(),
    lambda x: x.size(0) * x.size(dim=1),
    lambda x: x.view(x.shape[0], -1),
    lambda x: x.view(x.shape[:1] + (-1,)),
    lambda x: x.dtype,
    lambda x: x.to(x.device),
    lambda x: x.foo,
    lambda x: x.foo.bar,
    lambda x: x.window(x.left, right=x.right),
    lambda x: [x.shape, x.shape],
    lambda x: (lambda s: (s, s))(x.shape),
    lambda x: (x.relu, x.relu())[1],
    lambda x: x(1, a=2),
    lambda x: x.forward(1)(2),
    lambda x: getattr(x, "shape"),  # noqa: B009
    lambda x: x.grad_fn,
    lambda x: x.__add__(1),
    lambda x: x.__getitem__(1),
)


@case
def unpack_two(x):
    a, b = x
    return a + b


@case
def unpack_nested(x):
    (a, b), c = x
    return a + b + c


@case
def unpack_shape(x):
    b, c, h, w = x.shape
    return x.reshape(b, c, h * w)


@case
def unpack_result(x):
    values, indices = torch.max(x, 1)
    return values, indices


@case
def unpack_list_target(x):
    [a, b] = x.split(2)
    return b - a


@case
def unpack_one(x):
    (a,) = x
    return a


@case
def unpack_many(x):
    (
        a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, b0, b1, b2, b3, b4, b5, b6, b7, b8, b9, c0, c1, c2, c3, c4, c5, c6,
    ) = x  # fmt: skip
    return a0 + c6


exec(
    "def unpack_three_hundred(x):\n    "
    + ", ".join(f"a{i}" for i in range(300))
    + " = x\n    return a0 + a299\nCASES['unpack_three_hundred'] = unpack_three_hundred"
)

cases(
    "function",
    lambda x: torch.relu(x),
    lambda x: F.relu(x, inplace=True),
    lambda x: torch.cat([x, x], dim=1),
    lambda x: torch.cat((x, x)),
    lambda x: torch.stack([x, [x, x]]),
    lambda x: torch.add(x, x, alpha=2),
    lambda x: torch.nn.functional.linear(x, torch.ones(2, 2)),
    lambda x: F.conv2d(x, torch.ones(1, 1, 1, 1), padding=1),
    lambda x: F.softmax(x, dim=-1),
    lambda x: F.cross_entropy(x, x),
    lambda x: F.max_pool2d(x, 2, return_indices=True),
    lambda x: F.interpolate(x, scale_factor=2.0),
    lambda x: F.scaled_dot_product_attention(x, x, x),
    lambda x: torch.einsum("ij,jk->ik", x, x),
    lambda x: torch.einsum("ij,jk->ik", [x, x]),
    lambda x: torch.where(x > 0, x, -x),
    lambda x: torch.ops.aten.relu.default(x),
    lambda x: torch.ops.aten.add(x, x),
    lambda x: torch.ops.aten.add.Tensor(x, x),
    lambda x: torch.Tensor.add(x, x),
    lambda x: torch.Tensor.relu(x),
    lambda x: torch.Tensor.size(x),
    lambda x: torch.Tensor.shape.__get__(x),
    lambda x: torch.functional.norm(x),
    lambda x: torch.linalg.norm(x),
    lambda x: torch.fft.fft(x),
    lambda x: torch.special.expit(x),
    lambda x: torch.split(x, 2),
    lambda x: torch.meshgrid(x, x, indexing="ij"),
    lambda x: torch.broadcast_tensors(x, x),
    lambda x: torch.numel(x),
    lambda x: torch.zeros_like(x, dtype=torch.float64, device="cpu"),
    lambda x: torch._assert(x.shape[0] > 1, "message"),
    lambda x: torch.unique(x),
    lambda x: torch.topk(x, k=2)[0],
    lambda x: F.pad(x, (1, 1)),
    lambda x: F.embedding(x, torch.ones(2, 2)),
    lambda x: F.layer_norm(x, (2,)),
    lambda x: F.group_norm(x, 1),
    lambda x: F.multi_head_attention_forward,
    lambda x: F.gumbel_softmax(x),
    lambda x: F.normalize(x),
    lambda x: F.one_hot(x, 3),
    lambda x: F.unfold(x, 2),
    lambda x: torch.chunk(x, 2)[0],
    lambda x: torch.argmax(x, dim=1, keepdim=True),
    lambda x: torch.clamp(x, min=0, max=1),
    lambda x: torch.sum(x, (0, 1)),
    lambda x: torch.sym_not(x),
    lambda x: torch.sym_int(x),
    lambda x: torch.sym_max(x, 1),
)

cases(
    "argument",
    lambda x: x.foo(Color.RED, Number.ONE),
    lambda x: x.foo(Pair(x, 1)),
    lambda x: x.foo(Pair),
    lambda x: x.foo(Point(x, 2)),
    lambda x: x.foo(Plain(1, [x])),
    lambda x: x.foo(slice(x, None, 2)),
    lambda x: x.foo(range(3)),
    lambda x: x.foo([x, (1, {"k": x})]),
    lambda x: x.foo(torch.Size([1, 2])),
    lambda x: x.foo(torch.float32, None, 1j, ..., torch.device("cpu"), torch.strided, torch.channels_last),
    lambda x: x.foo(float("inf"), float("nan"), -0.0, True, "a'b\"\n"),
    lambda x: x.foo({1: x, (1, 2): x, None: 3}),
    lambda x: x.foo(a=x, b=[x.c]),
    lambda x: x.foo(torch.ops.aten.relu.default),
    lambda x: x.foo(collections.OrderedDict(a=x)),
    lambda x: x.foo(collections.defaultdict(list)),
    lambda x: x.foo(torch.nn.parameter.Buffer(torch.ones(2))),
    lambda x: x.foo([[]], (), {}),
    lambda x: (x, [x], {"a": x}, None, 1, "s"),
    lambda x: Point(x, x),
    lambda x: Pair(x, x),
    lambda x: None,
    lambda x: 3,
    lambda x: torch.ones(2),
    lambda: torch.ones(2),
    lambda x: (x, x),
    lambda x: x.shape,
    lambda x, y: y,
)


@case
def annotated(x: torch.Tensor, n: int = 3, *, flag: bool = True, name: typing.Optional[str] = None) -> torch.Tensor:
    return x + n + flag


@case
def string_annotations(x: "torch.Tensor", y: "int" = 1) -> "typing.List[torch.Tensor]":
    return [x, y]


@case
def container_annotations(x: typing.List[torch.Tensor], y: dict[str, int]) -> typing.Tuple[int, torch.Tensor]:
    return y["a"], x[0]


@case
def variadic(a, *args, k=3, **kw):
    return a + args[0] + k + kw["z"]


@case
def only_args(*args):
    return args[0] + args[1]


@case
def only_kwargs(**kwargs):
    return kwargs["a"]


@case
def keyword_only(x, *, k, j=2):
    return x + k + j


@case
def positional_only(x, y=2, /, z=3):
    return x + y + z


@case
def awkward_names(self, input, device, torch, len, lambda_=1, _x=2, x_1=3):
    x = input + device
    return x + torch + len + lambda_ + _x + x_1 + self


@case
def defaults(x, a=None, b=1.5, c="s", d=(1, 2), e=torch.float32):
    return x


@case
def closure_and_globals(x):
    y = x * 2

    def inner(z):
        return z + y

    return inner(inner(x))


def decorate(fn):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        return fn(*args, **kwargs)

    return wrapper


@case
@decorate
def decorated(x: int, y=2) -> str:
    return x + y


@case
@decorate
def decorated_variadic(x, *, y=2):
    return x + y


@case
@decorate
@decorate
def decorated_twice(x):
    return x


@case
def generator_inside(x):
    return sum(x * i for i in range(3))


@case
def comprehension_inside(x):
    return [x + i for i in range(3)]


@case
def mathematics(x):
    return math.sqrt(x) + sqrt(x) + math.sqrt(4) + math.pow(x, 2)


cases("mathematics", lambda x: math.floor(x.sum()) + math.pi, lambda x: math.isnan(x), lambda x: max(math.exp(1), 2))


@case
def long_names(x):
    return torch.nn.functional.adaptive_avg_pool2d(x, (1, 1)).flatten(1).add_(1).relu_().__getitem__(0)


CASES["graph_module_of_function"] = fx.symbolic_trace(annotated)
