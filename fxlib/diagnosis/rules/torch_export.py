"""FX5xx: torch.export refuses, or writes a program that does something else. `fxlib.captures.judge` finds them."""

from fxlib.diagnosis.rules.nets import net
from fxlib.diagnosis.rules.rule import Rule, add

add(
    Rule(
        "FX501",
        "export-branch",
        "torch.export fails: data-dependent branch",
        "{it} branches on a tensor's value, which torch.export does not have",
        "error",
        """An exported program is one graph for all values, but a Python branch needs the actual value. `torch.where`
computes both sides; `torch.cond` keeps both in the program. State a condition that must always hold with
`torch._check(condition)`, or check it at run time with `torch._assert_async`.""",
        fixes=(
            "if-to-where",
            "assert-async",
            "raise-to-assert",
            "fill-where",
            "continue-to-where",
            "leave-to-mask",
            "rows-by-mask",
            "without-empty-case",
            "say-and-choose",
            "only-in-python",
            "unchecked-distribution",
            "torch-maximum",
            "if-to-cond",
            "to-while-loop",
        ),
        torch_text="Could not guard on data-dependent expression",
        bad=net("if x.sum() > 0:  # <- here\n    x = x + 1\nreturn x"),
        good=net("return torch.where(x.sum() > 0, x + 1, x)"),
        advice="Use torch.where, or torch.cond.",
    ),
    Rule(
        "FX502",
        "export-number",
        "torch.export fails: Python needs a tensor's value as a number",
        "{it} needs a tensor's value as a Python number",
        "error",
        """`.item()` alone is exported, as a symbol. `int()`, `float()`, `range`, indexing a Python list and hashing
need the number itself. Keep the result of `.item()` as it is, or keep the value a tensor.""",
        fixes=(
            "keep-tensor",
            "torch-math",
            "item-of-tensor",
            "sorted-to-sort",
            "all-of-list",
            "if-to-where",
            "slice-without-asking",
            "without-empty-case",
            "leave-to-mask",
            "to-while-loop",
        ),
        torch_text="Could not guard on data-dependent expression zuf0",
        bad=net("n = int(x.max())  # <- here\nreturn x * n"),
        good=net("n = x.max().item()\nreturn x * n"),
        advice="Keep it a tensor.",
    ),
    Rule(
        "FX503",
        "export-value-size",
        "torch.export fails: code depends on a data-dependent size",
        "{it} needs a size that depends on tensor values",
        "error",
        """The size came from `.item()`, `nonzero` or a boolean index, so it is a symbol without a value, but the code
needs to know it. `torch._check(n > 1)` states what holds for all calls; the program raises if it does not.""",
        fixes=(
            "if-to-where",
            "slice-without-asking",
            "without-empty-case",
            "leave-to-mask",
            "check-condition",
            "to-while-loop",
        ),
        torch_text="Could not guard on data-dependent expression u0 > 1",
        bad=net("kept = x[x > 0]\nif kept.shape[0] > 1:  # <- here\n    kept = kept * 2\nreturn kept.sum()"),
        good=net("kept = x[x > 0]\ntorch._check(kept.shape[0] > 1)\nkept = kept * 2\nreturn kept.sum()"),
        inputs="(torch.ones(2, 3),)",
        advice="State what holds with torch._check.",
    ),
    Rule(
        "FX504",
        "export-data",
        "torch.export fails: the data of a tensor is needed",
        "{it} needs the data of a tensor, which does not exist during export",
        "error",
        """Tensors have no data while a program is exported. NumPy, `torch.tensor` of tensors, data pointers, text
and `copy.deepcopy` read it. Compute with torch, and build tensors with `torch.stack`.""",
        fixes=("without-numpy", "np-to-torch", "stack-tensors", "without-copy", "sorted-to-sort", "identity-to-is"),
        torch_text=".numpy() is not supported for tensor subclasses.",
        bad=net("return x + torch.from_numpy(x.numpy().cumsum(1))  # <- here"),
        good=net("return x + x.cumsum(1)"),
        advice="Compute it with torch.",
    ),
    Rule(
        "FX505",
        "export-types",
        "torch.export fails: unknown type of an input or output",
        "torch.export does not know the type of {it}",
        "error",
        """Inputs and results are tensors, numbers, text, None, and lists, tuples and dictionaries of them. Register
other classes with `torch.utils._pytree.register_dataclass` or `torch.export.register_dataclass`, or return a
dictionary.""",
        fixes=("register-dataclass", "register-class"),
        torch_text="in output, which is not a known type.",
        bad=net(
            "return Output(x * 2)  # <- here",
            "import dataclasses\n\nimport torch\nfrom torch import nn\n\n\n"
            "@dataclasses.dataclass\nclass Output:\n    hidden: torch.Tensor\n",
        ),
        good=net('return {"hidden": x * 2}'),
        advice="Use tuples or dictionaries, or register the class.",
    ),
    Rule(
        "FX506",
        "export-state",
        "torch.export fails: forward replaces a tensor of the module",
        "A tensor of the module is replaced in forward",
        "error",
        """A parameter or buffer got another tensor through `.data`, or a tensor made in forward stayed in the module.
Write into a buffer instead: `self.mean.copy_(value)`, or an assignment to an attribute created with
`register_buffer`.""",
        fixes=("copy-in-place", "copy-without-grad"),
        torch_text="We found a fake tensor in the exported program constant's list.",
        bad=net(
            "self.weight.data = self.weight.data / 2  # <- here\nreturn x * self.weight",
            init="self.weight = nn.Parameter(torch.ones(3))",
        ),
        good=net("return x * (self.weight / 2)", init="self.weight = nn.Parameter(torch.ones(3))"),
        advice="Write into a buffer instead.",
    ),
    Rule(
        "FX507",
        "export-scripted",
        "torch.export fails: a scripted module or function",
        "{it} is scripted, so torch.export cannot trace into it",
        "error",
        """A module from `torch.jit.script` is no longer Python code, so torch.export cannot trace it. Use the original
module, without scripting.""",
        fixes=("without-script",),
        torch_text="takes 2 positional arguments but 3 were given",
        bad=net("return self.inner(x) * 2  # <- here", init="self.inner = torch.jit.script(nn.Linear(3, 3))"),
        good=net("return self.inner(x) * 2", init="self.inner = nn.Linear(3, 3)"),
        advice="Use the original module, without scripting.",
    ),
    Rule(
        "FX508",
        "export-data-attribute",
        "torch.export fails: a tensor's .data is read",
        "{it} gives a tensor that torch.export does not record",
        "error",
        """`x.data` is the tensor without its autograd history. Reading it is not an operator, so results computed from
it end up in the program as constants without a value. `x.detach()` is recorded.""",
        fixes=("data-to-detach",),
        torch_text="We found a fake tensor in the exported program constant's list.",
        bad=net("return x - x.data.mean()  # <- here"),
        good=net("return x - x.detach().mean()"),
        advice="Use `.detach()`.",
    ),
    Rule(
        "FX509",
        "export-gradient",
        "torch.export fails: gradients are computed inside forward",
        "{it} computes a gradient with autograd, which torch.export does not record",
        "error",
        """`torch.autograd.grad` and `backward()` follow the autograd history of tensors, which an exported program does
not have: their results end up in it as constants without a value. `torch.func.grad` of a function of the inputs alone
is recorded. If the function uses parameters, torch 2.13 refuses it (`nn.Linear`) or keeps the parameters as constants;
export such a model without its gradient.""",
        torch_text="We found a fake tensor in the exported program constant's list.",
        bad=net(
            "x = x.detach().requires_grad_(True)\ny = self.layer(x).sum()\n"
            "(grad,) = torch.autograd.grad(y, x, create_graph=True)  # <- here\nreturn grad.norm()",
            init="self.layer = nn.Linear(3, 1)",
        ),
        good=net("return torch.func.grad(lambda x: (x**2).sum())(x.detach())"),
        advice="Use torch.func.grad if the function uses no parameters.",
    ),
    Rule(
        "FX551",
        "export-state-lost",
        "Python state that forward changes is constant in the exported program",
        "The exported program does not update {it}",
        "warning",
        """An exported program has the tensor operations of one call of forward. A counter, a list or a cached tensor in
a Python attribute keeps the value that it had at the export, so later calls of the program and of the model differ.
So does what is in dictionaries, attributes of classes, and globals.
A buffer is part of the program, which updates it at each call.""",
        fixes=("state-to-buffer",),
        torch_text="",
        bad=net("self.count = self.count + 1  # <- here\nreturn x * self.count", init="self.count = 1"),
        good=net("self.count.add_(1)\nreturn x * self.count", init='self.register_buffer("count", torch.ones(()))'),
    ),
    Rule(
        "FX552",
        "export-moment",
        "A time or random number of Python is constant in the exported program",
        "The exported program always uses the value that {it} had at the export",
        "warning",
        """Python's clocks, and random numbers of Python or NumPy, are read once, at the export. Every call of the
program uses that value. So it is with ids, the next item of an iterator, and modes such as `torch.is_grad_enabled()`.
torch's own random numbers are drawn anew at each call.""",
        bad=net("return x * random.random()  # <- here", "import random\n\nimport torch\nfrom torch import nn\n"),
        good=net("return x * torch.rand(())"),
        advice="Pass it in as an argument.",
    ),
    Rule(
        "FX553",
        "export-constant",
        "A plain tensor of the module becomes a constant of the program",
        "{it} is a plain tensor, so the exported program stores it as a constant",
        "hint",
        """The tensor is neither a parameter nor a buffer. The program has a copy of it, which stays on its device and
is not in the `state_dict`.""",
        fixes=("state-to-buffer",),
        bad=net("return x * self.scale  # <- here", init="self.scale = torch.full((3,), 2.0)"),
        good=net("return x * self.scale", init='self.register_buffer("scale", torch.full((3,), 2.0))'),
        advice="With register_buffer it moves with the model and is saved with it.",
    ),
    Rule(
        "FX554",
        "export-input-written",
        "An input is written in place",
        "{it} writes into an input",
        "hint",
        """The program writes into the tensor that it is called with, as forward does. Engines that the program is
lowered to may copy their inputs, and then the write is lost.""",
        bad=net("x.clamp_(max=0.5)  # <- here\nreturn x * 2"),
        good=net("x = x.clamp(max=0.5)\nreturn x * 2"),
        advice="The exported program does the same.",
    ),
    Rule(
        "FX590",
        "export-package",
        "torch.export fails inside of an installed package",
        "torch.export fails in {package}, which {it} calls",
        "error",
        """The failure is in the code of the package. The finding marks your call and names the line in the package.
Another version of the package may work.""",
    ),
    Rule(
        "FX599",
        "export-fails",
        "torch.export fails",
        "torch.export fails at {it}: {error}",
        "error",
        """torch.export raises for a reason that has no rule of its own. The message quotes torch.""",
        fixes=("if-to-where",),
    ),
)
