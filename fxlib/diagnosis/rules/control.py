"""FX10x: a traced value decides which code runs."""

from fxlib.diagnosis.rules.rule import Rule, add

_TORCH = "symbolically traced variables cannot be used as inputs to control flow"

add(
    Rule(
        "FX101",
        "data-condition",
        "Control flow on the values of a tensor",
        "This {form} needs a tensor's value, which tracing does not have: {it}",
        "error",
        """`if`, `while`, a conditional expression, `and`, `or`, `not` and `bool()` need a Python bool. While
tracing there are no values: the tensor is a `Proxy`, and a graph has no branches, so torch.fx raises. Put both
branches into the graph with `torch.where`, or put the whole block into one wrapped function (`torch.fx.wrap`).""",
        _TORCH,
        ("if-to-where", "lift-block", "lift-expression", "wrap"),
        """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        if x.sum() > 0:  # <- here
            y = x + 1
        else:
            y = x - 1
        return y
""",
        """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return torch.where(x.sum() > 0, x + 1, x - 1)
""",
        question=True,
    ),
    Rule(
        "FX102",
        "shape-condition",
        "Control flow on a shape, dtype or device",
        "This {form} needs a shape, dtype or device, which is a traced value: {it}",
        "error",
        """`x.shape[0]`, `x.dim()`, `x.size(1)`, `x.dtype` and `x.is_cuda` of a traced value are traced values
themselves, so they cannot decide a branch, even where the result is the same for every example. If the result
never changes, decide outside of forward, from the configuration of the module. For a check use `torch._assert`.""",
        _TORCH,
        ("lift-block", "lift-expression", "wrap", "leaf-module"),
        """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        if x.dim() == 3:  # <- here
            x = x.unsqueeze(0)
        return x * 2
""",
        """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, batched=True):
        super().__init__()
        self.batched = batched

    def forward(self, x):
        if not self.batched:
            x = x.unsqueeze(0)
        return x * 2
""",
        question=True,
    ),
    Rule(
        "FX103",
        "argument-condition",
        "Control flow on an argument that is not a tensor",
        "This {form} needs the value of an argument, which is a traced value: {it}",
        "error",
        """Every argument of forward becomes a placeholder of the graph, even a flag such as `flag: bool = True`, so it
cannot decide a branch. Fix its value for the trace with `concrete_args={"flag": True}`, or make it an attribute of the
module.""",
        _TORCH,
        ("concrete-argument",),
        """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x, double: bool = True):
        if double:  # <- here
            x = x * 2
        return x
""",
        """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, double: bool = True):
        super().__init__()
        self.double = double

    def forward(self, x):
        if self.double:
            x = x * 2
        return x
""",
        question=True,
    ),
    Rule(
        "FX104",
        "assertion",
        "assert on a traced value",
        "This `assert` needs a value that tracing does not have: {it}",
        "error",
        """`assert` needs a Python bool, as `if` does. `torch._assert(condition, message)` is recorded as a node
and checked whenever the graph runs. (`Tracer.trace_asserts` turns asserts of tensors into such nodes, but is
off by default.)""",
        _TORCH,
        ("torch-assert",),
        """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        assert x.shape[1] == 3, "three columns"  # <- here
        return x * 2
""",
        """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        torch._assert(x.shape[1] == 3, "three columns")
        return x * 2
""",
        question=True,
        advice="Use torch._assert, which is recorded",
    ),
    Rule(
        "FX105",
        "membership",
        "Membership test of a traced value",
        "{it} compares a traced value with each item, and needs the results",
        "error",
        """`value in (1, 2)` compares the value with each item and needs the result of every comparison. With a
set on the right nothing raises: the value is looked up by its hash, and the result is silently wrong (FX204).""",
        _TORCH,
        ("lift-block", "lift-expression", "wrap", "concrete-argument"),
        """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        if x.shape[1] in (1, 3):  # <- here
            x = x * 2
        return x
""",
        """\
import torch
from torch import nn


class Net(nn.Module):
    channels = 3

    def forward(self, x):
        if self.channels in (1, 3):
            x = x * 2
        return x
""",
        question=True,
    ),
    Rule(
        "FX106",
        "min-max",
        "Built-in min, max or sorted of traced values",
        "`{call}()` compares traced values and needs the result: {it}",
        "error",
        """The built-in `max(a, b)` compares its arguments and needs the result. `torch.maximum`,
`torch.minimum` and `clamp` compute the same on tensors and are recorded. For sizes register the built-in:
`torch.fx.wrap("max")`.""",
        _TORCH,
        ("wrap", "torch-maximum"),
        """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return x * max(x.shape[0], x.shape[1])  # <- here
""",
        """\
import torch
import torch.fx
from torch import nn

torch.fx.wrap("max")


class Net(nn.Module):
    def forward(self, x):
        return x * max(x.shape[0], x.shape[1])
""",
        advice="Use torch.maximum or torch.minimum for tensors, and torch.fx.wrap for sizes",
    ),
    Rule(
        "FX107",
        "chained-comparison",
        "Chained comparison of a traced value",
        "{it} is two comparisons joined by `and`, which needs the value of the first",
        "error",
        """`low < value < high` means `low < value and value < high`, and `and` needs a Python bool. Compare
twice and join the results with `&`.""",
        _TORCH,
        ("split-comparison",),
        """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return x * (0 < x.sum() < 10)  # <- here
""",
        """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return x * ((0 < x.sum()) & (x.sum() < 10))
""",
        advice="Compare twice and join the results with `&`",
    ),
)
