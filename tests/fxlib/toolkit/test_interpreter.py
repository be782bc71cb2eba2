"""Interpreter and Transformer, against torch.fx and eager."""

import pytest
import torch

import fxlib

from .both import assert_same


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.l = torch.nn.Linear(2, 2)
        self.w = torch.nn.Parameter(torch.ones(2))

    def forward(self, x, *a, y: int = 3, **k):
        return {"o": [self.l(x).sigmoid() + self.w * y, a]}


def calls(side, function, **meta):
    graph = side().Graph()
    node = graph.call_function(function, (graph.placeholder("x"),))
    node.meta.update(meta)
    graph.output(node)
    return side().GraphModule({}, graph)


class Failure(Exception):
    pass


def no_message(x):
    raise Failure


def two_arguments(x):
    raise Failure(3, 4)


def missing_key(x):
    raise KeyError("q")


@pytest.mark.parametrize("function", [no_message, two_arguments, missing_key])
def test_errors_name_the_node(function):
    def scenario(side):
        gm = calls(side, function, stack_trace="File here")
        for extra in (True, False):
            interpreter = side().Interpreter(gm)
            interpreter.extra_traceback = extra
            side.attempt(lambda i=interpreter: i.run(1))
        side.attempt(lambda: side().Interpreter(gm).boxed_run([1]))
        try:
            side().Interpreter(gm).run(1)
        except Exception as error:
            side.report(error.args, repr(error.__cause__))

    assert_same(scenario, at_least=4)


def test_misuse():
    def scenario(side):
        gm = calls(side, torch.relu)
        interpreter = side().Interpreter(gm)
        side.attempt(lambda: interpreter.run())
        for count in (0, 2):
            side.attempt(lambda count=count: interpreter.boxed_run([torch.ones(1)] * count))
        side.attempt(lambda: interpreter.fetch_attr("no.where"))
        first = next(iter(gm.graph.nodes))
        side.attempt(lambda: side().Interpreter(gm).map_nodes_to_values(first, first))
        for method in ("call_module", "call_method", "get_attr", "placeholder"):
            side.attempt(lambda method=method: getattr(interpreter, method)(torch.add, (1,), {}))
        side.attempt(lambda: interpreter.call_function("text", (), {}))
        graph = side().Graph()
        graph.output(graph.create_node("call_module", "gone", (graph.placeholder("x"),)))
        side.attempt(lambda: side().Interpreter(torch.nn.Module(), graph=graph).run(1))

    assert_same(scenario, at_least=11)


def test_values_and_environment():
    def scenario(side):
        torch.manual_seed(0)
        gm = side().symbolic_trace(Model())
        x = torch.ones(1, 2)
        weight = next(node for node in gm.graph.nodes if node.op == "get_attr")
        for keep in (False, True):
            interpreter = side().Interpreter(gm, garbage_collect_values=not keep)
            side.report(interpreter.run(x, 5), list(interpreter.env), hasattr(interpreter, "user_to_last_uses"))
        side.report(side().Interpreter(gm).run(x, 5, 6, 7))
        side.report(side().Interpreter(gm).run(x, 5, initial_env={weight: torch.zeros(2)}))
        side.report(side().Interpreter(gm).user_to_last_uses)
        given = [x, 5, [], {}]
        side.report(side().Interpreter(gm).boxed_run(given), given)

    assert_same(scenario, at_least=6)


def test_graph_other_than_the_modules_own():
    gm = fxlib.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()))
    graph = fxlib.Graph()
    graph.output(graph.create_node("call_module", "1", (graph.placeholder("x"),)))
    assert fxlib.Interpreter(gm, graph=graph).run(torch.tensor([-1.0, 1.0])).tolist() == [0, 1]


def test_nested_inputs_and_outputs():
    def function(a):
        return {"z": a["x"] + a["y"][0]}

    gm = fxlib.symbolic_trace(function, concrete_args={"a": {"x": fxlib.PH, "y": [fxlib.PH]}})
    given = {"x": torch.ones(1), "y": [torch.ones(1)]}
    assert fxlib.Interpreter(gm).run(given) == {"z": torch.tensor([2.0])}
    assert fxlib.Interpreter(gm).run(torch.ones(1), torch.ones(1), enable_io_processing=False) == [torch.tensor([2.0])]


HOOKS = [
    "run_node",
    "placeholder",
    "get_attr",
    "call_function",
    "call_method",
    "call_module",
    "output",
    "fetch_attr",
    "fetch_args_kwargs_from_env",
    "map_nodes_to_values",
]


@pytest.mark.parametrize("hook", HOOKS)
def test_each_hook_is_called_as_torch_fx_calls_it(hook):
    def scenario(side):
        seen = []

        def record(self, *args):
            seen.append(str([arg for arg in args if not isinstance(arg, torch.Tensor)])[:60])
            return getattr(super(kind, self), hook)(*args)

        kind = type("Recording", (side().Interpreter,), {hook: record})
        torch.manual_seed(0)
        side.report(kind(side().symbolic_trace(Model())).run(torch.ones(1, 2)))
        side.report(len(seen), seen[:1] if hook in ("fetch_attr", "placeholder", "get_attr") else "")

    assert_same(scenario, at_least=2)


def test_a_hook_set_on_the_instance():
    interpreter = fxlib.Interpreter(fxlib.symbolic_trace(lambda x: torch.relu(x) + 1))
    interpreter.call_function = lambda target, args, kwargs: 7
    assert interpreter.run(torch.ones(1)) == 7


def test_transformer():
    def scenario(side):
        class Swap(side().Transformer):
            def call_function(self, target, args, kwargs):
                return super().call_function(torch.sub if target.__name__ == "mul" else target, args, kwargs)

            def call_method(self, target, args, kwargs):
                return super().call_method("tanh" if target == "sigmoid" else target, args, kwargs)

            def placeholder(self, target, args, kwargs):
                side.report("placeholder", target, args, kwargs)
                return super().placeholder(target, args, kwargs)

        gm = side().symbolic_trace(Model())
        side.report(side().Transformer(gm).transform().code, Swap(gm).transform().code, Swap(gm).transform().graph)

    assert_same(scenario, at_least=5)


def test_transformer_keeps_modules_as_leaves_and_nested_inputs():
    def scenario(side):
        class Leaves(side().Tracer):
            def is_leaf_module(self, module, name):
                return name == "r"

        class Outer(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.r = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(2, 2))

            def forward(self, x):
                return self.r(x)

        outer = Outer()
        gm = side().GraphModule(outer, Leaves().trace(outer))
        side.report(side().Transformer(gm).transform().graph)
        ph = side().PH
        nested = side().symbolic_trace(lambda a: {"z": a["x"] + a["y"]}, concrete_args={"a": {"x": ph, "y": ph}})
        side.report(side().Transformer(nested).transform().code)

    assert_same(scenario, at_least=2)
