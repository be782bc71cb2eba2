"""FX212 to FX215, FX221, FX233 to FX235, FX237, FX240, FX241: what surrounds operations, and is not in the graph."""

from fxlib.diagnosis.rules.nets import HEAD, net
from fxlib.diagnosis.rules.rule import Rule, add

add(
    Rule(
        "FX212",
        "grad-mode",
        "no_grad, enable_grad or inference_mode is lost",
        "{it} is not recorded, so the operations inside run in the caller's grad mode",
        "warning",
        """Contexts are entered while tracing, but are not recorded. The operations inside run in the grad mode
of the caller, so gradients flow where `torch.no_grad()` stopped them. `detach()` is recorded.""",
        fixes=("lift-block", "detach", "leaf-module"),
        bad=net("        with torch.no_grad():  # <- here\n            y = x * 2\n        return x + y\n"),
        good=net("        y = (x * 2).detach()\n        return x + y\n"),
        advice="Use detach(), which is recorded",
    ),
    Rule(
        "FX240",
        "requires-grad",
        "forward changes which parameters need gradients",
        "{it} is not recorded, so the graph gives gradients to the parameters that need some when it is called",
        "warning",
        """`requires_grad` of a parameter is no operation. Where forward sets it, as `self.critic.requires_grad_(False)`
around the call of a critic that is not to be trained, it does so while tracing only: the graph, and a program of
torch.export, train these weights. It is reported where forward also sets it back: a parameter that stays frozen is
frozen by the trace as well.

Set it outside of forward: once if the weights stay frozen, or around the call of the graph.""",
        bad=net(
            "        self.layer.requires_grad_(False)  # <- here\n"
            "        y = self.layer(x)\n"
            "        self.layer.requires_grad_(True)\n"
            "        return y\n",
            init="self.layer = nn.Linear(3, 3)",
        ),
        good=net("        return self.layer(x)\n", init="self.layer = nn.Linear(3, 3).requires_grad_(False)"),
        advice="Set it outside of forward",
    ),
    Rule(
        "FX213",
        "autocast",
        "autocast is lost",
        "{it} is not recorded, so the operations inside run without autocast",
        "warning",
        """The operations inside `torch.autocast` are recorded without it: the graph computes in the dtype of its
inputs. Open the context around the call of the traced module, or convert with `.to(dtype)`. A context with
`enabled=False` ends that of a caller, if there is one: this is information.""",
        fixes=("lift-block", "leaf-module"),
        bad=net(
            '        with torch.autocast("cpu", dtype=torch.bfloat16):  # <- here\n            y = x @ x.t()\n'
            "        return y\n"
        ),
        good=net("        y = x.bfloat16() @ x.t().bfloat16()\n        return y\n"),
        advice="Open it around the traced module instead",
    ),
    Rule(
        "FX214",
        "checkpoint",
        "Activation checkpointing is lost",
        "{it} is not recorded as a checkpoint, so the graph keeps all activations",
        "warning",
        """`torch.utils.checkpoint.checkpoint(f, x)` runs `f` on the proxies; the graph holds the operations of `f` and
keeps all activations for the backward pass. Results stay the same, but memory use grows.""",
        fixes=("lift-expression", "leaf-module"),
        bad=net(
            "        return checkpoint(torch.relu, x * 2, use_reentrant=False)  # <- here\n",
            "import torch\nfrom torch import nn\nfrom torch.utils.checkpoint import checkpoint\n",
        ),
        good=net("        return torch.relu(x * 2)\n"),
    ),
    Rule(
        "FX215",
        "swallowed",
        "try/except hides that tracing fails",
        "Tracing fails at {it}, but a handler hides it, so the graph holds the fallback",
        "warning",
        """An operation that cannot be traced raises inside a `try`, and the handler catches the error. The
graph then holds the fallback, although a normal run would not use it.""",
        misleads=True,
        fixes=("wrap", "lift-block"),
        bad=net(
            "        try:\n            n = len(x)  # <- here\n        except Exception:\n            n = 1\n"
            "        return x / n\n"
        ),
        good=net("        n = x.shape[0]\n        return x / n\n"),
    ),
    Rule(
        "FX221",
        "autograd-function",
        "Custom autograd.Function loses its backward",
        "{it} is recorded as the operations of its forward, so its own backward is lost",
        "warning",
        """`Function.apply` runs `forward` on the proxies. The graph holds the operations of the forward, and
autograd differentiates those instead of calling `backward`. Call it in a wrapped function, which is recorded as
one node.""",
        fixes=("wrap", "lift-expression"),
        bad=HEAD
        + """

class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 5


class Net(nn.Module):
    def forward(self, x):
        return Scale.apply(x)  # <- here
""",
        good="""\
import torch
import torch.fx
from torch import nn


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 5


@torch.fx.wrap
def scale(x):
    return Scale.apply(x)


class Net(nn.Module):
    def forward(self, x):
        return scale(x)
""",
        advice="Call it in a wrapped function",
    ),
    Rule(
        "FX233",
        "lost-hook",
        "Hook that is not part of the graph",
        "{it} is not part of the graph",
        "warning",
        """torch.fx traces `forward`, not the call of the module. Hooks of the traced module itself, and a `__call__` of
its class, do not run, so their effect is missing from the graph. `torch.nn.utils.spectral_norm(self, ...)` is such a
hook. A submodule that is a leaf keeps its hooks. Of one that is traced into, what forward hooks do is recorded, but
backward hooks are lost, since they need the tensors of a normal run. A hook that forward registers is registered only
once, while tracing.""",
        bad=net(
            "        return x * 2\n",
            init="self.register_forward_pre_hook(lambda module, args: (args[0] * 3,))  # <- here\n",
        ),
        good=net("        x = x * 3\n        return x * 2\n"),
        advice="Do this in forward, or trace a parent module that contains this one",
    ),
    Rule(
        "FX237",
        "own-mode",
        "Mode that the model sets itself",
        "{it} decides the mode of a layer, of which the graph knows nothing",
        "warning",
        """A model may keep layers in a mode of their own: its class overrides `train()` and puts `BatchNorm` layers
back into eval mode, or forward calls `self.norm.eval()` or `self.dropout.train()`. The graph has neither. Its `train()`
and `eval()` are those of `nn.Module` and put all of its layers into that mode, so fine-tuning the graph trains layers
that the model keeps frozen. It is reported for layers of the graph whose results depend on the mode, and for parameters
of the graph whose `requires_grad` the model's own `train()` or `eval()` changes.

Put these layers into their mode again after each `train()` and `eval()` of the graph, or use a layer without modes, as
`torchvision.ops.FrozenBatchNorm2d`.""",
        bad=net(
            "        self.norm.eval()  # <- here\n        return self.norm(x)\n", init="self.norm = nn.BatchNorm1d(3)"
        ),
        good=net(
            "        norm = self.norm\n"
            "        return nn.functional.batch_norm(x, norm.running_mean, norm.running_var, norm.weight, norm.bias)\n",
            init="self.norm = nn.BatchNorm1d(3)",
        ),
        advice="Put the layer into its mode again after `train()` and `eval()` of the graph",
    ),
    Rule(
        "FX241",
        "buffers-once",
        "Buffer whose value the graph keeps",
        "{it} is read once, while tracing, so the graph keeps this value",
        "info",
        """torch.fx gives forward the buffer itself, and records what is done with it and a traced value:
`x * self.scale`. What is computed from buffers alone is computed once, while tracing, and becomes a constant of the
graph: `(self.var + 1e-5).sqrt()`, `1.0 / self.std`, `self.kernel.expand(3, 1, 3, 3)`. So does the number that
`self.scale.item()`, `float(self.scale)` and `if self.initialized:` give Python. Neither `load_state_dict` of other
values nor a later change of the buffer reaches the graph, which does not even have this buffer.

It is a warning if forward or a layer of torch changes the buffer, as running statistics are, and information if only
`load_state_dict` or code outside of forward may. Other buffers are not reported: those that are not persistent, and
integers and masks that are read as tensors. A number is reported where a trace with another one gives another graph.

Do it in a function with `torch.fx.wrap` that also gets a traced value, or trace with a tracer whose class sets
`proxy_buffer_attributes = True`, which records every read of a buffer. A number or a condition becomes an operation
if the buffer is used itself: `x * self.scale`, `torch.where(self.on, y, x)`. Or trace the model once its buffers have
their values.""",
        bad=net(
            "        return x / (self.var + 1e-5).sqrt()  # <- here\n",
            init='self.register_buffer("var", torch.ones(3))',
        ),
        good=net(
            "        return scaled(x, self.var)\n",
            HEAD + "\n\n@torch.fx.wrap\ndef scaled(x, var):\n    return x / (var + 1e-5).sqrt()\n",
            init='self.register_buffer("var", torch.ones(3))',
        ),
        advice="Use the buffer itself in operations with traced values, or trace the model once it has its value",
    ),
    Rule(
        "FX235",
        "weights-once",
        "Value computed from parameters only while tracing",
        "{it} uses a value computed from parameters while tracing, which is a constant of the graph",
        "warning",
        """torch.fx records a parameter only where forward reads it as an attribute of its module. A parameter from
`parameters()`, `named_parameters()`, `_parameters` or an earlier variable is not a traced value: what is computed from
such parameters alone is computed once, while tracing, and becomes a constant of the graph. Training does not change it,
and no gradients reach the parameters.""",
        bad=net(
            "        decay = sum(p.square().sum() for p in self.parameters())\n"
            "        return self.layer(x) + decay  # <- here\n",
            init="self.layer = nn.Linear(3, 3)",
        ),
        good=net(
            "        decay = self.layer.weight.square().sum() + self.layer.bias.square().sum()\n"
            "        return self.layer(x) + decay\n",
            init="self.layer = nn.Linear(3, 3)",
        ),
        advice="Read the parameters as attributes of their modules",
    ),
    Rule(
        "FX234",
        "other-graph",
        "Value of another graph",
        "{it} belongs to another graph, so the traced module fails when it runs",
        "error",
        """`copy.deepcopy(x)` of a traced value copies the trace with it. What is computed from the copy is recorded in
that other graph, and the generated code uses a name that is never assigned: torch.fx traces without an error, and the
traced module raises NameError. A traced value kept from an earlier trace causes the same error. `x.clone()` is
recorded.""",
        bad=net(
            "        y = copy.deepcopy(x)  # <- here\n        return y * 2\n",
            "import copy\n\nimport torch\nfrom torch import nn\n",
        ),
        good=net("        y = x.clone()\n        return y * 2\n"),
        advice="Use clone(), which is recorded",
    ),
)
