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

TOOL = "a tool inside torch: convert with interop.to_torch_fx, use it there, convert back"
COMPILER = "a part of torch.compile"

# Modules of torch.fx without a counterpart, and why.
LEFT_OUT = {
    "_graph_pickler": COMPILER,
    "_lazy_graph_module": COMPILER,
    "_utils": COMPILER,
    "annotate": TOOL,
    "experimental._backward_state": COMPILER,
    "experimental._config": COMPILER,
    "experimental._constant_symnode": COMPILER,
    "experimental._dynamism": COMPILER,
    "experimental._size_hinting": COMPILER,
    "experimental.accelerator_partitioner": TOOL,
    "experimental.debug": TOOL,
    "experimental.dynamic_spec": COMPILER,
    "experimental.graph_gradual_typechecker": TOOL,
    "experimental.merge_matmul": TOOL,
    "experimental.meta_tracer": TOOL,
    "experimental.migrate_gradual_types": TOOL,
    "experimental.partitioner_utils": TOOL,
    "experimental.recording": COMPILER,
    "experimental.refinement_types": TOOL,
    "experimental.rewriter": TOOL,
    "experimental.schema_type_annotation": TOOL,
    "experimental.sym_node": COMPILER,
    "experimental.unification": TOOL,
    "experimental.unify_refinements": TOOL,
    "experimental.validator": COMPILER,
    "passes._tensorify_python_scalars": COMPILER,
    "passes.annotate_getitem_nodes": TOOL,
    "passes.backends": COMPILER,
    "passes.graph_manipulation": TOOL,
    "passes.graph_transform_observer": TOOL,
    "passes.net_min_base": TOOL,
    "passes.param_fetch": TOOL,
    "passes.pass_manager": "superseded by passes.infra.pass_manager",
    "passes.regional_inductor": COMPILER,
    "passes.regional_inductor_invoke_subgraph": COMPILER,
    "passes.runtime_assert": COMPILER,
    "passes.splitter_base": TOOL,
    "passes.tests": "tests",
}
# Names without a counterpart, and why.
NAMES_LEFT_OUT = {
    ("_symbolic_trace", ""): {"is_fx_tracing_warning": "the text of a warning"},
    ("experimental.optimization", ""): dict.fromkeys(
        (
            "MklSubgraph",
            "UnionFind",
            "extract_subgraph",
            "gen_mkl_autotuner",
            "mkldnn_map",
            "mkldnn_supported",
            "mkldnn_supported_unknown",
            "modules_to_mkldnn",
            "reset_modules",
            "use_mkl_length",
        ),
        "groups of layers in MKL-DNN's layout; here layers have packed weights instead",
    ),
    ("passes.split_utils", ""): {"Component": "notes of split_by_tags", "move_non_tensor_nodes_on_boundary": TOOL},
    ("passes.tools_common", ""): {"FxNetAccFusionsFinder": TOOL},
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
