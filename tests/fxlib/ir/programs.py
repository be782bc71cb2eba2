"""Programs that use a library under its public names and say what happened; run on torch.fx and on fxlib alike."""

import collections
import copy
import enum
import operator
import pickle
import typing
import warnings
from typing import Any

import torch
from torch import nn

Pair = collections.namedtuple("Pair", "a b")


class Colour(enum.Enum):
    RED = 1


def user_function(x: Any) -> Any:
    return x


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.scale = nn.Parameter(torch.ones(2))
        self.register_buffer("shift", torch.zeros(2))
        self.parts = nn.Sequential(nn.ReLU(), nn.Linear(2, 2))

    def forward(self, x, y=3, *, z=None):
        return self.parts(self.linear(x)) * self.scale + self.shift * y


PROGRAMS: dict[str, Any] = {}


def program(function: Any) -> Any:
    PROGRAMS[function.__name__] = function
    return function


def chain(fx: Any) -> Any:
    """x, relu, neg, output."""
    graph = fx.Graph()
    x = graph.placeholder("x")
    relu = graph.call_function(torch.relu, (x,))
    neg = graph.call_function(torch.neg, (relu,))
    return graph, x, relu, neg, graph.output(neg)


# --- construction and its errors


def _raising(name: str, act: Any) -> None:
    def run(fx: Any) -> Any:
        graph, *nodes = chain(fx)
        return act(fx, graph, *nodes)

    PROGRAMS[name] = run


for _name, _act in {
    "unknown op": lambda fx, g, x, r, n, o: g.create_node("foo", "x"),
    "function that is none": lambda fx, g, x, r, n, o: g.create_node("call_function", "x"),
    "method that is no name": lambda fx, g, x, r, n, o: g.create_node("call_method", torch.relu),
    "arguments in a list": lambda fx, g, x, r, n, o: g.create_node("call_function", torch.relu, [x]),
    "keywords in a list": lambda fx, g, x, r, n, o: g.create_node("call_function", torch.relu, (x,), [1]),
    "a failed node keeps its name": lambda fx, g, x, r, n, o: [
        pytest_raises(lambda: g.create_node("call_function", "abc")), g.placeholder("abc").name],
    "node of unknown op": lambda fx, g, x, r, n, o: fx.Node(g, "n", "foo", "x", (), {}),
    "erase a used node": lambda fx, g, x, r, n, o: g.erase_node(x),
    "erase from another graph": lambda fx, g, x, r, n, o: fx.Graph().erase_node(o),
    "move to another graph": lambda fx, g, x, r, n, o: x.prepend(fx.Graph().placeholder("y")),
    "update a missing argument": lambda fx, g, x, r, n, o: r.update_arg(3, 1),
    "insert an argument nowhere": lambda fx, g, x, r, n, o: r.insert_arg(5, 1),
    "insert before a foreign node": lambda fx, g, x, r, n, o: g.inserting_before(fx.Graph().placeholder("y")),
    "insert after a foreign node": lambda fx, g, x, r, n, o: g.inserting_after(fx.Graph().placeholder("y")),
    "find functions without target": lambda fx, g, x, r, n, o: g.find_nodes(op="call_function"),
    "compare with a number": lambda fx, g, x, r, n, o: x < 1,
    "map with no function": lambda fx, g, x, r, n, o: fx.map_arg((x,), 3),
    "meta onto meta": lambda fx, g, x, r, n, o: [
        n.meta.update(a=1), r.replace_all_uses_with(n, propagate_meta=True)],
    "no output": lambda fx, g, x, r, n, o: fx.Graph().output_node(),
    "module from a number": lambda fx, g, x, r, n, o: fx.GraphModule(3, g),
    "module without its target": lambda fx, g, x, r, n, o: [g.get_attr("a.b"), fx.GraphModule({}, g)],
    "module without its attribute": lambda fx, g, x, r, n, o: [g.get_attr("a.b"), fx.GraphModule(nn.Module(), g)],
    "graph that is none": lambda fx, g, x, r, n, o: setattr(fx.GraphModule({}, g), "graph", 3),
    "text that is not Python": lambda fx, g, x, r, n, o: [
        setattr(r, "args", (x, object())), fx.GraphModule({}, g)],
    "default before none": lambda fx, g, x, r, n, o: [
        setattr(x, "args", (1,)), x.append(g.placeholder("y")), fx.GraphModule({}, g)],
    "lint: order": lambda fx, g, x, r, n, o: [r.append(x), g.lint()],
    "lint: name": lambda fx, g, x, r, n, o: [setattr(n, "name", "x"), g.lint()],
    "lint: op": lambda fx, g, x, r, n, o: [setattr(n, "op", "foo"), g.lint()],
    "lint: graph": lambda fx, g, x, r, n, o: [setattr(n, "args", (fx.Graph().placeholder("q"),)), g.lint()],
    "lint: target": lambda fx, g, x, r, n, o: [fx.GraphModule({}, g), setattr(n, "target", "foo"), g.lint()],
    "lint: module": lambda fx, g, x, r, n, o: [
        fx.GraphModule({}, g), setattr(n, "op", "call_module"), setattr(n, "target", "foo"), g.lint()],
    "purity without owner": lambda fx, g, x, r, n, o: g.call_module("a").is_impure(),
}.items():  # fmt: skip
    _raising(_name, _act)


def pytest_raises(act: Any) -> str:
    try:
        act()
    except Exception as error:
        return type(error).__name__
    raise AssertionError("nothing was raised")


# --- edits


@program
def use_def(fx):
    graph, x, relu, neg, output = chain(fx)
    said = [list(x.users), relu.all_input_nodes]
    neg.args = (x, [relu, {"k": x}], slice(relu, None))
    said += [list(x.users), list(relu.users), neg.all_input_nodes, neg.args]
    neg.kwargs = {"a": output}
    neg.update_arg(0, relu)
    neg.update_kwarg("b", (x,))
    neg.insert_arg(0, 7)
    said += [list(x.users), list(relu.users), neg.all_input_nodes, neg.args, neg.kwargs, type(neg.args[2]).__name__]
    return [*said, str(graph)]


@program
def replacing(fx):
    graph, x, relu, neg, _output = chain(fx)
    with graph.inserting_after(relu):
        tanh = graph.call_function(torch.tanh, (relu,))
    said = [relu.replace_all_uses_with(tanh, lambda user: user is not tanh), list(relu.users), str(graph)]
    said.append(neg.replace_all_uses_with(relu, propagate_meta=False))
    neg.replace_input_with(tanh, x)
    return [*said, str(graph), list(tanh.users), graph.eliminate_dead_code(), str(graph)]


@program
def moving(fx):
    graph, x, relu, neg, _output = chain(fx)
    add = graph.call_function(operator.add, (relu, neg))
    relu.prepend(add)
    said = [list(graph.nodes)]
    neg.append(relu)
    relu.append(relu)
    neg.prepend(neg)
    said += [list(graph.nodes), relu < neg, neg < relu, add <= add, sorted([neg, relu, add, x]), x.next, relu.prev]
    return [*said, list(reversed(graph.nodes)), len(graph.nodes), neg.next.next.op]


@program
def insertion_points(fx):
    graph, _x, relu, *_rest = chain(fx)
    with graph.inserting_before():
        graph.call_function(torch.abs, (0,))
    with graph.inserting_after():
        graph.call_function(torch.abs, (1,))
    with graph.inserting_after(relu):
        for i in range(3):
            graph.call_function(torch.abs, (i,))
        with graph.inserting_before(relu):
            for i in range(3):
                graph.call_function(torch.exp, (i,))
        graph.call_function(torch.abs, (9,))
    graph.inserting_before(relu)
    graph.call_function(torch.abs, (10,))
    return str(graph)


@program
def erasing_while_iterating(fx):
    graph, x, *_rest = chain(fx)
    for i in range(10):
        graph.call_function(torch.add, (x, i))
    seen = []
    for node in graph.nodes:
        seen.append(node.name)
        if node.target is torch.add:
            following = node.next
            graph.erase_node(node)
            if following.op != "root" and following.args[1] % 3 == 0:
                graph.erase_node(following)
        elif node.target is torch.neg:
            with graph.inserting_after(node):
                graph.call_function(torch.exp, (x,))
    return seen, str(graph), len(graph.nodes)


@program
def erasing_twice(fx):
    graph = fx.Graph()
    node = graph.call_function(torch.add, (graph.placeholder("x"), [1]))
    graph.erase_node(node)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        graph.erase_node(node)
    return [str(w.message) for w in caught], node.args, node.all_input_nodes, len(graph.nodes)


@program
def finding(fx):
    graph, _x, relu, neg, _output = chain(fx)
    first = graph.find_nodes(op="call_function", target=torch.relu)
    with graph.inserting_before(relu):
        graph.call_function(torch.relu, (1,))
    neg.target = torch.relu
    said = [first, graph.find_nodes(op="call_function", target=torch.relu), graph.find_nodes(op="placeholder")]
    graph.erase_node(said[1][0])
    said += [graph.find_nodes(op="call_function", target=torch.relu), graph.find_nodes(op="call_module")]
    return [*said, graph.output_node(), graph.find_nodes(op="placeholder", target="y"), graph.find_nodes(op="foo")]


@program
def copying(fx):
    graph, x, relu, _neg, _output = chain(fx)
    relu.meta["a"] = [1]
    copied = copy.deepcopy(graph)
    other = fx.Graph()
    other.placeholder("relu")
    values = {}
    result = other.graph_copy(graph, values)
    again = other.graph_copy(graph, {x: next(iter(other.nodes))}, return_output_node=True)
    one = other.node_copy(relu, lambda node: values[node])
    return str(copied), next(iter(copied.find_nodes(op="call_function", target=torch.relu))).meta, str(other), [
        result, values, again, one, one.meta, relu.meta["a"] is one.meta["a"]]  # fmt: skip


@program
def dead_code(fx):
    said = []
    for make in (
        lambda g, x: g.call_function(torch.relu, (x,)),
        lambda g, x: g.call_function(torch.neg, (g.call_function(torch.relu, (x,)),)),
        lambda g, x: g.call_function(torch._assert, (x, "")),
        lambda g, x: g.call_function(torch.rand, (1,)),
        lambda g, x: g.call_function(torch.ops.aten.add_.Tensor, (x, 1)),
        lambda g, x: g.call_function(torch.ops.aten.rand.default, ([1],)),
        lambda g, x: g.call_function(operator.setitem, (x, 0, 1)),
        lambda g, x: g.call_method("add_", (x, 1)),
        lambda g, x: g.get_attr("a"),
    ):
        graph = fx.Graph()
        x = graph.placeholder("x")
        graph.placeholder("unused")
        node = make(graph, x)
        graph.output(x)
        said.append((node.is_impure(), node.is_impure(False), graph.eliminate_dead_code(), list(graph.nodes)))
    graph, *_rest = chain(fx)
    graph.call_function(torch.exp, (1,))
    return [*said, graph.eliminate_dead_code(lambda node: True), str(graph)]


@program
def hooks(fx):
    graph, x, relu, neg, _output = chain(fx)
    module = fx.GraphModule({}, graph)
    calls = []

    def replaced(old, new, user):
        calls.append(("replace", old.name, new, user.name))

    def created(node):
        calls.append(("create", node.name))

    def erased(node):
        calls.append(("erase", node.name))

    module._register_create_node_hook(created)
    module._register_erase_node_hook(erased)
    module._register_replace_node_hook(replaced)
    exp = graph.call_function(torch.exp, (x,))
    relu.replace_all_uses_with(exp)
    neg.replace_input_with(exp, x)
    relu.name = "renamed"
    x.name = "y"
    graph.erase_node(exp)
    relu._rename("sigmoid")
    module._unregister_create_node_hook(created)
    graph.call_function(torch.exp, (x,))
    with module._set_replace_hook(lambda old, new, user: calls.append("temporary")):
        neg.replace_input_with(x, relu)
    neg.replace_input_with(relu, x)
    return calls, str(graph)


# --- printed forms and code


def everything(fx):
    graph = fx.Graph()
    x, args, kwargs = graph.placeholder("x"), graph.placeholder("*args"), graph.placeholder("**kwargs")
    call = graph.call_function
    call(len, (Pair(x, 1),))
    call(len, ((x, [x, {"a": x}]),), {"k": {"b": [x]}})
    call(len, (Colour.RED, torch.float32, torch.device("cpu"), float("inf"), float("nan"), torch.strided, None, ...))
    call(len, (slice(1, x, None), range(3), "st\"r'\n", 1.5, 1j, b"a", True, torch.contiguous_format, -0.0, 1e30))
    call(len, (torch.ops.aten.add.Tensor, torch.ops.aten.add))
    call(torch.ops.aten.add.Tensor, (x, 1))
    call(len, ([], (), {}, [[]], ((),), (x,), [x], (None,), torch.Size([1, 2]), collections.OrderedDict(a=1)))
    graph.call_method("foo", (x,), {"a": 1})
    graph.call_method("f-g", (x,))
    call(getattr, (x, "a"))
    call(getattr, (x, "a b"))
    call(getattr, (x, "a", 1))
    call(user_function, (x,)).meta["is_wrapped"] = True
    call(user_function, (args, kwargs))
    for name in ("add", "neg", "getitem", "iadd", "setitem", "mod", "contains", "not_", "and_", "pow", "matmul", "ne"):
        count = 1 if name in ("neg", "not_") else 3 if name == "setitem" else 2
        call(getattr(operator, name), (x, 1, 2)[:count])
    call(operator.getitem, (x, (slice(None), 1)))
    call(operator.setitem, (x, (0, 1), x))
    call(operator.neg, (-1,))
    for function in (slice, list, nn.functional.relu, torch.Tensor.add, torch.device, torch._C._nn.gelu, typing.cast):
        call(function, (x, 1))
    graph.get_attr("a.0.b")
    graph.call_module("a.1", (x,), {"k": x})
    for kind in (typing.List[torch.Tensor], typing.Dict[str, typing.Tuple[int, user_function]], list[int], "text", Pair,  # noqa: UP006
                 typing.Optional[int], int | None, typing.Any, typing.List, None, torch.device, type(None),  # noqa: UP006, UP045
                 typing.Tuple[int, ...], typing.Union[int, str, torch.Tensor], torch.Tensor):  # noqa: UP006, UP007  # fmt: skip
        call(len, (x,)).type = kind
    graph.output({"a": x, "b": Pair(x, x)}, type_expr=typing.Dict[str, int])  # noqa: UP006
    return graph


@program
def printed_graph(fx):
    return str(everything(fx))


def _code(**options: Any) -> Any:
    def run(fx: Any) -> str:
        graph = everything(fx)
        tensors = [torch.empty(2, 3, device="meta"), torch.empty(2, 3).t(), 3]
        for i, node in enumerate(graph.nodes):
            if i % 4:
                node.meta["val"] = tensors[i % 3]
            if i % 5 > 1:
                node.stack_trace = f'  File "a.py", line {i // 3}, in forward\n    x = 1\n'
        code = graph.python_code("self", **options)
        return f"{code.src}\n{code._lineno_map}\n{code._prologue_start}\n{list(code.globals)}"

    return run


for _options in ({}, {"verbose": True}, {"colored": True}, {"expanded_def": True}, {"record_func": True},
                 {"verbose": True, "include_stride": True, "include_device": True, "colored": True},
                 {"verbose": True, "expanded_def": True, "record_func": True}):  # fmt: skip
    PROGRAMS[f"code {_options}"] = _code(**_options)


@program
def names_that_clash(fx):
    graph = fx.Graph()
    x = graph.placeholder("ir_programs_user_function")
    module = user_function.__module__.replace(".", "_")
    y = graph.create_node("call_function", user_function, (x,), name=f"{module}_user_function")
    z = graph.call_function(torch.relu, (y,))
    z.name = "len"
    graph.output(graph.call_function(len, (z,)))
    duplicate = graph.call_function(torch.relu, (x,))
    duplicate.name = x.name
    return graph.python_code("self").src


@program
def readable(fx):
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = fx.symbolic_trace(Block())
            self.second = Block()

        def forward(self, x):
            return self.second(self.first(x))

    class Tracer(fx.Tracer):
        def is_leaf_module(self, m, name):
            return True

    root = Outer()
    module = fx.GraphModule(root, Tracer().trace(root))
    return module.print_readable(print_output=False), str(module), repr(module)


@program
def modules(fx):
    module = fx.symbolic_trace(Block())
    said = [module.code, sorted(module.state_dict()), [name for name, _ in module.named_modules()], module._lineno_map]
    said += [module.add_submodule("q.r", nn.ReLU()), module.delete_submodule("q.z"), module.delete_submodule("scale"),
             module.add_submodule("scale.z", nn.ReLU()), module.add_submodule("extra.deep.er", nn.ReLU())]  # fmt: skip
    module.delete_all_unused_submodules()
    said += [[name for name, _ in module.named_modules()], type(module).__name__, module._get_name()]
    renamed = fx.GraphModule(module, module.graph, "Renamed")
    said += [type(renamed).__name__, renamed.graph.owning_module is renamed, renamed.training]
    for other in (copy.copy(renamed), copy.deepcopy(renamed), pickle.loads(pickle.dumps(renamed))):
        said += [
            type(other).__name__,
            other.code == renamed.code,
            other.meta,
            sorted(other.state_dict()),
            other.training,
        ]
    return said


@program
def code_generators(fx):
    class Lists(fx.CodeGen):
        def gen_fn_def(self, free_vars, maybe_return_annotation):
            return f"def forward(self, args){maybe_return_annotation}:\n    {', '.join(free_vars)} = args"

        def additional_globals(self):
            return [("seven", 7)]

        def process_inputs(self, *inputs):
            return inputs[0]

        def generate_output(self, output_args):
            return f"return [{output_args!r}, seven]"

        def process_outputs(self, outputs):
            return [outputs, 7]

    graph = fx.Graph()
    graph.output(graph.call_function(operator.add, (graph.placeholder("x"), graph.placeholder("y"))))
    graph.set_codegen(Lists())
    module = fx.GraphModule({}, graph)
    said = [module.code, module([1, 2]), module._lineno_map, graph.process_inputs([1, 2]), graph.process_outputs(3)]
    said += [copy.deepcopy(module)([1, 2])]
    graph.set_codegen(fx.CodeGen())
    module.recompile()
    said.append(module(1, 2))
    pieces = []

    def inserting(body):
        pieces.extend(body)
        return ["y = 0\n", *body[:2], "y = 5\n", *body[2:]]

    with graph.on_generate_code(lambda current: inserting):
        module.recompile()
        said += [module.code, module(1, 2), module._lineno_map, pieces]
    module.recompile()
    return [*said, module.code]


@program
def nested_inputs(fx):
    class Nested(nn.Module):
        def forward(self, x, y):
            return {"a": x["a"] + y, "b": [x["b"][0]]}

    module = fx.symbolic_trace(Nested(), concrete_args={"x": {"a": fx.PH, "b": [fx.PH]}})
    said = [module.code, str(module.graph), module.graph.process_inputs({"a": 1, "b": [2]}, 3)]
    said += [
        module.graph.process_outputs([1, 2]),
        module({"a": 1, "b": [2]}, 3),
        str(module._in_spec),
        module._lineno_map,
    ]
    return [*said, copy.deepcopy(module)({"a": 1, "b": [2]}, 3), module.print_readable(print_output=False)]


@program
def symbolic_readings(fx):
    graph = fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    x.meta["val"] = torch.empty(3, 4, device="meta")
    y.meta["example_value"] = torch.empty(5, device="meta")
    made = [graph.create_size_node(x, 0), graph.create_stride_node(x, 0), graph.create_storage_offset_node(x)]
    made += [graph.create_size_node(y, 0), graph.create_stride_node(y, 0)]
    return str(graph), [node.meta for node in made], pytest_raises(lambda: graph.create_size_node(x, 7))


@program
def boxed(fx):
    graph = fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    graph.output(graph.call_function(operator.add, (x, y)))
    graph.set_codegen(fx.graph._BoxedCodeGen())
    module = fx.GraphModule({}, graph)
    arguments = [1, 2]
    return module.code, module(arguments), arguments, module._boxed_call, module._lineno_map
