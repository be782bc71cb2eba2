"""Runs the tables of programs with both libraries and describes what came out, so that it can be compared."""

import copy
import importlib.util
import itertools
import pathlib
import re
import sys
import warnings

import torch
import torch.fx

import fxlib

HERE = pathlib.Path(__file__).parent
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))

from tables import Case  # noqa: E402

LIBRARIES = {"torch.fx": torch.fx, "fxlib": fxlib}
TABLES = tuple(file.stem for file in sorted(HERE.glob("cases_*.py")))


def load(table, library):
    """The CASES of a file, executed with ``fx`` meaning the given library."""
    name = f"{table}_for_{library.replace('.', '_')}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, HERE / f"{table}.py")
        module = importlib.util.module_from_spec(spec)
        module.fx = LIBRARIES[library]
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name].CASES


def plain(text):
    """``text`` without expected differences: the library's name, the table's module name, addresses."""
    text = text.replace("fxlib", "torch.fx").replace("torch_fx", "torch.fx")
    text = text.replace("torch.fx_symbolic_trace", "torch.fx._symbolic_trace")
    text = text.replace("torch.fx.tracer_base", "torch.fx.proxy")
    text = re.sub(r"torch\.fx\.(wrapping|root_arguments|tracer|proxyable)\b", "torch.fx._symbolic_trace", text)
    text = re.sub(r"(cases\w*)_for_torch\.fx", r"\1", text)
    text = text.replace("torch.fx__symbolic_trace__assert", "torch.fx._symbolic_trace._assert")
    return re.sub(r"0x[0-9a-f]+", "0x", text)


def describe(graph):
    """Everything that a user can see of a graph."""
    rows = []
    for node in graph.nodes:
        target = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
        rows.append(
            (
                node.op, node.name, target, plain(repr(node.args)), plain(repr(node.kwargs)), plain(str(node.type)),
                [(key, path, kind.__name__) for key, (path, kind) in node.meta.get("nn_module_stack", {}).items()],
                sorted(set(node.meta) - {"nn_module_stack"}), [user.name for user in node.users],
            )
        )  # fmt: skip
    return rows


def number_constants(graph, root):
    """Numbers the constants that the trace stored on the root as fxlib does, by the next free number.

    After a taken one, torch.fx's next number depends on earlier traces in the process.
    """
    added = {}
    for node in graph.nodes:
        if node.op == "get_attr" and node.target.startswith("_tensor_constant") and not hasattr(root, node.target):
            free = (f"_tensor_constant{n}" for n in itertools.count())
            name = next(name for name in free if not hasattr(root, name) and name not in added.values())
            name = added.setdefault(node.target, name)
            node.name, node.target = node.name.replace(node.target, name), name


def outcome(library, case, tracer_class=None):
    """("traced", graph, code, warnings) or ("failed", class, message)."""
    root, concrete_args = (case.root, case.concrete_args) if isinstance(case, Case) else (case, None)
    before = copy.copy(root)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            graph = (tracer_class or library.Tracer)().trace(root, concrete_args)
        except Exception as error:
            return "failed", type(error).__name__, plain(str(error))
    if library is torch.fx:
        number_constants(graph, before)
    texts = [plain(str(w.message)) for w in caught]
    return "traced", describe(graph), plain(graph.python_code("self").src), texts
