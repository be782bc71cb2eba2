"""FX20x and FX216 to FX218: Python answers a question about a Proxy itself, and the answer is frozen into the graph."""

from fxlib.diagnosis.rules.rule import Rule, add

_HEAD = """\
import torch
from torch import nn
"""


def _net(body: str, head: str = _HEAD, signature: str = "self, x") -> str:
    return f"{head}\n\nclass Net(nn.Module):\n    def forward({signature}):\n{body}"


add(
    Rule(
        "FX201",
        "none-test",
        "Test for None on an argument",
        "{it} is decided while tracing, where an argument is a Proxy and never None",
        "warning",
        """Every argument of forward becomes a `Proxy`, which is never None: `mask is None` is False while tracing,
whatever the default says. The graph holds the branch for a given argument, also when callers leave it out. Fix the
argument for the trace: `concrete_args={"mask": None}`.""",
        misleads=True,
        fixes=("concrete-argument", "leaf-module"),
        bad=_net(
            "        if mask is None:  # <- here\n            return x\n        return x * mask\n",
            signature="self, x, mask=None",
        ),
        good=_HEAD
        + """

class Net(nn.Module):
    def __init__(self, masked=False):
        super().__init__()
        self.masked = masked
        self.register_buffer("mask", torch.ones(3))

    def forward(self, x):
        return x * self.mask if self.masked else x
""",
    ),
    Rule(
        "FX202",
        "type-test",
        "Type test of a traced value",
        "{it} sees a Proxy while tracing instead of the real value",
        "warning",
        """`isinstance(x, torch.Tensor)`, `torch.is_tensor(x)` and `type(x) is ...` see a `Proxy` and answer False,
where a normal run answers True. The trace follows the wrong branch without a word.""",
        misleads=True,
        fixes=("concrete-argument", "lift-block", "wrap", "leaf-module"),
        bad=_net("        if isinstance(x, torch.Tensor):  # <- here\n            x = x * 2\n        return x + 1\n"),
        good=_net("        return x * 2 + 1\n"),
    ),
    Rule(
        "FX203",
        "attribute-test",
        "hasattr(), getattr() or callable() of a traced value",
        "{it} always succeeds while tracing: a Proxy has every attribute and can be called",
        "warning",
        """A `Proxy` has every attribute and can be called: `hasattr`, `callable` and `getattr` with a default
answer the same for every name. The branch for "it has none" can never be traced.""",
        misleads=True,
        fixes=("lift-block", "wrap", "leaf-module"),
        bad=_net('        if hasattr(x, "tensors"):  # <- here\n            x = x.tensors\n        return x + 1\n'),
        good=_net("        return x + 1\n"),
    ),
    Rule(
        "FX204",
        "set-membership",
        "Traced value looked up in a set or dictionary",
        "{it} finds nothing while tracing: a Proxy is looked up by its identity",
        "warning",
        """Sets and dictionaries look up by hash. A `Proxy` hashes by identity, so `n in {1, 2}` is always False
while tracing, and `table.get(n, 0)` always 0 (with a tuple on the right of `in` torch.fx would at least raise,
FX105).""",
        misleads=True,
        fixes=("lift-block", "lift-expression", "wrap"),
        bad=_net("        if x.shape[1] in {1, 3}:  # <- here\n            x = x * 2\n        return x + 1\n"),
        good=_net("        return x * 2 + 1\n"),
    ),
    Rule(
        "FX205",
        "frozen-text",
        "Text made from a traced value",
        "{it} runs once, while tracing, and shows a Proxy instead of the value",
        "warning",
        """`f"{x.shape}"`, `str(x)` and `print(x)` show the `Proxy`, not the value, once, while tracing. The text is
a constant of the graph, and nothing is printed when the graph runs.""",
        misleads=True,
        fixes=("lift-block", "lift-expression", "wrap"),
        bad=_net('        key = f"scale_{x.shape[1]}"  # <- here\n        return x * (2 if key == "scale_3" else 1)\n'),
        good=_net("        return x * 2\n"),
    ),
    Rule(
        "FX206",
        "random",
        "Random number drawn once",
        "{it} runs once, while tracing, so every call of the graph gets the same numbers",
        "warning",
        """A random function whose arguments are not traced runs while tracing, and its result becomes a constant of
the graph: every later call uses the same numbers. `torch.randn_like(x)`, or a size that is traced, is recorded and
draws anew.""",
        fixes=("randn-like", "lift-random", "wrap"),
        bad=_net("        return x + torch.randn(3)  # <- here\n"),
        good=_net("        return x + torch.randn_like(x[0])\n"),
    ),
    Rule(
        "FX207",
        "training",
        "training is read only while tracing",
        "{it} is read only while tracing, so train() and eval() do not change the graph",
        "warning",
        """`self.training` is a plain bool: the graph keeps what it was during the trace, and `train()` and `eval()`
on the traced module do not change it any more. Submodules such as `nn.Dropout` and `nn.BatchNorm2d` are leaves and
do follow.""",
        fixes=("dropout-module",),
        bad=_net("        return nn.functional.dropout(x, 0.5, training=self.training)  # <- here\n"),
        good=_HEAD
        + """

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.dropout = nn.Dropout(0.5)

    def forward(self, x):
        return self.dropout(x)
""",
    ),
    Rule(
        "FX216",
        "attribute-fallback",
        "except AttributeError that never fires",
        "{it} cannot raise AttributeError while tracing: a Proxy has every attribute",
        "warning",
        """Any attribute of a `Proxy` can be read: the access is recorded and succeeds, so the handler for values
without the attribute is not traced, and the graph fails when it runs.""",
        misleads=True,
        fixes=("lift-block", "wrap", "leaf-module"),
        bad=_net(
            "        try:\n            y = x.tensors()  # <- here\n        except AttributeError:\n            y = x\n"
            "        return y + 1\n"
        ),
        good=_net("        return x + 1\n"),
    ),
    Rule(
        "FX217",
        "unknown-method",
        "Method or attribute that the value does not have",
        "{it} does not exist, so the graph fails when it runs",
        "warning",
        """Every method name is recorded; whether it exists is seen only when the graph runs. The example value (or,
without one, `torch.Tensor`) has no such attribute.""",
        bad=_net("        return x.squeze(0)  # <- here\n"),
        good=_net("        return x.squeeze(0)\n"),
    ),
    Rule(
        "FX218",
        "hash",
        "Hash of a traced value",
        "{it} is hashed by identity while tracing, so equal values are different keys",
        "warning",
        """`hash(x)`, a traced value as a new key, or as a member of a set, uses the identity of the `Proxy`: two equal
values are different keys, and a cache keyed by it never hits.""",
        misleads=True,
        fixes=("lift-block", "lift-expression", "wrap"),
        bad=_net("        seen = {x.shape[0]: 2}  # <- here\n        return x * len(seen)\n"),
        good=_net("        return x * 1\n"),
    ),
    Rule(
        "FX231",
        "identity-test",
        "Identity test of a traced value",
        "{it} compares a Proxy while tracing, which is never the same object",
        "warning",
        """Every argument of forward becomes a `Proxy`, and so does what is asked of a tensor: `causal is True` and
`x.dtype is torch.float32` are False while tracing, whatever a normal run would answer. Fix the argument for the
trace, `concrete_args={"causal": True}`, or keep it as an attribute of the module.""",
        misleads=True,
        fixes=("lift-block", "concrete-argument", "leaf-module"),
        bad=_net(
            "        if doubled is True:  # <- here\n            x = x * 2\n        return x + 1\n",
            signature="self, x, doubled=True",
        ),
        good=_HEAD
        + """

class Net(nn.Module):
    def __init__(self, doubled=True):
        super().__init__()
        self.doubled = doubled

    def forward(self, x):
        if self.doubled is True:
            x = x * 2
        return x + 1
""",
    ),
)
