"""FX11x and FX12x: the items or the length of a traced value are needed."""

from fxlib.diagnosis.rules.rule import Rule, add

_ITER = (
    "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a *args or **kwargs "
    "function argument. See the torch.fx docs on pytorch.org for a more detailed explanation of what types of control "
    "flow can be traced, and check out the Proxy docstring for help troubleshooting Proxy iteration errors"
)
_LEN = (
    "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, please call "
    "torch.fx.wrap('len') at module scope"
)

add(
    Rule(
        "FX110",
        "iteration",
        "Iteration over a traced value",
        "{it} cannot be iterated: a traced value has no known number of items",
        "error",
        """`for`, comprehensions, `list()`, `tuple()`, `zip` and `enumerate` need the number of items, which a traced
value does not have. Only an assignment to a fixed number of names (`b, c = x.shape`) works, because Python asks for
exactly that many items. Index the value, use the batched form of the operation, or put the loop into a wrapped
function.""",
        _ITER,
        (
            "star-concat",
            "view-concat",
            "unpack-index",
            "unpack-count",
            "drop-list",
            "fixed-count",
            "lift-block",
            "lift-expression",
            "wrap",
        ),
        """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        rows = [row * 2 for row in x]  # <- here
        return torch.stack(rows)
""",
        """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return x * 2
""",
        question=True,
    ),
    Rule(
        "FX111",
        "starred-unpack",
        "Unpacking of a traced value with a star",
        "{it} cannot be unpacked with a star: a traced value has no known number of items",
        "error",
        """`first, *rest = value` takes as many items as there are, and a traced value has no known number. Name
every item, or use indices.""",
        _ITER,
        (
            "unpack-index",
            "fixed-count",
        ),
        """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        batch, *rest = x.shape  # <- here
        return x / batch
""",
        """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        batch, columns = x.shape
        return x / batch
""",
        question=True,
    ),
    Rule(
        "FX112",
        "star-call",
        "Traced value spread into arguments with *",
        "{it} cannot be spread into arguments: a traced value has no known number of items",
        "error",
        """`f(*value)` iterates over the value to build the arguments. Many torch functions accept the sequence itself:
`x.view(x.shape[:2] + (-1,))` can be recorded.""",
        _ITER,
        ("view-concat", "name-arguments", "index-star", "wrap"),
        """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return x.view(*x.shape[:2], -1)  # <- here
""",
        """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return x.view(x.shape[:2] + (-1,))
""",
        "(torch.randn(2, 3, 4),)",
        question=True,
    ),
    Rule(
        "FX113",
        "mapping",
        "Traced value used as a mapping",
        "A traced value cannot be used as a mapping, since its keys are not known: {it}",
        "error",
        """`f(**value)`, `{**value}`, a loop over `value.items()` and `"key" in value` need the keys, which a traced
value does not have. Subscripting with a known key (`value["key"]`) is recorded. A dictionary of inputs can be
traced when its structure is given: `concrete_args={"batch": {"key": fxlib.PH}}`.""",
        _ITER,
        (
            "index-mapping",
            "name-arguments",
            "dict-union",
            "concrete-argument",
            "unpack-index",
            "drop-list",
            "fixed-count",
            "wrap",
        ),
        """\
import torch
from torch import nn


class Net(nn.Module):
    def combine(self, left, right):
        return left + right

    def forward(self, batch):
        return self.combine(**batch)  # <- here
""",
        """\
import torch
from torch import nn


class Net(nn.Module):
    def combine(self, left, right):
        return left + right

    def forward(self, batch):
        return self.combine(left=batch["left"], right=batch["right"])
""",
        '({"left": torch.randn(2), "right": torch.randn(2)},)',
        question=True,
    ),
    Rule(
        "FX114",
        "builtin-reduction",
        "Built-in sum, max, min, any or all over a traced value",
        "The built-in `{call}()` iterates over a traced value: {it}",
        "error",
        """The built-in functions iterate over their argument. `x.sum()`, `x.numel()` and `torch.amax` are recorded. For
a shape, name its dimensions and calculate with them, or wrap the built-in.""",
        _ITER,
        ("wrap",),
        """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return x / sum(x.shape)  # <- here
""",
        """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return x / (x.shape[0] + x.shape[1])
""",
        advice="Use the tensor's own method, or torch.fx.wrap for sizes",
    ),
    Rule(
        "FX120",
        "len",
        "len() of a traced value",
        "{it} must be a Python int, but a traced value has no known length",
        "error",
        """`len` must return a Python int, so the call cannot be recorded. For a tensor, `x.shape[0]` is the same number
and is recorded. `torch.fx.wrap("len")` records the call, but the result is a traced value, so a `range` or `if` that
uses it fails instead.""",
        _LEN,
        ("len-to-shape", "wrap"),
        """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x: torch.Tensor):
        return x / len(x)  # <- here
""",
        """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x: torch.Tensor):
        return x / x.shape[0]
""",
        number=True,
    ),
    Rule(
        "FX121",
        "reversed",
        "reversed() of a traced value",
        "{it} needs a length, but a traced value has no known length",
        "error",
        """`reversed` needs the length of its argument and then indexes it. `torch.flip` is recorded. Reverse a
shape with a slice, `x.shape[::-1]`.""",
        _LEN,
        ("flip",),
        """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return torch.stack(list(reversed(x)))  # <- here
""",
        """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return torch.flip(x, (0,))
""",
    ),
    Rule(
        "FX122",
        "tensor-of-traced",
        "Tensor or Size built from traced values",
        "{it} needs Python numbers, but gets traced values",
        "error",
        """`torch.tensor([value, 3])`, `torch.tensor(x.shape)` and `torch.Size([n, 2])` read their items as
Python numbers. Use `torch.stack`, calculate with the value, or pass a plain tuple where a size is expected.""",
        _LEN,
        ("wrap", "size-tuple"),
        """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return x * torch.tensor([x.shape[0], 3, 1])  # <- here
""",
        """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return x * torch.stack([x.new_tensor(1) * x.shape[0], x.new_tensor(3), x.new_tensor(1)])
""",
        advice="Use torch.stack, or a plain tuple for a size",
    ),
)
