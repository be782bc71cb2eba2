"""Small parts on many inputs: whatever they are given, torch.fx's counterpart says the same."""

import copy
import functools
import re
import warnings

import pytest
import torch
import torch.fx
import torch.fx._pytree
import torch.fx.graph
import torch.fx.graph_module
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils import _pytree as pytree

import fxlib
import fxlib._pytree
import fxlib.graph
import fxlib.graph_module
import fxlib.node

from .libraries import plain

FEW = settings(max_examples=200, deadline=None)


def said(function, *args):
    try:
        return plain(repr(function(*args)))
    except Exception as error:
        return plain(f"{type(error).__name__}: {error}")


# --- paths

NAMES = st.sampled_from(["a", "b", "weight", "bias", "0", "plain", "none"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(".".join)


def tree():
    root = nn.Module()
    root.a = nn.Sequential(nn.Linear(1, 1, bias=False), nn.ReLU())
    nn.init.ones_(root.a[0].weight)
    root.b = nn.Module()
    root.b.a = root.a
    root.b.plain = 3
    root.weight = nn.Parameter(torch.ones(1))
    root.register_buffer("bias", torch.zeros(1))
    root.none = None
    return root


def contents(module):
    return [
        sorted((name, type(child).__name__) for name, child in module.named_modules() if name),
        sorted(name for name, _ in module.named_parameters()),
        sorted(name for name, _ in module.named_buffers()),
    ]


VALUES = {
    "module": nn.ReLU(),
    "parameter": nn.Parameter(torch.ones(2)),
    "tensor": torch.ones(2),
    "number": 3,
}


@FEW
@given(st.lists(st.tuples(PATHS, st.sampled_from([*VALUES])), max_size=4))
def test_attributes_are_put_at_paths(entries):
    seen = []
    for library in (torch.fx, fxlib):
        root, values = tree(), copy.deepcopy(VALUES)
        put = library.graph_module._assign_attr
        texts = [said(put, values[kind], root, path) for path, kind in entries]
        seen.append((texts, contents(root)))
    assert seen[0] == seen[1]


@FEW
@given(st.lists(st.tuples(st.sampled_from(["add", "delete", "get", "remove"]), PATHS), max_size=5))
def test_attributes_are_found_and_deleted(steps):
    seen = []
    for library in (torch.fx, fxlib):
        torch.manual_seed(0)  # values are compared, too
        root = tree()
        graph = library.Graph()
        for name in ("a", "b", "weight", "bias"):
            graph.create_node("get_attr", name)
        graph.output(None)
        gm = library.GraphModule(root, graph)
        functions = {
            "add": lambda path, gm=gm: gm.add_submodule(path, nn.Tanh()),
            "delete": gm.delete_submodule,
            "get": lambda path, gm=gm, library=library: library.graph_module._get_attr(gm, path),
            "remove": lambda path, gm=gm, library=library: library.graph_module._del_attr(gm, path),
        }
        # Which error a missing attribute raises is not the same.
        texts = [said(functions[step], path) for step, path in steps]
        texts = [re.sub(r"^(Attribute|Assertion)Error.*", "Error", text) for text in texts]
        seen.append((texts, contents(gm)))
    assert seen[0] == seen[1]
    for _, path in steps:
        there = "Error" not in said(lambda path=path: functools.reduce(getattr, path.split("."), gm))
        assert fxlib.graph_module._has_attr(gm, path) is there


@FEW
@given(st.lists(st.tuples(st.sampled_from(["get_attr", "call_module"]), PATHS), max_size=4))
def test_lint_says_where_a_path_ends(targets):
    seen = []
    for library in (torch.fx, fxlib):
        graph = library.Graph()
        owner = library.GraphModule(tree(), library.Graph())
        for name, child in tree().named_children():
            owner.add_module(name, child)
        for op, path in targets:
            graph.create_node(op, path)
        graph.owning_module = owner
        seen.append(said(graph.lint))
    assert seen[0] == seen[1]


# --- arguments

LEAVES = st.sampled_from([1, 2.5, "s", None, True, torch.float32, "node"])
ARGUMENTS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.sampled_from(["k", "l"]), inner, max_size=2),
        st.tuples(inner, inner, inner).map(lambda parts: slice(*map(repr, parts))),
        st.tuples(inner, inner).map(lambda parts: torch.return_types.max(parts)),
    ),
    max_leaves=8,
)


def with_nodes(argument, node):
    """The argument with the node for every ``"node"``; containers are made by hand, since maps are what is tested."""
    if argument == "node":
        return node
    if type(argument) is tuple:
        return tuple(with_nodes(part, node) for part in argument)
    if isinstance(argument, list):
        return [with_nodes(part, node) for part in argument]
    if isinstance(argument, dict):
        return {key: with_nodes(part, node) for key, part in argument.items()}
    return argument


@FEW
@given(ARGUMENTS)
def test_arguments_are_kept_mapped_and_pickled_alike(argument):
    seen = []
    for library in (torch.fx, fxlib):
        graph = library.Graph()
        x, y = graph.placeholder("x"), graph.placeholder("y")
        given_one = with_nodes(argument, x)
        node = graph.call_function(len, (given_one, 1), {"k": given_one})
        texts = [repr(node.args), repr(node.kwargs), repr(node.all_input_nodes), repr(list(x.users)), str(graph)]
        texts.append(said(library.node.map_aggregate, given_one, lambda leaf: (leaf, 0)))
        texts.append(said(library.map_arg, given_one, lambda found: found.name))
        node.replace_input_with(x, y)
        texts += [repr(node.args), repr(list(x.users)), repr(list(y.users)), str(copy.deepcopy(graph))]
        seen.append([plain(text) for text in texts])
    assert seen[0] == seen[1]


STRUCTURES = st.recursive(
    st.just(0),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.sampled_from(["k", "l", "m"]), inner, max_size=3),
    ),
    max_leaves=8,
)


@FEW
@given(STRUCTURES, STRUCTURES)
def test_flattening_by_a_structure(value, structure):
    numbers = iter(range(100))
    value = pytree.tree_map(lambda _: next(numbers), value)
    spec = pytree.tree_flatten(structure)[1]
    assert said(fxlib._pytree.tree_flatten_spec, value, spec) == said(torch.fx._pytree.tree_flatten_spec, value, spec)


# --- text

FRAME_LINES = st.sampled_from(
    [
        '  File "a.py", line 3, in forward',
        '  File "b c.py", line 41, in <lambda> ',
        "    x = f(y)  ",
        "",
        "Traceback:",
        "  File oddly",
    ]
)


@FEW
@given(st.lists(FRAME_LINES, max_size=6).map("\n".join), st.sampled_from(["", "a.py"]))
def test_stack_traces_are_parsed(trace, only):
    def wanted(file, name, code):
        return only in file

    for given_filter in (None, wanted):
        texts = []
        for library in (torch.fx, fxlib):
            found = library.graph._parse_stack_trace(trace, given_filter)
            texts.append(found and (found.get_summary_str(), found.file, found.lineno, found.name, found.code))
        assert texts[0] == texts[1]


PARAMETERS = st.lists(st.sampled_from(["x", "y : int", "z = 3", "w : torch.Tensor = 4", "v  # first"]), max_size=4)
KINDS = st.sampled_from(["plain", "boxed", "tree", "tree of a method"])
RESULTS = st.one_of(st.just("x"), st.lists(st.sampled_from(["x", "y"]), max_size=3), st.just(("x",)), st.just(()))


@FEW
@given(
    PARAMETERS, RESULTS, st.booleans(), st.booleans(), st.sampled_from(["plain", "boxed", "tree", "tree of a method"])
)
def test_heads_and_ends_of_functions(parameters, result, expanded, described, kind):
    # torch.fx leaves comments in the names that a boxed function reads.
    assume(kind != "boxed" or "v  # first" not in parameters)
    # Nor does it take defaults out of the lines that unpack a tree.
    assume(not kind.startswith("tree") or not any("=" in each for each in parameters))
    seen = []
    for library in (torch.fx, fxlib):
        module = library.graph
        if kind.startswith("tree"):
            names = (["self"] if "method" in kind else []) + ["a", "b"]
            spec = pytree.tree_flatten((tuple(names), {}))[1]
            out = pytree.tree_flatten({"r": 0})[1] if described else None
            codegen = module._PyTreeCodeGen(module._PyTreeInfo(names, spec, out))
        else:
            codegen = module.CodeGen() if kind == "plain" else module._BoxedCodeGen()
        descs = [f"number {i}" for i, _ in enumerate(result)] if described and not isinstance(result, str) else None
        seen.append(
            [
                said(lambda codegen=codegen: codegen.gen_fn_def(list(parameters), " -> int", expanded_def=expanded)),
                said(lambda codegen=codegen, descs=descs: codegen.generate_output(result, descs=descs)),
                said(lambda codegen=codegen, descs=descs: codegen.generate_output(result, descs=descs, repr_fn=str)),
                said(codegen.process_outputs, [7]),
                said(codegen.process_outputs, 7),
            ]
        )
    assert seen[0] == seen[1]


TENSORS = [torch.ones(2, 3), torch.ones(2, 3, dtype=torch.float16).t(), torch.ones(()), nn.Parameter(torch.ones(1)), 3,
           torch.ones(2).to_sparse(), (torch.ones(1),)]  # fmt: skip


@pytest.mark.parametrize("key", ["val", "tensor_meta", "example_value"])
def test_nodes_with_what_is_known_of_their_values(key):
    seen = []
    for library in (torch.fx, fxlib):
        graph = library.Graph()
        x = graph.placeholder("x")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            nodes = [x, graph.call_function(len, (x,)), graph.call_method("relu", (x,)), graph.get_attr("a")]
            nodes += [graph.call_module("b", (x,)), graph.call_function(len, (x,), type_expr=int), graph.output(x)]
        texts = []
        for value in TENSORS:
            for node in nodes:
                node.meta[key] = value
                texts.append(said(lambda node=node: node.format_node(include_tensor_metadata=True)))
        seen.append(texts)
    assert seen[0] == seen[1] and any('Tensor "f16[3, 2][1, 3]cpu"' in text for text in seen[1])


def test_a_body_transformer_stays_or_goes():
    seen = []
    for library in (torch.fx, fxlib):
        graph = library.Graph()
        graph.output(graph.placeholder("x"))
        texts = []
        with graph.on_generate_code(lambda former: lambda lines: ["a = 1\n", *lines]):
            texts.append(graph.python_code("self").src)
            graph.on_generate_code(lambda former: lambda lines: [*former(lines), "# last\n"])
            texts.append(graph.python_code("self").src)
        texts.append(graph.python_code("self").src)
        graph.on_generate_code(lambda former: lambda lines: [*lines, f"# after {former}\n"])
        texts.append(graph.python_code("self").src)
        seen.append(texts)
    assert seen[0] == seen[1]
