"""Turns what a diagnosis reports into entries of the record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fxlens import record
from fxlens.record import Baked, Edit, Finding, Fix, Graph, Node, Span, Untaken, span_of

from . import costs

_VALUE_LENGTH = 500


def finding(value: Any, target: str | None, fixes: Sequence[Fix] = ()) -> Finding:
    """A finding of fxlib's as data."""
    return record.finding(
        value.code,
        value.severity,
        value.message,
        span_of(value.span),
        target=target,
        call_path=_path(value.call_path),
        node=value.node,
        data=value.data,
        captures=value.data.get("captures"),
        severities=value.data.get("severities"),
        related=[
            record.related(each.message, span_of(each.span), each.kind)
            for each in value.related
            if each.kind != "call" or _of_user(each.span)
        ],
        fixes=fixes,
    )


def fix(value: Any, capture: str = "fx") -> Fix:
    """A fix of fxlib's as data."""
    return {
        "id": value.id, "title": value.title, "kind": value.kind, "capture": capture, "preferred": value.preferred,
        "checked": value.checked, "assumes": value.hazard, "note": value.note,
        "edits": [_edit(each) for each in value.edits],
    }  # fmt: skip


def _edit(value: Any) -> Edit:
    span: Span = span_of(value)
    return {**span, "text": value.text}


def _path(spans: Iterable[Any]) -> list[Span]:
    return [span_of(each) for each in spans if each is not None]


def _of_user(place: Any) -> bool:
    """Whether a step of a call path is in the user's files; steps inside a library do not help the user."""
    from fxlib.diagnosis.engine.packages import is_installed

    return place is not None and not is_installed(place.file)


def untaken(values: Iterable[Any]) -> list[Untaken]:
    return [{"span": span_of(each.span), "reason": each.reason} for each in values]


def baked(values: Iterable[Any]) -> list[Baked]:
    return [{"span": span_of(each.span), "text": each.text, "value": short(each.value)} for each in values]


def graph(report: Any, root: Any) -> Graph:
    """The slowest part of a target's record: the graph and its generated code."""
    text, lines = code(report.graph_module, report.graph)
    return {
        "nodes": nodes(report.graph, root, report.returned),
        "modules": module_types(root),
        "code": text,
        "code_lines": lines,
    }


def nodes(graph: Any, root: Any, returned: Mapping[str, Any] | None = None) -> list[Node]:
    """Every node of the graph: its operation, its place in the source, and its known value. ``returned`` is that of the
    report."""
    if graph is None:
        return []
    from fxlib.ir.spelling import target_name

    modules = dict(root.named_modules()) if hasattr(root, "named_modules") else {}
    given = returned or {}
    return [_node(node, target_name(node.target), modules, root, given.get(node.name, ())) for node in graph.nodes]


def _node(node: Any, target: str, modules: Mapping[str, Any], root: Any, returned: Iterable[Any]) -> Node:
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
    shape, dtype = tensor(value)
    if shape is None:
        shape, dtype = tensor(node.meta.get("tensor_meta"))
    path_here = getattr(node, "call_path", ()) or ()
    return {
        "name": node.name,
        "op": node.op,
        "target": target,
        "args": short(_arguments(node)),
        "inputs": [each.name for each in node.all_input_nodes],
        "span": span_of(getattr(node, "span", None)),
        "call_path": _path(path_here),
        "returned": {str(path_here.index(span)): names for span, names in returned if span in path_here},
        "module_path": path,
        "module_type": kind,
        "settings": _settings(module),
        "shape": shape,
        "symbolic": None,
        "dtype": dtype,
        "structure": structure(value),
        "value": "" if value is None or shape is not None else short(repr(value)),
        "params": sum(each.numel() for each in module.parameters()) if module is not None else 0,
        "flops": costs.flops(node, root),
        "predicted": None,
    }


def _settings(module: Any) -> str:
    try:
        return short(" ".join(module.extra_repr().split())) if module is not None else ""
    except Exception:  # a leaf module of the user's
        return ""


def module_types(root: Any) -> dict[str, str]:
    """The class name of every module below the root, by its path."""
    if not hasattr(root, "named_modules"):
        return {}
    return {path: type(module).__name__ for path, module in root.named_modules() if path}


def _size(value: Any) -> int | str:
    return value if isinstance(value, int) else str(value)


def tensor(value: Any) -> tuple[list[int | str] | None, str | None]:
    """Shape and dtype of an object that describes a tensor. Its type is checked, since a proxy has every attribute."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if not isinstance(shape, tuple):
        return None, None
    text = str(dtype).removeprefix("torch.") if type(dtype).__name__ == "dtype" else None
    return [_size(each) for each in shape], text


def structure(value: Any) -> str:
    """``(f32[2, 8], i64[2, 8])`` for a tuple, list or dict with tensors; otherwise empty."""
    found = False

    def text(part: Any, depth: int) -> str:
        nonlocal found
        shape, dtype = tensor(part)
        if shape is not None:
            found = True
            return record.tensor_text(shape, dtype)
        if depth == 4 or not isinstance(part, (tuple, list, dict)):
            return "…" if isinstance(part, (tuple, list, dict)) else short(repr(part))
        if isinstance(part, dict):
            return f"{{{', '.join(f'{key}: {text(each, depth + 1)}' for key, each in part.items())}}}"
        inside = ", ".join(text(each, depth + 1) for each in part)
        return f"[{inside}]" if isinstance(part, list) else f"({inside})"

    shown = text(value, 0) if isinstance(value, (tuple, list, dict)) and tensor(value)[0] is None else ""
    return short(shown) if found else ""


def held(found: Any) -> list[tuple[str, str, list[str]]]:
    """What a name held at one place (`fxlib.diagnosis.names.Held`): a text for each value, empty where it is not known,
    the node that computes it, and the paths of the modules in whose code it did."""
    texts: dict[tuple[str, bool], tuple[str, list[str]]] = {}
    for value, node, paths in found.values:
        shape, dtype = tensor(value)
        text = structure(value) if shape is None else record.tensor_text(shape, dtype)
        _, where = texts.setdefault(("" if value is None else text or short(repr(value)), bool(node)), (node, []))
        where += [path for path in paths if path not in where]
    return [(text, node, where) for (text, _), (node, where) in texts.items()]


def _arguments(node: Any) -> str:
    parts = [repr(each) for each in node.args]
    parts += [f"{name}={value!r}" for name, value in node.kwargs.items()]
    return ", ".join(parts)


def code(graph_module: Any, graph: Any) -> tuple[str, dict[str, list[int]]]:
    """The generated forward, and the lines (from 1) of each node in it, by the code generator's line map."""
    if graph_module is not None:
        text, graph, written = graph_module.code, graph_module.graph, graph_module
    elif graph is not None:
        try:
            written = graph.python_code("self")
        except Exception:
            # A partial graph may contain values without a source form.
            return "", {}
        text = written.src
    else:
        return "", {}
    shown = text.lstrip("\n")
    head = written._prologue_start - (len(text) - len(shown))
    return shown, _code_lines(shown, graph, head, written._lineno_map or {})


def _code_lines(text: str, graph: Any, head: int, origins: Mapping[int, int | None]) -> dict[str, list[int]]:
    """``head`` is the line of ``def``, which has the placeholders; ``origins`` gives the index of the node that a line
    below it came from."""
    names = [node.name for node in graph.nodes]
    found = {node.name: [head, head] for node in graph.nodes if node.op == "placeholder"}
    last = len(text.rstrip().splitlines())
    for below, index in origins.items():
        line = head + below
        if index is None or line > last or found.get(names[index]) == [head, head]:
            continue
        found.setdefault(names[index], [line, line])[1] = line
    return found


def short(text: str) -> str:
    return text if len(text) <= _VALUE_LENGTH else text[: _VALUE_LENGTH - 1] + "…"
