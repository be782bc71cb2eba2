"""Turns a Report into the record: plain data that every view and every format shows.

Runs in the user's interpreter: standard library and fxlib.
"""

from __future__ import annotations

from typing import Any

from . import costs

_VALUE_LENGTH = 500


def span(value: Any) -> dict[str, Any] | None:
    """A ``fxlib`` span as data."""
    if value is None:
        return None
    return {
        "file": value.file,
        "line": value.line,
        "column": value.column,
        "end_line": value.end_line,
        "end_column": value.end_column,
    }


def finding(value: Any, target: str | None) -> dict[str, Any]:
    """A ``fxlib.diagnosis`` finding as data, without fixes."""
    return {
        "code": value.code,
        "severity": value.severity,
        "message": value.message,
        "span": span(value.span),
        "call_path": [span(each) for each in value.call_path],
        "node": value.node,
        "data": {
            name: each for name, each in value.data.items() if isinstance(each, (str, int, float, bool, type(None)))
        },
        "target": target,
        "related": [
            {"message": each.message, "span": span(each.span), "kind": each.kind}
            for each in value.related
            if each.kind != "call" or _of_user(each.span)
        ],
        "fixes": [],
        "tags": [],
        "source": "trace",
    }


def _of_user(place: Any) -> bool:
    """Whether a step of a call path lies in the user's files: one inside a library says nothing to them."""
    from fxlib.diagnosis.engine.packages import is_installed

    return place is not None and not is_installed(place.file)


def untaken(values: Any) -> list[dict[str, Any]]:
    return [{"span": span(each.span), "reason": each.reason} for each in values]


def baked(values: Any) -> list[dict[str, Any]]:
    return [{"span": span(each.span), "text": each.text, "value": short(each.value)} for each in values]


def details(report: Any, root: Any) -> dict[str, Any]:
    """The part of a target's record that takes the most time: the graph and the code that it generates."""
    text, lines = code(report.graph_module, report.graph, root)
    graph_nodes = nodes(report.graph, root)
    return {"nodes": graph_nodes, "modules": module_types(root), "code": text, "code_lines": lines}


def nodes(graph: Any, root: Any) -> list[dict[str, Any]]:
    """Every node of the graph: what it does, where it was written, and what is known of its value."""
    if graph is None:
        return []
    modules = dict(root.named_modules()) if hasattr(root, "named_modules") else {}
    return [_node(node, modules, root) for node in graph.nodes]


def _node(node: Any, modules: dict[str, Any], root: Any) -> dict[str, Any]:
    module = modules.get(node.target) if node.op == "call_module" else None
    stack = node.meta.get("nn_module_stack") or {}
    if module is not None:
        path, kind = str(node.target), type(module).__name__
    elif stack:
        path, entry = list(stack.items())[-1]
        entry = entry[-1] if isinstance(entry, tuple) else entry
        kind = entry if isinstance(entry, str) else getattr(entry, "__name__", type(entry).__name__)
        kind = kind.rpartition(".")[2]
    else:
        path, kind = "", ""
    value = node.meta.get("val")
    shape, dtype = _tensor(value)
    if shape is None:
        shape, dtype = _tensor(node.meta.get("tensor_meta"))
    return {
        "name": node.name,
        "op": node.op,
        "target": target_name(node.target),
        "args": short(_arguments(node)),
        "inputs": [each.name for each in node.all_input_nodes],
        "span": span(getattr(node, "span", None)),
        "call_path": [span(each) for each in getattr(node, "call_path", ()) or ()],
        "module_path": path,
        "module_type": kind,
        "shape": shape,
        "dtype": dtype,
        "value": "" if value is None or shape is not None else short(repr(value)),
        "params": sum(each.numel() for each in module.parameters()) if module is not None else 0,
        "flops": costs.flops(node, root),
    }


def module_types(root: Any) -> dict[str, str]:
    """The class name of every module below the root, by its path."""
    if not hasattr(root, "named_modules"):
        return {}
    return {path: type(module).__name__ for path, module in root.named_modules() if path}


def _size(value: Any) -> int | str:
    return value if isinstance(value, int) else str(value)


def _tensor(value: Any) -> tuple[list[int | str] | None, str | None]:
    """Shape and dtype of what describes a tensor.  Types are compared, not values: a proxy answers every question."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if not isinstance(shape, tuple):
        return None, None
    text = str(dtype).removeprefix("torch.") if type(dtype).__name__ == "dtype" else None
    return [_size(each) for each in shape], text


def _arguments(node: Any) -> str:
    parts = [repr(each) for each in node.args]
    parts += [f"{name}={value!r}" for name, value in node.kwargs.items()]
    return ", ".join(parts)


def target_name(target: Any) -> str:
    """``torch.relu``, ``operator.add``, ``layer1.0.conv1``: as it is written, never an address."""
    if isinstance(target, str):
        return target
    name = getattr(target, "__name__", None)
    if name is None:
        return short(repr(target))
    module = getattr(target, "__module__", None) or ""
    module = {"_operator": "operator", "builtins": "", "torch._C._nn": "torch.nn.functional"}.get(module, module)
    if not module and hasattr(target, "__objclass__"):
        module = f"torch.{target.__objclass__.__name__.lstrip('_')}"
    if module.startswith("torch._C"):
        module = "torch"
    return f"{module}.{name}" if module else name


def code(graph_module: Any, graph: Any, root: Any) -> tuple[str, dict[str, list[int]]]:
    """The generated forward, and the lines (from 1) that each node takes in it."""
    if graph_module is not None:
        text = graph_module.code.lstrip("\n")
    elif graph is not None:
        try:
            text = graph.python_code("self").src.lstrip("\n")
        except Exception:
            # A partial graph may hold what no source can express.
            return "", {}
    else:
        return "", {}
    return text, _code_lines(text, graph if graph is not None else graph_module.graph)


def _code_lines(text: str, graph: Any) -> dict[str, list[int]]:
    lines = text.splitlines()
    found: dict[str, list[int]] = {}
    header = next((number for number, line in enumerate(lines, 1) if line.lstrip().startswith("def ")), 1)
    at = header + 1
    for node in graph.nodes:
        if node.op == "placeholder":
            found[node.name] = [header, header]
            continue
        for number in range(at, len(lines) + 1):
            line = lines[number - 1].strip()
            starts = "return" if node.op == "output" else node.name
            if line == starts or line.startswith((f"{starts} ", f"{starts}:", f"{starts};")):
                found[node.name] = [number, number]
                at = number + 1
                break
    return found


def short(text: str) -> str:
    return text if len(text) <= _VALUE_LENGTH else text[: _VALUE_LENGTH - 1] + "…"
