"""FX6xx: torch.compile breaks the graph, or compiles again. `fxlib.captures.judge` finds them."""

from fxlib.diagnosis.rules.nets import HEAD, net
from fxlib.diagnosis.rules.rule import Rule, add

_EXAMPLE = "\n\ndef example(batch):\n    x = torch.ones(batch, 3){mark}\n    return x\n"


add(
    Rule(
        "FX601",
        "compile-branch",
        "The graph breaks: a tensor's value decides which way forward goes",
        "{it} decides by a tensor's value, so the graph breaks here",
        "warning",
        """Dynamo captures the way that forward goes without running it, so it does not know which side of the
branch comes next. It ends the graph before the branch, runs the branch in Python, and starts another graph after it.
`torch.where` computes both sides and picks by element; `torch.cond` keeps the branch in the graph.""",
        fixes=(
            "if-to-where",
            "raise-to-assert",
            "fill-where",
            "continue-to-where",
            "leave-to-mask",
            "rows-by-mask",
            "slice-without-asking",
            "without-empty-case",
            "say-and-choose",
            "only-in-python",
            "without-numpy",
            "torch-maximum",
            "check-condition",
            "if-to-cond",
            "to-while-loop",
            "exclude-from-compile",
        ),
        torch_text="Detected data-dependent branching (e.g. `if my_tensor.sum() > 0:`).",
        bad=net("if x.sum() > 0:  # <- here\n    x = x + 1\nreturn x"),
        good=net("return torch.where(x.sum() > 0, x + 1, x)"),
        advice="Use torch.where, or torch.cond.",
    ),
    Rule(
        "FX602",
        "compile-number",
        "The graph breaks: a number is read out of a tensor",
        "{it} reads a number out of a tensor, so the graph breaks here",
        "warning",
        """`.item()`, `.tolist()`, `int()` and `float()` give Python a value that does not exist while the graph is
captured. The graph ends there. Keep the value as a tensor. `torch.compile(fullgraph=True)` and
`torch._dynamo.config.capture_scalar_outputs = True` keep `.item()` in the graph instead.""",
        fixes=(
            "keep-tensor",
            "torch-math",
            "item-of-tensor",
            "sorted-to-sort",
            "all-of-list",
            "if-to-where",
            "leave-to-mask",
            "to-while-loop",
            "dynamo-setting",
            "exclude-from-compile",
        ),
        torch_text="Dynamo does not support tracing `Tensor.item()` with config.capture_scalar_outputs=False.",
        bad=net("return x * x.max().item()  # <- here"),
        good=net("return x * x.max()"),
        advice="Keep the value as a tensor.",
    ),
    Rule(
        "FX603",
        "compile-value-shape",
        "The graph breaks: the size of a result depends on values",
        "The size of {it} depends on values, so the graph breaks here",
        "warning",
        """How many elements `nonzero`, a boolean index, `unique` or `bincount` give is known only when they run, so
the graph ends there. A mask keeps the size. `torch.compile(fullgraph=True)` and
`torch._dynamo.config.capture_dynamic_output_shape_ops = True` keep the operator in the graph.""",
        fixes=("mask-to-where", "dynamo-setting", "exclude-from-compile"),
        torch_text="output shape depends on input Tensor data.",
        bad=net("return x[x > 0].sum()  # <- here"),
        good=net("return torch.where(x > 0, x, 0).sum()"),
        advice="Use a mask or torch.where.",
    ),
    Rule(
        "FX604",
        "compile-print",
        "The graph breaks: forward prints, logs or warns",
        "{it} prints or logs, so the graph breaks here",
        "warning",
        """What is printed has to appear in the order of the program, so Dynamo ends the graph before the call and
starts another one after it. Move the call out of forward, or run it only with
`if not torch.compiler.is_compiling():`. `torch._dynamo.config.reorderable_logging_functions` lets Dynamo move such
calls to the end of the graph.""",
        fixes=("only-in-python",),
        torch_text="you can try adding it to `torch._dynamo.config.reorderable_logging_functions`.",
        bad=net('x = x + 1\nprint("shape", x.shape)  # <- here\nreturn x * 2'),
        good=net('x = x + 1\nif not torch.compiler.is_compiling():\n    print("shape", x.shape)\nreturn x * 2'),
        advice="Move it out of forward.",
    ),
    Rule(
        "FX605",
        "compile-skipped-call",
        "The graph breaks: a function that Dynamo cannot look into",
        "Dynamo cannot look into {it}, so the graph breaks here",
        "warning",
        """The function is written in C, is part of the standard library, or is on the list of those that Dynamo
leaves alone (clocks, files, random numbers of Python, `eval`). The graph ends before the call. Call it outside of
forward and pass the result in, or make it a custom operator with `torch.library.custom_op`.""",
        fixes=("only-in-python", "randn-like", "identity-to-is", "sorted-to-sort", "exclude-from-compile"),
        torch_text="Dynamo does not know how to trace the builtin",
        bad=net("start = time.time()  # <- here\nreturn x * 2, start", f"import time\n\n{HEAD}"),
        good=net("return x * 2"),
        advice="Move the call out of forward.",
    ),
    Rule(
        "FX606",
        "compile-excluded",
        "The graph breaks: the function is excluded from compilation",
        "{it} is excluded from compilation, so the graph breaks here",
        "info",
        """`torch.compiler.disable` and `torch._dynamo.graph_break()` ask for exactly this: the function runs in
Python, between two graphs. Take the decorator away when it is no longer needed.""",
        torch_text="since it was wrapped with `torch.compiler.disable`",
        bad=net(
            "return excluded(x * 2) * 3  # <- here",
            f"{HEAD}\n\n@torch.compiler.disable\ndef excluded(x):\n    return x + 1\n",
        ),
        good=net("return (x * 2 + 1) * 3"),
    ),
    Rule(
        "FX607",
        "compile-recurrent",
        "The graph breaks: nn.RNN, nn.LSTM and nn.GRU run without a graph",
        "Dynamo leaves recurrent layers such as {it} alone, so the graph breaks here",
        "warning",
        """Dynamo leaves recurrent layers alone, and the whole function that calls one runs without a graph. Set
`torch._dynamo.config.allow_rnn = True`, which is experimental, or keep the layer in a function of its own so that the
rest is compiled. A loop over `nn.LSTMCell` is captured, with one copy of the cell for each step.""",
        fixes=("dynamo-setting", "exclude-from-compile"),
        torch_text="Dynamo does not support RNN, GRU, or LSTM.",
        bad=net("return self.rnn(x)[0] * 2  # <- here", init="self.rnn = nn.LSTM(3, 4)"),
        good=net(
            "h = c = x.new_zeros(4)\nfor row in x:\n    h, c = self.cell(row, (h, c))\nreturn h * 2",
            init="self.cell = nn.LSTMCell(3, 4)",
        ),
        advice="Set torch._dynamo.config.allow_rnn.",
    ),
    Rule(
        "FX608",
        "compile-context",
        "The graph breaks: a context manager that Dynamo does not know",
        "Dynamo cannot enter {it}, so the graph breaks here",
        "warning",
        """Dynamo enters the context managers of torch and simple ones of its own accord. It does not enter others,
such as open files, and does not end a graph inside of them: the function runs without a graph. Open the context
around the call of the model.""",
        fixes=("only-in-python",),
        torch_text="Dynamo does not know how to enter a",
        bad=net(
            "with LOCK:  # <- here\n    return x * 2",
            f"import threading\n\n{HEAD}\n\nLOCK = threading.Lock()\n",
        ),
        good=net("return x * 2"),
        advice="Open the context around the model.",
    ),
    Rule(
        "FX609",
        "compile-gradient",
        "The graph breaks: gradients are asked for inside forward",
        "{it} needs autograd inside of forward, so the graph breaks here",
        "warning",
        """`torch.autograd.grad`, `backward()` and `requires_grad_()` inside of forward belong to autograd's own
graph, which Dynamo does not capture by default. `torch.func.grad` and `torch.func.vjp` are captured.""",
        fixes=("func-grad", "dynamo-setting", "exclude-from-compile"),
        torch_text="torch._dynamo.config.trace_autograd_ops",
        bad=net("energy = (x**2).sum()\nreturn torch.autograd.grad(energy, x)[0]  # <- here"),
        good=net("return torch.func.grad(lambda x: (x**2).sum())(x)"),
        inputs="(torch.randn(2, 3, requires_grad=True),)",
        advice="Use torch.func.grad.",
    ),
    Rule(
        "FX610",
        "compile-python",
        "The graph breaks: Python that Dynamo does not capture",
        "Dynamo does not capture {it}, so the graph breaks here",
        "warning",
        """A class defined inside of forward, a parameter made there, `copy.deepcopy` of a module, sorting by values:
Dynamo follows most of Python, and not this. The message has its own explanation. Do it once, in `__init__` or outside
of the model.""",
        fixes=(
            "without-copy",
            "hoist-definition",
            "plain-parameter",
            "sorted-to-sort",
            "identity-to-is",
            "exclude-from-compile",
        ),
        torch_text="Cannot trace class definition",
        bad=net("class Scale:  # <- here\n    factor = 2\n\nreturn x * Scale.factor"),
        good=net("return x * 2"),
        advice="Do it outside of forward.",
    ),
    Rule(
        "FX611",
        "compile-exception",
        "The graph breaks: an exception is raised while the graph is captured",
        "{it} raises while Dynamo captures it, so the graph breaks here",
        "warning",
        """The expression raises under Dynamo, because the value is a symbol there and not a number, or because a
handler would have to run. The function runs without a graph.""",
        fixes=("only-in-python",),
        torch_text="Your code may result in an error when running in eager.",
        bad=net('name = f"{x.mean():.3f}"\nreturn x + len(name)  # <- here'),
        good=net("return x + 5"),
    ),
    Rule(
        "FX612",
        "compile-storage",
        "The graph breaks: the storage of a tensor, or a sparse one",
        "{it} needs the storage of a tensor or a sparse one, so the graph breaks here",
        "warning",
        """Data pointers, `set_`, `resize_` and sparse tensors have no counterpart in a graph of dense operators. Keep
such code outside of what is compiled.""",
        fixes=("identity-to-is", "exclude-from-compile"),
        torch_text="Dynamo can only trace data pointer comparisons",
        bad=net("y = x[:]\nreturn x * 2 if x.data_ptr() == y.data_ptr() else y  # <- here"),
        good=net("return x * 2"),
    ),
    Rule(
        "FX613",
        "compile-scripted",
        "The graph breaks: a scripted module runs outside of Python",
        "{it} runs in TorchScript, where Dynamo cannot look, so the graph breaks here",
        "warning",
        """A module of `torch.jit.script` or `torch.jit.freeze` runs in the interpreter of TorchScript, where Dynamo
cannot look. Use the module that was scripted.""",
        fixes=("without-script", "exclude-from-compile"),
        torch_text="Dynamo does not support tracing into torch.jit.script or torch.jit.freeze modules",
        bad=net("return self.inner(x) * 2  # <- here", init="self.inner = torch.jit.script(nn.Linear(3, 3))"),
        good=net("return self.inner(x) * 2", init="self.inner = nn.Linear(3, 3)"),
        advice="Use the module that was scripted.",
    ),
    Rule(
        "FX614",
        "compile-fullgraph",
        "torch.compile raises with fullgraph=True only",
        "torch.compile(fullgraph=True) raises at {it}",
        "info",
        """By default the graph breaks at an operator whose result depends on values, and continues after it with what
came out. With `fullgraph=True` that value is a symbol. Either the code needs to know something about it, which
`torch._check` states, or Dynamo has no symbol for what is made of it, such as the text `str(count)`.""",
        fixes=("check-condition",),
        torch_text="Could not guard on data-dependent expression",
        bad=net("kept = x[x > 0]\nif kept.shape[0] > 1:  # <- here\n    kept = kept * 2\nreturn kept.sum()"),
        good=net("return torch.where(x > 0, x, 0).sum() * 2"),
        advice="Without fullgraph, the graph breaks before it.",
    ),
    Rule(
        "FX620",
        "recompile-size",
        "Compiled again: a size that changes",
        "{it} has another size on a later call, so the graph is compiled again",
        "info",
        """The first call is compiled for its exact sizes. With another size torch.compile compiles again, with that
size as a symbol, and a third size needs nothing more. `torch._dynamo.mark_dynamic(x, 0)` or `dynamic=True` makes it a
symbol from the start. A size that the code turns into a plain number is compiled once for each value.""",
        torch_text="size mismatch at index",
        bad=net("return x * 2").replace("(self, x):", "(self, x):  # <- here") + _EXAMPLE.format(mark=""),
        good=net("return x * 2") + _EXAMPLE.format(mark="\n    torch._dynamo.mark_dynamic(x, 0)"),
        inputs="(example(2),)",
        options='{"more": [(example(4),)]}',
    ),
    Rule(
        "FX621",
        "recompile-attribute",
        "Compiled again: an attribute of the module that changes",
        "{it} changes between calls, so the graph is compiled again",
        "warning",
        """The graph holds for the value that the attribute had. A counter such as `self.step += 1` makes every call
another graph, until torch.compile gives the function up at `torch._dynamo.config.recompile_limit`. Keep the number in a
buffer, which is an input of the graph.""",
        fixes=("state-to-buffer",),
        torch_text="self.count == 0",
        bad=net("self.count = self.count + 1  # <- here\nreturn x * self.count", init="self.count = 0"),
        good=net("self.count.add_(1)\nreturn x * self.count", init='self.register_buffer("count", torch.zeros(()))'),
    ),
    Rule(
        "FX622",
        "recompile-argument",
        "Compiled again: an argument that is no tensor changes",
        "{it} is another number on a later call, so the graph is compiled again",
        "info",
        """Text, flags, None and numbers are constants of the graph, so each of their values has a graph of its own.
Give a number that changes with every call as a tensor.""",
        torch_text="k == 1",
        bad=net("return x * k  # <- here", signature="self, x, k")
        + "\n\ndef example(k):\n    return torch.ones(2, 3), k\n",
        good=net("return x * k", signature="self, x, k")
        + "\n\ndef example(k):\n    return torch.ones(2, 3), torch.tensor(k)\n",
        inputs="example(1)",
        options='{"more": [example(2)]}',
        advice="Give a number that changes as a tensor.",
    ),
    Rule(
        "FX623",
        "recompile-other",
        "Compiled again: something that the graph assumes has changed",
        "The compiled graph assumes a value of {it} that changes, so it is compiled again",
        "info",
        """torch.compile compiles for what it sees in the first call, and checks it by *guards* before each later one:
types, devices, the grad mode, global variables, objects in containers. If a guard fails, forward is compiled again.
The message quotes the guard that failed. Pass a global number that changes as a tensor argument instead.""",
        torch_text="G['FACTOR'] == 1",
        bad=net("global FACTOR\nFACTOR += 1  # <- here\nreturn x * 2", f"{HEAD}\nFACTOR = 1\n"),
        good=net("return x * 2"),
    ),
    Rule(
        "FX690",
        "compile-package",
        "The graph breaks inside of an installed package",
        "The graph breaks in {package}, which {it} calls",
        "warning",
        """The break lies in code that is not yours to edit; the finding is at your call of it, and names the place.
Another version of the package may be captured. Otherwise call it outside of what is compiled.""",
        fixes=("exclude-from-compile",),
        torch_text="",
        advice="Call it outside of what is compiled.",
    ),
    Rule(
        "FX698",
        "compile-fails",
        "torch.compile raises where eager does not",
        "torch.compile raises at {it}, and eager does not: {error}",
        "error",
        """Compiling stops with an error instead of a graph break: an operator fails on the symbolic tensors that
Dynamo computes with, or the backend is given something that it does not take. The message has torch's own words.""",
        torch_text="RuntimeError when making fake tensor call",
        bad=net("try:\n    return x @ torch.ones(5, 5)  # <- here\nexcept RuntimeError:\n    return x * 2"),
        good=net("return x @ torch.ones(5, 5) if x.shape[1] == 5 else x * 2"),
    ),
    Rule(
        "FX699",
        "compile-break",
        "The graph breaks",
        "Dynamo cannot capture {it}, so the graph breaks here",
        "warning",
        """Dynamo cannot put this expression into a graph, for a reason that has no page of its own here. The message
has Dynamo's explanation, and its code leads to its page.""",
        fixes=("only-in-python", "exclude-from-compile"),
        torch_text="",
    ),
)
