"""Makes the module of a target, and its example inputs, from the candidates that the text offers.

Modules are built under ``torch.device("meta")`` where
that works, since a ResNet-50 then takes a tenth of the time and no memory; a constructor that needs values is run
again for real.
"""

from __future__ import annotations

import ast
import inspect
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from fxlens.sources.targets import Source, Target

from . import guess
from .errors import brief

_SMALL = 100_000_000  # parameters


class CannotConstruct(Exception):
    """No candidate gave a module.  ``source`` is the one that the user wrote for the purpose, if there is one."""

    def __init__(self, message: str, source: Source | None = None) -> None:
        super().__init__(message)
        self.source = source


class CannotUseInputs(Exception):
    """The example inputs that the user wrote raise, or do not fit forward."""

    def __init__(self, message: str, source: Source) -> None:
        super().__init__(message)
        self.source = source


@dataclass
class Made:
    """A module, where it came from, and whether its parameters are on meta."""

    module: Any
    source: Source
    meta: bool


@dataclass
class Inputs:
    """Example arguments for forward, in its order (None where none are known), and arguments to make constants."""

    values: tuple[Any, ...] | None
    concrete: dict[str, Any] | None
    source: Source


def is_model(namespace: ModuleType, target: Target) -> bool:
    """Whether the class is an ``nn.Module`` of this file with a forward, or one that the project asks for."""
    import torch

    kind = getattr(namespace, target.name, None)
    if not isinstance(kind, type) or not issubclass(kind, torch.nn.Module) or inspect.isabstract(kind):
        return False
    if any(source.source in ("comment", "config") for source in target.construct):
        return True  # the user asked for it, so a missing forward is reported
    forward = getattr(kind, "forward", None)
    return forward is not None and getattr(forward, "__name__", "") != "_forward_unimplemented"


def is_leaf(kind: type, leaf_modules: Iterable[str]) -> bool:
    """Whether the project calls this class a leaf: by its qualified name, or by the end of it."""
    name = f"{kind.__module__}.{kind.__qualname__}"
    return any(name == entry or name.endswith(f".{entry}") for entry in leaf_modules)


def make(namespace: ModuleType, target: Target, real: bool = False) -> Made:
    """The first candidate that gives an instance of the class.  Raises CannotConstruct.

    A comment that fails is an error of its own and not passed over: the user said what to do. ``real`` asks for
    parameters with data.
    """
    kind = getattr(namespace, target.name)
    reasons = []
    for source in target.construct:
        try:
            module, meta = _evaluate_module(namespace, source, kind, real)
        except SystemExit:
            raise
        except Exception as error:
            if source.source in ("comment", "config"):
                raise CannotConstruct(f"`{source.text}` raises {brief(error)}", source) from error
            where = f"{os.path.basename(source.file)}, line" if source.file else "line"
            reasons.append(f"`{source.text}` ({where} {source.line}) raises {brief(error)}")
            continue
        if isinstance(module, kind):
            return Made(module, source, meta)
        if source.source in ("comment", "config"):
            raise CannotConstruct(f"`{source.text}` gives {type(module).__name__}, not {target.name}", source)
    missing = required_arguments(kind)
    if missing:
        text = f"{target.name}() needs {', '.join(missing)}"
        raise CannotConstruct("; ".join([text, *reasons]))
    source = Source(f"{target.name}()", "default")
    try:
        module, meta = _evaluate_module(namespace, source, kind, real)
    except SystemExit:
        raise
    except Exception as error:
        raise CannotConstruct("; ".join([f"`{source.text}` raises {brief(error)}", *reasons])) from error
    return Made(module, source, meta)


def reads_own_device(tree: ast.Module) -> bool:
    """Whether code of the file looks where a module's own tensors are, as ``self.weight.device`` and
    ``next(self.parameters()).device`` do: the answer must not be that they have been made on meta."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in ("device", "is_meta", "is_cuda", "is_cpu"):
            inner: ast.expr = node.value
            while isinstance(inner, (ast.Attribute, ast.Call, ast.Subscript)):
                argument = inner.args[0] if isinstance(inner, ast.Call) and inner.args else None
                inner = inner.value if isinstance(inner, (ast.Attribute, ast.Subscript)) else argument or inner.func
            if isinstance(inner, ast.Name) and inner.id == "self":
                return True
    return False


def is_small(module: Any) -> bool:
    """Whether the module may be made with its data for a trace."""
    return sum(tensor.numel() for tensor in module.parameters()) <= _SMALL


def make_inputs(namespace: ModuleType, target: Target, made: Made) -> Inputs | None:
    """The first candidate that can be evaluated and fits forward's parameters; None where the text offers none.

    A candidate that only says ``concrete_args={…}`` adds to what the next one gives.  Raises CannotUseInputs where the
    user's own comment does not fit.
    """
    constants: Inputs | None = None
    for source in target.inputs:
        if source.made not in (None, made.source.text):
            continue
        try:
            found = _inputs(namespace, source, made, constants)
        except SystemExit:
            raise
        except Exception as error:
            if source.source in ("comment", "config"):
                raise CannotUseInputs(f"`{source.text}`: {brief(error)}", source) from error
            continue
        if found.values is not None:
            return found
        constants = found
    return constants


def infer_inputs(namespace: ModuleType, made: Made, constants: Inputs | None, graph: Any) -> Inputs | None:
    """Inputs that the layers ask for, where the file says none. ``constants`` where nothing fits.

    ``graph`` is what could be traced without inputs.
    """
    text = guess.guess(made.module, graph, (constants.concrete if constants else None) or {})
    return _inputs(namespace, Source(text, "inferred"), made, constants) if text else constants


def required_arguments(kind: type) -> list[str]:
    """Parameters of ``__init__`` without a default."""
    try:
        parameters = list(inspect.signature(kind.__init__).parameters.values())[1:]  # type: ignore[misc]
    except (TypeError, ValueError):
        return []
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [each.name for each in parameters if each.default is inspect.Parameter.empty and each.kind not in variable]


def _evaluate_module(namespace: ModuleType, source: Source, kind: type, real: bool = False) -> tuple[Any, bool]:
    import torch

    if source.source == "instance":
        module = getattr(namespace, source.text)
        return module, _on_meta(module)
    code = compile(source.text, "<fxlens construct>", "eval")
    try:
        if real:
            raise LookupError("parameters with data are asked for")
        with torch.device("meta"):
            module = eval(code, _scope(namespace))
        if isinstance(module, kind):
            return module, _on_meta(module)
    except SystemExit:
        raise
    except Exception:
        # Many constructors compute with values; the real device decides whether the expression is wrong.
        module = None
    module = eval(code, _scope(namespace))
    return module, not real and _on_meta(module)


def _on_meta(module: Any) -> bool:
    import torch

    if not isinstance(module, torch.nn.Module):
        return False
    for tensor in [*module.parameters(), *module.buffers()]:
        return tensor.device.type == "meta"
    return True


def _inputs(namespace: ModuleType, source: Source, made: Made, constants: Inputs | None) -> Inputs:
    import torch

    code = compile(f"__fxlens_arguments__({source.text})", "<fxlens inputs>", "eval")
    scope = {**_scope(namespace), "__fxlens_arguments__": lambda *args, **kwargs: (args, kwargs)}
    try:
        if not made.meta:
            raise LookupError("the module is real, so its inputs are")
        with torch.device("meta"):
            args, kwargs = eval(code, scope)
    except SystemExit:
        raise
    except Exception:
        args, kwargs = eval(code, scope)
        if made.meta:
            args, kwargs = _to_meta(args), _to_meta(kwargs)
    concrete = kwargs.pop("concrete_args", None)
    if concrete and not args and not kwargs:
        return Inputs(None, concrete, source)
    if constants is not None:
        concrete = {**(constants.concrete or {}), **(concrete or {})}
        source = Source(f"{source.text}, {constants.source.text}", source.source, source.line)
    names = list(concrete or {})
    bound = inspect.signature(made.module.forward).bind_partial(*args, **kwargs)
    _check_complete(made.module, bound, names)
    if not bound.kwargs:
        return Inputs(bound.args, concrete, source)
    return Inputs(_in_order(made.module, bound, names), concrete, source)


def _check_complete(module: Any, bound: inspect.BoundArguments, concrete: list[str]) -> None:
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    for name, parameter in inspect.signature(module.forward).parameters.items():
        given = name in bound.arguments or name in concrete
        if not given and parameter.default is inspect.Parameter.empty and parameter.kind not in variable:
            raise TypeError(f"forward needs {name}")


def _in_order(module: Any, bound: inspect.BoundArguments, concrete: list[str]) -> tuple[Any, ...]:
    """Positional values up to the last one given by keyword, defaults filled in between."""
    values: list[Any] = []
    arguments = dict(bound.arguments)
    for name, parameter in inspect.signature(module.forward).parameters.items():
        if not arguments:
            break
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            values.extend(arguments.pop(name, ()))
        elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
            break
        else:
            default = None if parameter.default is inspect.Parameter.empty else parameter.default
            values.append(arguments.pop(name, default))
    return tuple(values)


def _to_meta(value: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        return value.to("meta")
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return type(value)(_to_meta(each) for each in value)
    if type(value) is dict:
        return {key: _to_meta(each) for key, each in value.items()}
    return value


def _scope(namespace: ModuleType) -> dict[str, Any]:
    """The file's names; ``torch`` and ``nn`` are there also when the file calls them something else."""
    torch = sys.modules["torch"]
    return {"torch": torch, "nn": torch.nn, **vars(namespace)}
