"""FX208 to FX211, FX222, FX227, FX236: forward changes something that outlives the call, or depends on it."""

from fxlib.diagnosis.rules.nets import HEAD
from fxlib.diagnosis.rules.rule import Rule, add

add(
    Rule(
        "FX208",
        "counter",
        "State changed during forward",
        "{it} changes only while tracing, not when the graph runs",
        "warning",
        """An assignment to an attribute runs once, while tracing, and is not part of the graph. A counter does
not count, and whatever was computed from it is a constant. Keep such state in a registered buffer that is
updated outside of the traced part.

Globals, closures, attributes of classes and of plain objects, hooks that forward adds or that take themselves away, and
`os.environ` are reported only if a second trace, which starts from the state that the first one left, gives another
graph. A cache that is filled once is therefore not reported.""",
        fixes=("leaf-module",),
        bad=HEAD
        + """

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1  # <- here
        return x * self.calls
""",
        good=HEAD
        + """

class Net(nn.Module):
    def forward(self, x):
        return x * 1
""",
        writes=True,
    ),
    Rule(
        "FX209",
        "leaked-proxy",
        "Traced value stored on the module",
        "After tracing, {it} holds a Proxy instead of a tensor",
        "warning",
        """`self.cache = x` leaves a `Proxy` on the module. Code that reads the attribute after the trace gets
the Proxy instead of a tensor, and the graph never writes the attribute. Return the value instead, or use a
forward hook.""",
        fixes=("local-value", "leaf-module"),
        bad=HEAD
        + """

class Net(nn.Module):
    def forward(self, x):
        self.cache = x * 2  # <- here
        return self.cache + 1
""",
        good=HEAD
        + """

class Net(nn.Module):
    def forward(self, x):
        return x * 2 + 1
""",
        writes=True,
    ),
    Rule(
        "FX210",
        "buffer-update",
        "Update of a buffer or parameter lost",
        "{it} is updated only while tracing, and never by the graph",
        "warning",
        """`self.mean = self.mean + m` and in-place updates of a buffer by plain numbers (also of a submodule's, such as
`self.norm.running_mean.add_(1)`) run while tracing. The graph reads the buffer but never writes it, so a running
statistic does not change. An in-place operation with a traced argument (`self.mean.add_(m)`) is recorded.

Parameters that a loop over `self.parameters()` gives are no traced values, so what it writes to them is lost, too, as
in the momentum encoder of MoCo: `k.data = k.data * m + q.data * (1 - m)`. Update them outside of forward, or in a leaf
module.""",
        fixes=("leaf-module",),
        bad=HEAD
        + """

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x):
        self.total = self.total + x.sum(0)  # <- here
        return x - self.total
""",
        good=HEAD
        + """

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x):
        return x - self.total
""",
        writes=True,
        advice="Use an in-place method with a traced argument, such as `add_(m)`; it is recorded",
    ),
    Rule(
        "FX211",
        "data-assignment",
        "Assignment to .data or another attribute of a traced value",
        "{it} is set on the Proxy, so the graph does not change the tensor",
        "warning",
        """`x.data = y` sets an attribute of the `Proxy` object. No node is recorded, and the tensor is not changed
when the graph runs. `x.copy_(y)` is recorded.""",
        fixes=("copy-in-place",),
        bad=HEAD
        + """

class Net(nn.Module):
    def forward(self, x):
        y = x * 2
        y.data = y + 1  # <- here
        return y
""",
        good=HEAD
        + """

class Net(nn.Module):
    def forward(self, x):
        y = x * 2
        y.copy_(y + 1)
        return y
""",
        writes=True,
    ),
    Rule(
        "FX222",
        "constant-mutated",
        "Constant tensor changed in place",
        "{it} changes a constant of the graph, so the change persists into later calls",
        "warning",
        """A tensor that forward makes from plain numbers is created once, and becomes a constant of the graph. An
in-place change persists into every later call, whereas eager creates a new tensor each time.""",
        fixes=("new-zeros",),
        bad=HEAD
        + """

class Net(nn.Module):
    def forward(self, x):
        total = torch.zeros(3)
        total.add_(x.sum(0))  # <- here
        return x + total
""",
        good=HEAD
        + """

class Net(nn.Module):
    def forward(self, x):
        total = x.new_zeros(3) + x.sum(0)
        return x + total
""",
        advice="Create the tensor from an input, as with `x.new_zeros()`",
    ),
    Rule(
        "FX230",
        "augmented-assignment",
        "Augmented assignment is recorded out of place",
        "{it} changes the tensor in place, but the graph computes a new tensor",
        "warning",
        """In eager mode `y += 1` changes a tensor in place. A traced value has no in-place operators, so the
graph computes a new tensor for the name. A tensor that `y` is a view of, and every other name for it, keeps the
old values. `y.add_(1)` is recorded in place.""",
        fixes=("in-place-method",),
        bad=HEAD
        + """

class Net(nn.Module):
    def forward(self, x):
        y = torch.relu(x)
        first = y[0]
        first += 1  # <- here
        return y
""",
        good=HEAD
        + """

class Net(nn.Module):
    def forward(self, x):
        y = torch.relu(x)
        first = y[0]
        first.add_(1)
        return y
""",
        writes=True,
        advice="Use an in-place method such as `add_()`, which is recorded",
    ),
    Rule(
        "FX227",
        "mutation",
        "Input, parameter or buffer changed in place",
        "{it} changes an input, parameter or buffer in place",
        "info",
        """The graph changes a tensor that it was given or that belongs to the module. Eager does the same, but
passes that reorder, fuse, fold or remove nodes may assume that values do not change, and a lowered engine does
not write back. `fxlib.diagnose(...).mutations` lists every write, including those into values that nothing else
reads. `refuse_mutation()` raises if there is one. `[tool.fxlens.severity]` with `FX227 = "error"` makes a check
fail.""",
        fixes=("out-of-place",),
        bad=HEAD
        + """

class Net(nn.Module):
    def forward(self, x):
        x.add_(1)  # <- here
        return x * 2
""",
        good=HEAD
        + """

class Net(nn.Module):
    def forward(self, x):
        x = x.add(1)
        return x * 2
""",
    ),
    Rule(
        "FX236",
        "runs-differently",
        "The graph gives different results than the model",
        "{it} gives a different result in the graph than in eager",
        "warning",
        """The model and its graph were run side by side, for two calls in a row, and this is the first difference. No
other rule explains it: forward reads something that is not a traced value, and the graph keeps the value from the
trace.

After a trace, `fxlens check` and the editor run copies of both with the same seeds: first on the example, then with
other weights on other random inputs. Results, changes to the inputs, and buffers are compared. Models whose code only
calls layers and functions of torch are not run. Nothing is reported for a model that is not deterministic, raises, is
slow or is large. If another finding of this group explains the difference, it gets a note with what was seen.
`fxlib.compare` does the same in a program; `fxlens check --quick` leaves it out.""",
        bad=HEAD
        + """

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        return self.layer(x) / max(p.abs().max().item() for p in self.parameters())  # <- here
""",
        good=HEAD
        + """

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        largest = torch.maximum(self.layer.weight.abs().max(), self.layer.bias.abs().max())
        return self.layer(x) / largest
""",
        seen="compare",
        advice="Pass the value it depends on as an input, or keep it in a buffer",
    ),
)
