"""Classes that leave their forward, or parts of it, to their subclasses."""

from __future__ import annotations

import ast
import inspect

from .source import FunctionNode, Sources, plain

_MADE_BY_NAME = {"setattr", "add_module", "register_module", "register_buffer", "register_parameter", "update"}


def is_abstract(kind: type, sources: Sources) -> bool:
    """Whether forward, a method that it calls, or a submodule that it reads exists in subclasses only."""
    from torch import nn

    if inspect.isabstract(kind) or getattr(kind, "forward", None) is nn.Module.forward:
        return True
    node = _source(kind, "forward", sources)
    if node is None or not isinstance(node.body, list):
        return False
    if all(isinstance(each, ast.Pass) or _raises_not_implemented(each) for each in _code(node)):
        return True
    called = {_own(each.func) for each in ast.walk(node) if isinstance(each, ast.Call)} - {""}
    return any(_is_left_open(kind, each, sources) for each in called) or _reads_of_subclasses(kind, node, sources)


def concrete(kind: type, sources: Sources) -> list[type]:
    """The class itself; for an abstract one, its concrete subclasses."""
    if not is_abstract(kind, sources):
        return [kind]
    below: list[type] = kind.__subclasses__()
    return list(dict.fromkeys(found for each in below for found in concrete(each, sources)))


def _is_left_open(kind: type, method: str, sources: Sources) -> bool:
    """Whether the method only raises NotImplementedError."""
    node = _source(kind, method, sources)
    return node is not None and any(map(_raises_not_implemented, _code(node)[:1]))


def _reads_of_subclasses(kind: type, forward: FunctionNode, sources: Sources) -> bool:
    """Whether forward, or a method that it calls, reads an attribute that only a subclass sets or defines."""
    from torch import nn

    run, read, called = [forward], set[str](), {"forward"}
    for node in run:
        own = {_own(each) for each in ast.walk(node)} - {""}
        read |= own
        methods = {name: _source(kind, name, sources) for name in own - called}
        called |= methods.keys()
        run += [each for each in methods.values() if each is not None]
    here = _set_by(kind, sources)
    if here is None:
        return False
    missing = {name for name in read - here if not hasattr(kind, name)} - set(vars(nn.Module()))
    below: list[type] = kind.__subclasses__() if missing else []
    return any(missing & (vars(each).keys() | (_set_by(each, sources) or set())) for each in below)


def _set_by(kind: type, sources: Sources) -> set[str] | None:
    """The attributes that methods of the class and its bases assign; None if that cannot be read."""
    found: set[str] = set()
    for each in kind.__mro__:
        if each.__module__.partition(".")[0] in ("torch", "builtins", "abc", "typing"):
            continue
        for name in vars(each):
            if plain(vars(each)[name]) is None:
                continue
            node = _source(each, name, sources)
            if node is None:
                return None
            for inner in ast.walk(node):
                if isinstance(inner, ast.Call):
                    called = getattr(inner.func, "attr", getattr(inner.func, "id", ""))
                    if called in _MADE_BY_NAME:
                        return None
                elif isinstance(getattr(inner, "ctx", None), ast.Store):
                    found.add(_own(inner))
    return found


def _own(node: ast.AST) -> str:
    """The name in ``self.name``; empty for anything else."""
    ours = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    return node.attr if ours and isinstance(node, ast.Attribute) else ""


def _source(kind: type, name: str, sources: Sources) -> FunctionNode | None:
    function = plain(inspect.getattr_static(kind, name, None))
    return None if function is None else sources.of_function(function)


def _code(node: FunctionNode) -> list[ast.stmt]:
    """The statements of a function without its docstring."""
    body = node.body if isinstance(node.body, list) else []
    return [each for each in body if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))]


def _raises_not_implemented(node: ast.stmt) -> bool:
    raised = node.exc if isinstance(node, ast.Raise) else None
    raised = raised.func if isinstance(raised, ast.Call) else raised
    return isinstance(raised, ast.Name) and raised.id == "NotImplementedError"
