"""FX17x to FX19x: what cannot be an argument, a callee or a root."""

from fxlib.diagnosis.rules.nets import HEAD
from fxlib.diagnosis.rules.rule import Rule, add

add(
    Rule(
        "FX170",
        "unregistered-module",
        "Layer that is not registered",
        "This layer is not registered as a submodule: {it}",
        "error",
        """A module call is recorded by its path, such as `layers.0`. A module in a plain list or dict, or one
created inside forward, has no path (and its parameters are not trained, moved or saved). Use `nn.ModuleList`,
`nn.ModuleDict`, or create it in `__init__`.""",
        "module is not installed as a submodule",
        ("module-list", "module-in-init"),
        HEAD
        + """

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(3, 3), nn.Linear(3, 3)]

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)  # <- here
        return x
""",
        HEAD
        + """

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
""",
    ),
    Rule(
        "FX171",
        "unregistered-parameter",
        "Parameter that is not registered",
        "This parameter is not registered on a module: {it}",
        "error",
        """A parameter is recorded by its path. One that is in a plain list, or is created inside forward, has
no path. Use `nn.ParameterList`, or assign it to an attribute in `__init__`.""",
        "parameter is not a member of this module",
        ("parameter-list",),
        HEAD
        + """

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.scales = [nn.Parameter(torch.ones(3))]

    def forward(self, x):
        return x * self.scales[0]  # <- here
""",
        HEAD
        + """

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.scales = nn.ParameterList([nn.Parameter(torch.ones(3))])

    def forward(self, x):
        return x * self.scales[0]
""",
        advice="Use nn.ParameterList, or assign it in `__init__`",
    ),
    Rule(
        "FX172",
        "endless-backward-hook",
        "Module with a backward hook of the old kind",
        "Tracing into this module never ends, since `register_backward_hook` looks for a tensor in its result: {it}",
        "error",
        """After the forward of a module with a hook of `register_backward_hook`, torch takes the first item of the
result, and of that one, until it has a tensor. Items of a traced value are traced values, so torch.fx does not end: it
adds nodes until the memory is full. `fxlib` raises instead. Modules of torch are leaves, for which this does not
matter. `register_full_backward_hook` does not look for a tensor, and a leaf module keeps its hooks.""",
        "nothing: it does not end",
        (),
        HEAD
        + """

class Scaled(nn.Linear):
    def __init__(self):
        super().__init__(3, 3)
        self.register_backward_hook(lambda module, inputs, outputs: None)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.scaled = Scaled()

    def forward(self, x):
        return self.scaled(x) * 2  # <- here
""",
        HEAD
        + """

class Scaled(nn.Linear):
    pass


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.scaled = Scaled(3, 3)

    def forward(self, x):
        return self.scaled(x) * 2
""",
        advice="Use register_full_backward_hook, or make it a leaf module",
    ),
    Rule(
        "FX175",
        "unknown-argument",
        "Argument of a type that a graph cannot hold",
        "A graph cannot hold an argument of this type: {it}",
        "error",
        """The arguments of a node are traced values, numbers, strings, dtypes, devices, None, and tuples,
lists, dicts and slices of them. An object of another class, a set, a generator or a function is refused,
because it cannot be written into the generated code. Pass its fields, or give its class a method
`__fx_create_arg__`.""",
        "argument of type: <class 'set'>",
        ("list-of-generator",),
        HEAD
        + """

class Net(nn.Module):
    def forward(self, x):
        return x.sum(dim={0, 1})  # <- here
""",
        HEAD
        + """

class Net(nn.Module):
    def forward(self, x):
        return x.sum(dim=(0, 1))
""",
    ),
    Rule(
        "FX180",
        "scripted-function",
        "TorchScript function called with a traced value",
        "TorchScript functions cannot take a traced value: {it}",
        "error",
        """A scripted function checks the types of its arguments and rejects a `Proxy`. Call the plain function,
or put the call into a wrapped function.""",
        "Expected a value of type 'Tensor' for argument 'x' but instead found type 'Proxy'",
        ("wrap",),
        HEAD
        + """

@torch.jit.script
def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


class Net(nn.Module):
    def forward(self, x):
        return double(x)  # <- here
""",
        HEAD
        + """

def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


class Net(nn.Module):
    def forward(self, x):
        return double(x)
""",
        advice="Call the plain function instead",
    ),
    Rule(
        "FX181",
        "function-transform",
        "vmap, grad or another function transform of a traced value",
        "Function transforms such as `torch.vmap` cannot take a traced value: {it}",
        "error",
        """`torch.vmap` and the transforms of `torch.func` expect real tensors in their arguments. Put the
transform into a wrapped function, or write the batched form.""",
        "vmap: Expected all inputs to be Tensors / Got in_dim=0 for an input but the input is of type Proxy",
        ("wrap", "lift-block"),
        HEAD
        + """

class Net(nn.Module):
    def forward(self, x):
        return torch.vmap(torch.sum)(x)  # <- here
""",
        HEAD
        + """

class Net(nn.Module):
    def forward(self, x):
        return x.sum(1)
""",
        advice="Apply the transform in a wrapped function",
    ),
    Rule(
        "FX182",
        "structured-control-flow",
        "torch.cond, torch._check or a higher-order operator on a traced value",
        "`{call}` cannot take a traced value: {it}",
        "error",
        """`torch.cond` and `torch._check` are made for `torch.export`; symbolic tracing does not support them.
Use `torch.where`, `torch._assert` or a wrapped function.""",
        "torch._check expects a bool / torch.cond: pred must be a bool or tensor",
        ("torch-assert", "if-to-where", "wrap"),
        HEAD
        + """

class Net(nn.Module):
    def forward(self, x):
        torch._check(x.shape[0] > 0)  # <- here
        return x * 2
""",
        HEAD
        + """

class Net(nn.Module):
    def forward(self, x):
        torch._assert(x.shape[0] > 0, "empty batch")
        return x * 2
""",
        advice="Use torch.where, torch._assert or a wrapped function",
    ),
    Rule(
        "FX184",
        "context-argument",
        "Context manager opened with a traced value",
        "This context manager needs a plain value, but gets a traced value: {it}",
        "error",
        """`torch.autocast(x.device.type)` needs a real string. The context would not be recorded either
(FX213). Open it outside of the traced module.""",
        "Expected `device_type` of type `str`, got: `<class 'torch.fx.proxy.Attribute'>`",
        ("lift-block",),
        HEAD
        + """

class Net(nn.Module):
    def forward(self, x):
        with torch.autocast(x.device.type):  # <- here
            return x @ x.t()
""",
        HEAD
        + """

class Net(nn.Module):
    def forward(self, x):
        return x @ x.t()
""",
        advice="Open the context outside of the model",
    ),
    Rule(
        "FX185",
        "wrap-placement",
        "torch.fx.wrap not at the top level of a module",
        "`torch.fx.wrap` must be called at the top level of a module: {it}",
        "error",
        """`torch.fx.wrap` replaces global names of the module that calls it while a trace runs. It must be
called at the top level of that module: not inside a function, and not on a method or a class.""",
        "wrap must be called at the top level of a module",
        ("wrap-top-level",),
        """\
import torch
import torch.fx
from torch import nn


def helper(x):
    return x * 2


class Net(nn.Module):
    def forward(self, x):
        torch.fx.wrap("helper")  # <- here
        return helper(x)
""",
        """\
import torch
import torch.fx
from torch import nn


def helper(x):
    return x * 2


torch.fx.wrap("helper")


class Net(nn.Module):
    def forward(self, x):
        return helper(x)
""",
    ),
    Rule(
        "FX187",
        "static-forward",
        "forward is a static or a class method",
        "torch.fx passes the module to `forward` as its first argument, which a static or class method does not accept",
        "error",
        """The trace calls the `forward` of the class with the module and one proxy per further argument. A static
method receives the module in place of its first input, so the first operation fails; a class method is refused. Only
the root has this problem: as a submodule such a module is called like any other.""",
        "must be Tensor, not Net",
        ("instance-forward",),
        """\
import torch
from torch import nn


class Net(nn.Module):
    @staticmethod
    def forward(x):  # <- here
        return x * torch.sigmoid(x)
""",
        """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(x)
""",
        advice="Remove the decorator and add `self`",
    ),
    Rule(
        "FX188",
        "distribution",
        "Distribution constructed with a traced value",
        "`{call}` needs the sizes or values of its arguments, which a traced value does not have: {it}",
        "error",
        """The classes of `torch.distributions` read the sizes and values of their arguments in `__init__`. Construct
the distribution in a function wrapped with `torch.fx.wrap`: the graph then calls the function, and `sample`, `log_prob`
and the other methods of its result are recorded. Or return the parameters of the distribution from `forward`, and
construct it in the code that calls the model: such a graph can also be exported. Some distributions can be traced with
`validate_args=False`, or after `torch.compile` has been used in the process, because it turns the validation off.""",
        "TraceError: symbolically traced variables cannot be used as inputs to control flow",
        ("wrap-distribution", "leaf-module"),
        """\
from torch import nn
from torch.distributions import Normal


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = nn.Linear(3, 2)

    def forward(self, x):
        policy = Normal(self.mean(x), x.new_ones(2))  # <- here
        return policy.log_prob(x[:, :2])
""",
        """\
import torch
from torch import nn
from torch.distributions import Normal


@torch.fx.wrap
def normal(mean, scale):
    return Normal(mean, scale)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = nn.Linear(3, 2)

    def forward(self, x):
        policy = normal(self.mean(x), x.new_ones(2))
        return policy.log_prob(x[:, :2])
""",
        advice="Call it in a wrapped function, or outside of forward",
    ),
    Rule(
        "FX190",
        "untraceable-root",
        "The root cannot be traced",
        "This root cannot be traced: {error}",
        "error",
        """A root needs a `forward` written in Python. A module without one, a container such as
`nn.ModuleList`, and a scripted or compiled module have no forward that could run on proxies. Modules of torch
such as `nn.LSTM` branch on their inputs: inside another module they are leaves, but they cannot be the root.""",
        'Module [ModuleList] is missing the required "forward" function',
        (),
        """\
import torch
from torch import nn


class Net(nn.ModuleList):  # <- here
    pass
""",
        """\
import torch
from torch import nn


class Net(nn.Sequential):
    pass
""",
    ),
    Rule(
        "FX191",
        "own-name",
        "An attribute has the name of one of GraphModule's own",
        "The traced model cannot hold `graph`, since torch.fx's GraphModule has an attribute of that name",
        "error",
        """torch.fx puts what the graph uses (layers, parameters, buffers and tensors) into a `GraphModule` under the
names that they have in the model. A GraphModule has attributes of its own: `graph`, `code`, `meta`, `recompile`,
`to_folder` and others. If the model uses one of these names, torch.fx raises, or makes a module that fails when it
runs. Only attributes of the traced model itself matter, not those of its layers.

A state dict contains the old name: load old checkpoints with the key renamed.""",
        "cannot assign 'torch.fx.graph.Graph' as child module 'graph' (torch.nn.Module or None expected)",
        (),
        """\
import torch
from torch import nn


class Net(nn.Module):  # <- here
    def __init__(self):
        super().__init__()
        self.graph = nn.Linear(3, 3)

    def forward(self, x):
        return self.graph(x)
""",
        """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.graph_layer = nn.Linear(3, 3)

    def forward(self, x):
        return self.graph_layer(x)
""",
        advice="Rename it",
    ),
    Rule(
        "FX195",
        "guard",
        "Your own check fails while tracing",
        "Your own check fails, since it sees a Proxy while tracing: {error}",
        "error",
        """The code checks its argument (`isinstance`, `type`, a range) and raises. While tracing, the argument is a
`Proxy`, so the check gives a different result than in a normal run. Check with `torch._assert`, check outside of
forward, or accept proxies.""",
        "the exception that the guard raises",
        ("drop-type-test", "torch-assert", "lift-block"),
        HEAD
        + """

class Net(nn.Module):
    def forward(self, x):
        if not isinstance(x, torch.Tensor):
            raise TypeError("a tensor, please")  # <- here
        return x * 2
""",
        HEAD
        + """

class Net(nn.Module):
    def forward(self, x):
        return x * 2
""",
    ),
    Rule(
        "FX198",
        "package-function",
        "A function of an installed package does not trace",
        "{it} calls a function of `{package}` that cannot be traced",
        "error",
        """The call is in your code, but the code that fails is in the package. `torch.fx.wrap("name")` in your
file records the call as one node, and the package runs only when the graph runs. The function must be called by
its bare name, as after `from package import name`. For a call written `package.name(...)`, write a
function of your own that makes the call, and wrap that function.""",
        "whatever the package raises",
        ("wrap", "lift-expression", "lift-block"),
        """\
import torch
from einops import rearrange
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return rearrange(x, "rows columns -> columns rows")  # <- here
""",
        """\
import torch
import torch.fx
from einops import rearrange
from torch import nn

torch.fx.wrap("rearrange")


class Net(nn.Module):
    def forward(self, x):
        return rearrange(x, "rows columns -> columns rows")
""",
    ),
    Rule(
        "FX199",
        "failure",
        "Tracing fails for another reason",
        "Tracing fails at {it}: {error}",
        "error",
        """forward raises while it is traced, for a reason that no other rule describes. The message of the
exception is part of the finding. Check first whether forward also fails on real inputs.""",
        "the exception itself",
        ("import-name", "wrap", "lift-block", "leaf-module"),
        HEAD
        + """

class Net(nn.Module):
    def forward(self, x):
        return x * memoryview(x)  # <- here
""",
        HEAD
        + """

class Net(nn.Module):
    def forward(self, x):
        return x * 2
""",
    ),
)
