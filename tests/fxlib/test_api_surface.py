"""Every public name of torch.fx has a counterpart in fxlib with the same parameters."""

import importlib
import inspect
import pkgutil
import subprocess
import sys
import warnings

import pytest
import torch.fx

import fxlib

# Modules of torch.fx without a counterpart, and why.
LEFT_OUT = {
    "_graph_pickler": "the cache format of torch.compile; internal",
    "experimental._backward_state": "a value that torch.compile passes through its graphs; internal",
    "experimental._config": "settings of torch's symbolic shapes; one set for both libraries",
    "experimental._constant_symnode": "part of torch's symbolic numbers; internal",
    "experimental._dynamism": "compares examples for torch.compile; internal",
    "experimental._size_hinting": "part of torch's symbolic shapes; internal",
    "experimental.dynamic_spec": "arguments of torch.compile; no part of graphs",
    "experimental.migrate_gradual_types": "solves for gradual types with z3; graph_gradual_typechecker does without",
    "experimental.recording": "replays torch's symbolic shapes; internal",
    "experimental.unification.dispatch": "of multipledispatch",
    "experimental.unification.match": "dispatch by patterns; nothing in torch.fx uses it",
    "experimental.unification.more": "unifies objects by their attributes; nothing in torch.fx uses it",
    "experimental.unification.multipledispatch": "another library, kept there by copy",
    "experimental.unification.unification_tools": "another library, kept there by copy",
    "experimental.unification.utils": "sorting and hashing for multipledispatch",
    "experimental.validator": "checks torch's symbolic shapes with the z3 solver; internal",
    "passes._tensorify_python_scalars": "a pass of torch.compile on Dynamo's graphs; internal",
    "passes.backends": "CUDA graphs of torch.compile",
    "passes.regional_inductor": "a part of torch.compile",
    "passes.regional_inductor_invoke_subgraph": "a part of torch.compile",
    "passes.runtime_assert": "inserts torch.export's assertions; internal",
    "passes.tests": "tests",
}
# Names without a counterpart, and why.
NAMES_LEFT_OUT = {
    ("experimental.unification.core", ""): {"unify": "dispatches on any arguments there; a plain function here"},
    ("experimental.unification.variable", ""): dict.fromkeys(
        ("isvar", "var", "vars"), "dispatch on any arguments there, or give the function that one wants to call"
    ),
    ("_symbolic_trace", ""): {"is_fx_tracing_warning": "the text of a warning"},
    ("tensor_type", "TensorType"): {"dims": "an attribute of instances there as well"},
}


def modules():
    for found in pkgutil.walk_packages(torch.fx.__path__, "torch.fx."):
        name = found.name.removeprefix("torch.fx.")
        if not any(name == left or name.startswith(f"{left}.") for left in LEFT_OUT):
            yield name


def public_names(thing, owner):
    named = getattr(thing, "__all__", ())
    for name, value in vars(thing).items():
        if name in named or (not name.startswith("_") and getattr(value, "__module__", None) == owner):
            yield name, value


def parameters(function):
    try:
        return [(p.name, p.kind) for p in inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):
        return None


@pytest.mark.parametrize("name", modules())
def test_module(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = importlib.import_module(f"torch.fx.{name}")
    ours = importlib.import_module(f"fxlib.{name}")
    missing = []
    for public, value in public_names(theirs, theirs.__name__):
        if public in NAMES_LEFT_OUT.get((name, ""), {}):
            continue
        found = getattr(ours, public, None)
        if found is None:
            missing.append(public)
            continue
        if callable(value) and parameters(value) is not None and not inspect.isclass(value):
            assert parameters(found) == parameters(value), public
        if inspect.isclass(value):
            for attribute, member in vars(value).items():
                if attribute.startswith("_") or attribute in NAMES_LEFT_OUT.get((name, public), {}):
                    continue
                if not hasattr(found, attribute):
                    missing.append(f"{public}.{attribute}")
                elif inspect.isfunction(member):
                    assert parameters(getattr(found, attribute)) == parameters(member), f"{public}.{attribute}"
    assert not missing


def test_package():
    public = {name for name in vars(torch.fx) if not name.startswith("_")} - {"experimental"}
    assert not {name for name in public if not hasattr(fxlib, name)}
    for name in torch.fx.__all__ if hasattr(torch.fx, "__all__") else ("Graph", "Node", "Proxy", "Tracer", "wrap"):
        assert hasattr(fxlib, name), name


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("_symbolic_trace", "Graph GraphModule ParameterProxy Proxy TracerBase base_types map_aggregate"),
        ("passes.dialect.common.cse_pass", "inplace_ops rand_ops"),
        ("passes.graph_drawer", "HAS_PYDOT"),
        ("passes.split_utils", "CALLABLE_NODE_OPS NodeList"),
        ("passes.utils.fuser_utils", "NodeList NodeSet legalize_graph"),
    ],
)
def test_names_that_another_file_defines(module, names):
    theirs, ours = importlib.import_module(f"torch.fx.{module}"), importlib.import_module(f"fxlib.{module}")
    for name in names.split():
        assert hasattr(theirs, name) and hasattr(ours, name), name
    for name in ("inplace_ops", "rand_ops", "base_types", "CALLABLE_NODE_OPS"):
        assert name not in names.split() or getattr(ours, name) == getattr(theirs, name)


def test_what_is_left_out_exists_there():
    for name in LEFT_OUT:
        assert importlib.util.find_spec(f"torch.fx.{name}") is not None, name


IMPORTED_ALONG = """
import sys, types
import {library} as root
def walk(module, path, depth):
    for name in list(vars(module)) if depth else []:
        found = vars(module)[name]
        if isinstance(found, types.ModuleType) and found.__name__ == f"{{module.__name__}}.{{name}}":
            print(path + name)
            walk(found, path + name + ".", depth - 1)
walk(root, "", 3)
"""


def test_modules_that_need_no_import_of_their_own():
    """``import torch.fx`` brings submodules along, so programs write ``fx.passes.shape_prop.ShapeProp``."""
    python = [sys.executable, "-c"]
    source = IMPORTED_ALONG.format(library="torch.fx")
    names = subprocess.run([*python, source], capture_output=True, text=True, check=True, timeout=300).stdout.split()
    wanted = [n for n in names if not any(n == left or n.startswith(f"{left}.") for left in LEFT_OUT)]
    assert {"_symbolic_trace", "passes.shape_prop", "passes.infra.pass_base"} <= set(wanted)
    ask = f"""
import operator, fxlib
for name in {wanted}:
    operator.attrgetter(name)(fxlib)
for missing in (fxlib, fxlib.passes, fxlib.experimental):
    assert not hasattr(missing, "no_such_module") and not hasattr(missing, "__no_such__")
"""
    subprocess.run([*python, ask], check=True, timeout=300)
