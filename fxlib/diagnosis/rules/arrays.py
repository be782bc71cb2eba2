"""FX14x to FX16x, FX186, FX239: NumPy and traced values, assignment into them, functions of sizes or real tensors."""

from fxlib.diagnosis.rules.nets import net
from fxlib.diagnosis.rules.rule import Rule, add

_NUMPY = """\
import numpy as np
import torch
from torch import nn
"""


add(
    Rule(
        "FX140",
        "numpy-call",
        "NumPy function of a traced value",
        "NumPy cannot convert a traced value: {it}",
        "error",
        """NumPy cannot be recorded: `np.sqrt(value)` needs the data of its argument, and a `Proxy` has none.
Use the torch function of the same name, or put the NumPy code into a wrapped function. (`torch.from_numpy` of a
traced value fails for the same reason.)""",
        "invalid __array_struct__",
        ("np-to-torch", "wrap"),
        net("        return torch.relu(x) + np.sqrt(x)  # <- here\n", _NUMPY),
        net("        return torch.relu(x) + torch.sqrt(x)\n"),
        advice="Use the torch function of the same name",
    ),
    Rule(
        "FX141",
        "numpy-argument",
        "NumPy scalar or array in a traced operation",
        "A graph cannot hold a NumPy scalar or array: {it}",
        "error",
        """The arguments of a node are tensors of the graph, numbers, strings, dtypes, devices and collections
of them. A NumPy scalar is none of these, although it looks like a number. Convert it first: `float(np.pi)`.""",
        "argument of type: <class 'numpy.float32'>",
        ("to-python-number", "np-to-torch"),
        net("        return torch.add(x, np.float32(0.5))  # <- here\n", _NUMPY),
        net("        return torch.add(x, 0.5)\n"),
        advice="Convert it to a Python number first",
    ),
    Rule(
        "FX239",
        "unwritten-value",
        "Value that the graph's code cannot write",
        "{it} holds a value that the graph's code cannot write",
        "error",
        """torch.fx writes the arguments of a node into the code of the graph, with Python's own text for each. For some
values this text is no code, or names what the code does not know, so that torch.fx raises SyntaxError, or every call
raises NameError:

- Numbers and texts of NumPy. `np.sqrt(64)` is a `numpy.float64`, which is a Python float as well, so torch.fx takes it
  for one. Since NumPy 2 it prints itself as `np.float64(8.0)`. Graphs of fxlib hold the plain number.
- Enums as keys or values of a dictionary, or in a named tuple (`<Mode.FIT: 'fit'>`), and unions of flags
  (`Opt.A|B`). A single member as an argument can be written.
- Subclasses of int, float or str with a `__repr__` of their own.
- Complex numbers with an infinite or undefined imaginary part (`infj`).
- Slices, devices, and infinite or undefined numbers where an argument of the model is called `slice`, `device`, `inf`
  or `nan`: in the code the argument hides the name. fxlib writes the name in full.

A negative number to the power of a traced value is written without parentheses, so that `(-1) ** x` becomes `-1 ** x`,
which is `-(1 ** x)`. Write `torch.pow(-1, x)`. Graphs of fxlib have the parentheses.

Make it a plain number or text where it is computed: `float(np.sqrt(64))`, `math.sqrt(64)`, `int(Opt.A | Opt.B)`,
`{Mode.FIT.value: x}`.""",
        fixes=("plain-number",),
        bad=net("        return torch.relu(x) / self.scale  # <- here\n", _NUMPY, "self.scale = np.sqrt(64)"),
        good=net("        return torch.relu(x) / self.scale\n", init="self.scale = 64 ** 0.5"),
        advice="Make it a Python number where it is computed",
    ),
    Rule(
        "FX150",
        "item-assignment",
        "Assignment into a traced value",
        "Tracing cannot record an assignment into a traced value: {it}",
        "error",
        """`x[0] = 1` changes a tensor in place through Python's item assignment, which torch.fx does not record.
Compute a new tensor: `masked_fill`, `index_fill`, `select_scatter`, `torch.where`, or a wrapped setter **that
returns the tensor** (the result of a setter that returns nothing is unused, and the call may be deleted).""",
        "'Proxy' object does not support item assignment",
        ("setitem-functional", "setitem-wrapped", "lift-block"),
        net("        y = x.clone()\n        y[:, 0] = 1  # <- here\n        return y\n"),
        net("        return torch.select_scatter(x, torch.ones_like(x[:, 0]), 1, 0)\n"),
        writes=True,
        advice="Use masked_fill, index_fill or select_scatter",
    ),
    Rule(
        "FX151",
        "item-deletion",
        "Deletion of an item of a traced value",
        "Tracing cannot record a deletion from a traced value: {it}",
        "error",
        """`del value[key]` changes a traced container. Build a new one without the item.""",
        "'Proxy' object does not support item deletion",
        ("lift-block",),
        """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, batch):
        del batch["mask"]  # <- here
        return batch["x"] * 2
""",
        """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, batch):
        return batch["x"] * 2
""",
        '({"x": torch.randn(2), "mask": torch.ones(2)},)',
        writes=True,
        advice="Build a new container without the item",
    ),
    Rule(
        "FX160",
        "traced-size",
        "Constructor with a traced size",
        "`{call}` cannot take traced sizes as separate arguments; pass a tuple",
        "error",
        """The argument parser of `torch.zeros(n, 4)` accepts ints only, so a traced `n` is refused. The tuple
form `torch.zeros((n, 4))` is recorded. So is `torch.empty(x.size(), dtype=torch.bool)`, but not the older
`torch.BoolTensor(x.size())`. `x.new_zeros(n, 4)` and `torch.zeros_like` also keep the device and
dtype of `x`.""",
        "zeros(): argument 'size' (position 1) must be tuple of ints, not Proxy",
        ("size-tuple", "new-zeros"),
        net("        return x + torch.zeros(x.shape[0], 3)  # <- here\n"),
        net("        return x + torch.zeros((x.shape[0], 3))\n"),
    ),
    Rule(
        "FX186",
        "real-tensor",
        "Function that accepts real tensors only",
        "`{call}` accepts only a real tensor, but gets a traced value: {it}",
        "error",
        """Some torch functions need a real tensor and cannot be recorded: `Variable(x)`, `pack_padded_sequence(x,
lengths)`, `torch.nested.nested_tensor(xs)`, and the assignment `parameter.data = x`, which belongs outside of forward.
Since PyTorch 0.4 `Variable(x)` returns `x`, so delete the call. Pack and unpack sequences in functions of your own, and
wrap these with `torch.fx.wrap`. A `PackedSequence` can be passed from there to a recurrent layer, but fields of it that
may be None cannot be used in the graph.""",
        "TypeError: Variable data has to be a tensor, but got Proxy",
        ("drop-variable", "lift-packing", "lift-block", "leaf-module"),
        """\
from torch import nn
from torch.autograd import Variable


class Net(nn.Module):
    def forward(self, x):
        return Variable(x) * 2  # <- here
""",
        """\
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return x * 2
""",
        advice="Call it in a wrapped function or in a leaf module",
    ),
)
