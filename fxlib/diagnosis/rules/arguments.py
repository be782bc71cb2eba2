"""FX219, FX220, FX223 to FX229, FX238 and FX242: the interface of the graph, and what later passes may do to it."""

from fxlib.diagnosis.rules.nets import HEAD, net
from fxlib.diagnosis.rules.rule import Example, Rule, add

_FX = """\
import torch
import torch.fx
from torch import nn
"""

_WRAPPING_HELPER = "import torch.fx\n\n\n@torch.fx.wrap\ndef limited(x):\n    return x.clamp(max=1.0)\n"
_CALLER = (
    "{head}from helpers import limited\n{wrap}\n\n# fxlens: Net() <- torch.randn(1, 3)\n"
    "class Net(nn.Module):\n    def forward(self, x):\n        return limited(x) * 2\n"
)
_FLAG = (
    HEAD
    + """

class Net(nn.Module):
    def forward(self, x, double: bool = False):{mark}
        if double:
            x = x * 2
        return x
"""
)

add(
    Rule(
        "FX219",
        "unknown-concrete-argument",
        "concrete_args names an argument that forward does not have",
        "`forward` has no such argument, so concrete_args ignores it",
        "warning",
        """A misspelt name in `concrete_args` is silently ignored, and the intended argument stays traced.""",
        bad=HEAD
        + """

class Net(nn.Module):
    def forward(self, x, double: bool = False):  # <- here
        return x * 2
""",
        good=HEAD
        + """

class Net(nn.Module):
    def forward(self, x):
        return x * 2
""",
        options='{"concrete_args": {"dubble": True}}',
    ),
    Rule(
        "FX220",
        "concrete-argument-renamed",
        "Concrete argument has another name in the graph",
        "A concrete argument is renamed in the graph, so passing it by keyword fails",
        "info",
        """A concrete argument stays in the signature of the traced module, but under a new name (`double` becomes
`double_1`). Calls that pass it by keyword fail. Calls with another value fail an assertion.""",
        bad=_FLAG.format(mark="  # <- here"),
        good=HEAD
        + """

class Net(nn.Module):
    def forward(self, x):
        return x
""",
        options='{"concrete_args": {"double": True}}',
    ),
    Rule(
        "FX223",
        "output-type",
        "Output loses its type",
        "The graph returns a plain dict here: {it}",
        "info",
        """The output of a graph is made of tuples, lists and plain dicts. An `OrderedDict` becomes a `dict`, and code
that uses methods of the original class fails.""",
        bad="""\
from collections import OrderedDict

from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return OrderedDict(out=x * 2)  # <- here
""",
        good="""\
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return {"out": x * 2}
""",
    ),
    Rule(
        "FX224",
        "unused-helper",
        "Wrapped helper whose result is unused",
        "The result of {it} is unused, so dead-code elimination deletes the call",
        "warning",
        """A wrapped function is one call node. When its result is not used, dead-code elimination deletes the
call, although it changes its argument in place. Return the tensor, and use the result.""",
        fixes=("use-result",),
        bad=_FX
        + """

@torch.fx.wrap
def clear(x):
    x.zero_()


class Net(nn.Module):
    def forward(self, x):
        y = x * 2
        clear(y)  # <- here
        return y
""",
        good=_FX
        + """

@torch.fx.wrap
def clear(x):
    return x.zero_()


class Net(nn.Module):
    def forward(self, x):
        y = x * 2
        y = clear(y)
        return y
""",
        advice="Return the tensor and use the result",
    ),
    Rule(
        "FX242",
        "opaque-call",
        "What a wrapped function does beside returning a tensor",
        "{it} is one call in the graph, which does not do all that a normal run does",
        "warning",
        """A wrapped function is one call of the graph, and tracing does not run it. A list or dictionary among its
arguments is made anew in each call of the graph, so what the function changes in it is lost. As information: code
around the call asks whether the result is None, or of which type it is, which is answered once, while tracing; a
handler around the call is not in the graph; a container of another class arrives as a plain list or dictionary; what
the function changes elsewhere is read while tracing. Return what changes, and decide inside of the function.""",
        bad=_FX
        + """

@torch.fx.wrap
def add_penalty(losses, x):
    losses.append(x.pow(2).mean())


class Net(nn.Module):
    def forward(self, x):
        losses = [x.mean()]
        add_penalty(losses, x)  # <- here
        return sum(losses)
""",
        good=_FX
        + """

@torch.fx.wrap
def penalty(x):
    return x.pow(2).mean()


class Net(nn.Module):
    def forward(self, x):
        losses = [x.mean()]
        losses.append(penalty(x))
        return sum(losses)
""",
        advice="Return the new value, and add it where the function is called",
    ),
    Rule(
        "FX225",
        "device",
        "Device is fixed while tracing",
        "{it} reads a device while tracing, so the graph always uses that device",
        "warning",
        """The device of a buffer, or of a tensor that is not traced, is a plain value. The graph keeps the device of
the trace, and `.to(device)` on the traced module does not change it. The device of a traced value (`x.device`) is
recorded. A plain attribute that only the constructor sets is not reported, since the model itself does not change it
either.""",
        fixes=("device-of-input",),
        bad=HEAD
        + """

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.ones(3))

    def forward(self, x):
        ones = torch.ones((x.shape[0], 3), device=self.scale.device)  # <- here
        return x * ones
""",
        good=HEAD
        + """

class Net(nn.Module):
    def forward(self, x):
        ones = torch.ones((x.shape[0], 3), device=x.device)
        return x * ones
""",
    ),
    Rule(
        "FX238",
        "own-dtype",
        "Dtype is fixed while tracing",
        "{it} keeps the dtype that the parameters had while tracing",
        "info",
        """The dtype of the module's own parameters (`self.weight.dtype`, `next(self.parameters()).dtype`, the property
`dtype` of models of transformers and diffusers) is a plain value. The graph keeps it, and numbers of it such as
`torch.finfo(self.dtype).min`, so after `half()` or `to(dtype)` of the traced module it computes in another precision
than the model would. It is reported where a trace of the module in another precision has another value there. The dtype
of a traced value (`x.dtype`) is recorded.""",
        bad=net(
            "        return self.layer(x).float().softmax(-1).to(next(self.parameters()).dtype)  # <- here\n",
            init="self.layer = nn.Linear(3, 3)",
        ),
        good=net(
            "        y = self.layer(x)\n        return y.float().softmax(-1).to(y.dtype)\n",
            init="self.layer = nn.Linear(3, 3)",
        ),
        advice="Take the dtype of a traced value, or convert the model before it is traced",
    ),
    Rule(
        "FX226",
        "shared-convolution",
        "Convolution called more than once before batch normalization",
        "This convolution is shared, so folding batch normalization into it changes its other calls: {it}",
        "info",
        """One convolution is called several times, and batch normalization follows at least one of the calls. Folding
it into the shared weight changes the other calls too. torch.fx's `fuse` does so silently; fxlib's `fuse` refuses.""",
        bad=HEAD
        + """

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 1)
        self.norm = nn.BatchNorm2d(3)

    def forward(self, x):
        return self.norm(self.conv(x)) + self.conv(x * 2)  # <- here
""",
        good=HEAD
        + """

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 1)
        self.other = nn.Conv2d(3, 3, 1)
        self.norm = nn.BatchNorm2d(3)

    def forward(self, x):
        return self.norm(self.conv(x)) + self.other(x * 2)
""",
        inputs="(torch.randn(2, 3, 4, 4),)",
    ),
    Rule(
        "FX228",
        "threads",
        "Traced value used in another thread",
        "{it} runs in another thread, so its order in the graph is not fixed",
        "warning",
        """A trace patches functions of the whole process while it runs. Operations of another thread are recorded in
the order in which the threads happen to run, and two traces at the same time silently corrupt each other.""",
        bad="""\
from concurrent.futures import ThreadPoolExecutor

from torch import nn


class Net(nn.Module):
    def double(self, x):
        return x * 2  # <- here

    def forward(self, x):
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(self.double, x).result()
""",
        good="""\
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return x * 2
""",
    ),
    Rule(
        "FX229",
        "wrap-without-effect",
        "torch.fx.wrap has no effect",
        "{it} calls a function that is wrapped in another module, so this call is traced into",
        "warning",
        """`torch.fx.wrap("name")` applies to the global name in the module that calls it. The function called here was
wrapped in another module, so tracing enters it instead of recording one call.""",
        fixes=("wrap",),
        example=Example(
            {"helpers.py": _WRAPPING_HELPER, "net.py": _CALLER.format(head="from torch import nn\n\n", wrap="")},
            {
                "helpers.py": _WRAPPING_HELPER.replace("import torch.fx\n\n\n@torch.fx.wrap\n", ""),
                "net.py": _CALLER.format(
                    head="import torch.fx\nfrom torch import nn\n\n", wrap='\ntorch.fx.wrap("limited")\n'
                ),
            },
        ),
    ),
)
