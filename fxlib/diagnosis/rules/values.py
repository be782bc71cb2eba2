"""FX20x and FX216 to FX218: Python answers a question about a Proxy itself, and the answer is frozen into the graph."""

from fxlib.diagnosis.rules.nets import HEAD, net
from fxlib.diagnosis.rules.rule import Rule, add

add(
    Rule(
        "FX201",
        "none-test",
        "Test for None on an argument",
        "{it} is decided while tracing, where an argument is a Proxy and never None",
        "warning",
        """Every argument of forward becomes a `Proxy`, which is never None: `mask is None` is False while
tracing, even if the default is None. The graph holds the branch for calls that pass the argument. Callers that
leave it out get that branch too. Give the value for the trace: `concrete_args={"mask": None}`.""",
        misleads=True,
        fixes=("concrete-argument", "leaf-module"),
        bad=net(
            "        if mask is None:  # <- here\n            return x\n        return x * mask\n",
            signature="self, x, mask=None",
        ),
        good=HEAD
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
        """`isinstance(x, torch.Tensor)`, `torch.is_tensor(x)`, `type(x) is ...`, `x.__class__`, the pattern
`case torch.Tensor():` and `torch.overrides.has_torch_function((x,))` see a `Proxy`, where a normal run sees a tensor.
Tracing silently follows the wrong branch.""",
        misleads=True,
        fixes=("drop-type-test", "concrete-argument", "lift-block", "wrap", "leaf-module"),
        bad=net("        if isinstance(x, torch.Tensor):  # <- here\n            x = x * 2\n        return x + 1\n"),
        good=net("        return x * 2 + 1\n"),
    ),
    Rule(
        "FX203",
        "attribute-test",
        "hasattr(), getattr() or callable() of a traced value",
        "{it} always succeeds while tracing: a Proxy has every attribute and can be called",
        "warning",
        """A `Proxy` has every attribute and can be called, so `hasattr`, `callable` and `getattr` with a
default succeed for every name. The branch for values without the attribute is never traced.""",
        misleads=True,
        fixes=("lift-block", "wrap", "leaf-module"),
        bad=net('        if hasattr(x, "tensors"):  # <- here\n            x = x.tensors\n        return x + 1\n'),
        good=net("        return x + 1\n"),
    ),
    Rule(
        "FX204",
        "set-membership",
        "Traced value looked up in a set or dictionary",
        "{it} finds nothing while tracing: a Proxy is looked up by its identity",
        "warning",
        """Sets and dictionaries look up by hash, and a `Proxy` is hashed by its identity. `n in {1, 2}` is
always False while tracing, and `table.get(n, 0)` always gives 0. (With a tuple on the right of `in` torch.fx
raises, FX105.)""",
        misleads=True,
        fixes=("lift-block", "lift-expression", "wrap"),
        bad=net("        if x.shape[1] in {1, 3}:  # <- here\n            x = x * 2\n        return x + 1\n"),
        good=net("        return x * 2 + 1\n"),
    ),
    Rule(
        "FX205",
        "frozen-text",
        "Text made from a traced value",
        "{it} runs once, while tracing, and shows a Proxy instead of the value",
        "warning",
        """`f"{x.shape}"`, `str(x)` and `print(x)` run once, while tracing, and show the `Proxy` instead of the
value. The text is a constant of the graph, and the graph prints nothing when it runs.""",
        misleads=True,
        fixes=("lift-block", "lift-expression", "wrap"),
        bad=net('        key = f"scale_{x.shape[1]}"  # <- here\n        return x * (2 if key == "scale_3" else 1)\n'),
        good=net("        return x * 2\n"),
    ),
    Rule(
        "FX206",
        "random",
        "Random number, time or id is fixed while tracing",
        "{it} runs once, while tracing, so every call of the graph gets the same numbers",
        "warning",
        """A random function whose arguments are not traced runs while tracing, and its result becomes a
constant of the graph: every later call uses the same numbers. `torch.randn_like(x)`, or a traced size, is
recorded, and the graph draws new numbers in every call.

The same holds for values that change from one moment to the next: `time.time()`, `uuid.uuid4()`, `id(x)`, the next item
of an iterator that outlives the call, `inspect.stack()`, `torch.is_grad_enabled()`, and `is_fx_tracing()`, which is
True only while tracing. They are reported only if another value would give another graph. A time that is only printed
is not reported.""",
        fixes=("randn-like", "lift-random", "wrap"),
        bad=net("        return x + torch.randn(3)  # <- here\n"),
        good=net("        return x + torch.randn_like(x[0])\n"),
        advice="Use torch.randn_like and the like, or draw in a wrapped function",
    ),
    Rule(
        "FX232",
        "seed",
        "Generator seeded only while tracing",
        "{it} runs once, while tracing, so the graph does not seed its random numbers",
        "warning",
        """`torch.manual_seed(0)` in forward has no traced argument, so it runs while tracing and is not part of the
graph. Eager draws the same numbers in every call, but the graph does not. Seed outside of the model, or in a wrapped
function that takes a tensor and returns it, so that the call is recorded and its result is used.""",
        fixes=("seed-wrapped",),
        bad=net("        torch.manual_seed(0)  # <- here\n        return x + torch.rand_like(x)\n"),
        good=net("        return x + torch.rand_like(x)\n"),
        advice="Seed outside of the model, or in a wrapped function",
    ),
    Rule(
        "FX207",
        "training",
        "training is read only while tracing",
        "{it} is read only while tracing, so train() and eval() do not change the graph",
        "warning",
        """`self.training` is a plain bool: the graph keeps the value that it had during the trace, and
`train()` and `eval()` on the traced module do not change it. Submodules such as `nn.Dropout` and
`nn.BatchNorm2d` are leaves and do follow the mode.

The same holds for an attribute that the model's own `train()` or `eval()` sets, such as `self.merged` of a LoRA
layer: the graph has the `train()` and `eval()` of `nn.Module`, and keeps the branch that was traced. It is reported
if the trace in the other mode gives another graph. If weights change along with the attribute, it is only
information: the graph and the weights of one mode belong together. Trace the model once in each mode.""",
        fixes=("dropout-module",),
        bad=net("        return nn.functional.dropout(x, 0.5, training=self.training)  # <- here\n"),
        good=HEAD
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
        """Every attribute of a `Proxy` can be read: the access is recorded and succeeds. The handler for values
without the attribute is not traced, and the graph fails when it runs.""",
        misleads=True,
        fixes=("lift-block", "wrap", "leaf-module"),
        bad=net(
            "        try:\n            y = x.tensors()  # <- here\n        except AttributeError:\n            y = x\n"
            "        return y + 1\n"
        ),
        good=net("        return x + 1\n"),
    ),
    Rule(
        "FX217",
        "unknown-method",
        "Method or attribute that the value does not have",
        "{it} does not exist, so the graph fails when it runs",
        "warning",
        """Every method name is recorded; whether the method exists shows only when the graph runs. The example
value (or, without one, `torch.Tensor`) has no such attribute.""",
        bad=net("        return x.squeze(0)  # <- here\n"),
        good=net("        return x.squeeze(0)\n"),
    ),
    Rule(
        "FX218",
        "hash",
        "Hash of a traced value",
        "{it} is hashed by identity while tracing, so equal values are different keys",
        "warning",
        """`hash(x)`, and a traced value used as a key or as a member of a set, use the identity of the `Proxy`. Two
equal values are different keys, and a cache that uses them is never hit.""",
        misleads=True,
        fixes=("lift-block", "lift-expression", "wrap"),
        bad=net("        seen = {x.shape[0]: 2}  # <- here\n        return x * len(seen)\n"),
        good=net("        return x * 1\n"),
        advice="Use a plain number as the key",
    ),
    Rule(
        "FX231",
        "identity-test",
        "Identity test of a traced value",
        "{it} compares a Proxy while tracing, which is never the same object",
        "warning",
        """Every argument of forward is a `Proxy` while tracing, and so is every attribute of a tensor. `causal
is True` and `x.dtype is torch.float32` are False, whatever a normal run gives. Give the value for the trace,
`concrete_args={"causal": True}`, or keep it as an attribute of the module.""",
        misleads=True,
        fixes=("lift-block", "concrete-argument", "leaf-module"),
        bad=net(
            "        if doubled is True:  # <- here\n            x = x * 2\n        return x + 1\n",
            signature="self, x, doubled=True",
        ),
        good=HEAD
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
