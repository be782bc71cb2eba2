"""Makes the module of a target, and its example inputs, from the candidates that the text offers.

Modules are built under ``torch.device("meta")`` where
that works, since a ResNet-50 then takes a tenth of the time and no memory; a constructor that needs values is run
again for real.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

from fxlens.sources.targets import ORDER, Source, Target

from . import alone, assumed, guess
from .assume import sandbox
from .errors import brief
from .scope import scope

_SMALL = 100_000_000  # parameters
_SECONDS = 5.0
ASKED = ("comment", "config")
"""Sources that the user wrote for the purpose."""
FOUND = ("recorded", "workspace", "parent", "assumed")
"""Sources that FX Lens found by itself: they are tried, and nothing is said where they fail."""


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
    """A module, where it came from, and whether its parameters are on meta.

    ``inputs`` is what was found together with an assumed construction.
    """

    module: Any
    source: Source
    meta: bool
    inputs: str | None = None


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
    if any(source.source in ASKED for source in target.construct):
        return True  # the user asked for it, so a missing forward is reported
    forward = getattr(kind, "forward", None)
    return forward is not None and getattr(forward, "__name__", "") != "_forward_unimplemented"


def is_leaf(kind: type, leaf_modules: Iterable[str]) -> bool:
    """Whether the project calls this class a leaf: by its qualified name, or by the end of it."""
    name = f"{kind.__module__}.{kind.__qualname__}"
    return any(name == entry or name.endswith(f".{entry}") for entry in leaf_modules)


def make(namespace: ModuleType, target: Target, searching: Callable[[], None] = lambda: None) -> Made:
    """The first source that gives an instance of the class; what can be assumed where none does, after a call of
    ``searching``.  Raises CannotConstruct.

    A comment that fails is an error of its own and not passed over: the user said what to do.
    """
    kind = getattr(namespace, target.name)
    reasons = []
    sources = [each for each in target.construct if each.source in ASKED or not _gives_nothing(each.text)]
    missing = required_arguments(kind)
    if not missing:
        at = sum(ORDER.index(each.source) < ORDER.index("default") for each in sources)
        sources.insert(at, Source(f"{target.name}()", "default"))
    for source in sources:
        try:
            module, meta = _evaluate_module(namespace, source, kind)
        except SystemExit:
            raise
        except (Exception, sandbox.OutOfTime) as error:
            if source.source in ASKED:
                raise CannotConstruct(f"`{source.text}` raises {brief(error)}", source) from error
            if isinstance(error, (RecursionError, MemoryError)) and source.source == "default":
                raise CannotConstruct(f"`{source.text}` raises {brief(error)}") from error
            if source.source not in FOUND:
                reasons.append(f"`{source.text}`{_where(source)} raises {brief(error)}")
            continue
        if isinstance(module, kind):
            return Made(module, source, meta)
        if source.source in ASKED:
            raise CannotConstruct(f"`{source.text}` gives {type(module).__name__}, not {target.name}", source)
    searching()
    made = assumed.construct(namespace, target, kind)
    if made.module is not None:
        source = Source(made.text, "assumed")
        try:
            # Trials may have changed that one.
            module, meta = _evaluate_module(namespace, source, kind, real=not made.meta)
        except (Exception, sandbox.OutOfTime):
            module, meta = made.module, made.meta
        return Made(module, source, meta, made.inputs)
    if missing:
        reasons.insert(0, f"{target.name}() needs {', '.join(missing)}")
    raise CannotConstruct("; ".join([*reasons, made.reason]))


def make_real(namespace: ModuleType, made: Made) -> Made:
    """The same module with data in its parameters; as it is where that fails."""
    try:
        module, meta = _evaluate_module(namespace, made.source, type(made.module), real=True)
    except SystemExit:
        raise
    except (Exception, sandbox.OutOfTime):
        return made
    return replace(made, module=module, meta=meta) if isinstance(module, type(made.module)) else made


def _gives_nothing(text: str) -> bool:
    """Whether every argument is None, as in `Net(None, None)`: a look whether the line runs."""
    call = ast.parse(text, mode="eval").body
    given = [*call.args, *(each.value for each in call.keywords)] if isinstance(call, ast.Call) else []
    return bool(given) and all(isinstance(each, ast.Constant) and each.value is None for each in given)


def _where(source: Source) -> str:
    if source.line is None:
        return ""
    return f" ({f'{os.path.basename(source.file)}, ' if source.file else ''}line {source.line})"


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
    """The first source that can be evaluated and fits forward's parameters; None where there is none.

    One that only says ``concrete_args={…}`` adds to what the next one gives.  Raises CannotUseInputs where the user's
    own comment does not fit.
    """
    constants: Inputs | None = None
    for source in target.inputs:
        if source.made not in (None, made.source.text):
            continue
        try:
            found = _inputs(namespace, source, made, constants)
            if source.source in FOUND:
                _run(made, found)
        except SystemExit:
            raise
        except (Exception, sandbox.OutOfTime) as error:
            if source.source in ASKED:
                raise CannotUseInputs(f"`{source.text}`: {brief(error)}", source) from error
            continue
        if found.values is not None:
            return found
        constants = found
    if made.inputs:
        with contextlib.suppress(Exception, sandbox.OutOfTime):
            return _inputs(namespace, Source(made.inputs, "assumed"), made, constants)
    return constants


def infer_inputs(
    namespace: ModuleType, target: Target, made: Made, constants: Inputs | None, graph: Any
) -> Inputs | None:
    """Inputs that the layers ask for, or else assumed ones, where nothing else is known.  ``constants`` where nothing
    fits.

    ``graph`` is what could be traced without inputs.
    """
    concrete = (constants.concrete if constants else None) or {}
    text = guess.guess(made.module, graph, concrete)
    source = Source(text, "inferred") if text else None
    if source is None and made.source.source != "assumed" and not concrete:
        text = assumed.inputs(namespace, made.module, made.source.text, made.meta)
        source = Source(text, "assumed") if text else None
    if source is None:
        return constants
    try:
        return _inputs(namespace, source, made, constants)
    except Exception:
        if source.source == "assumed":
            return constants
        raise


def _run(made: Made, inputs: Inputs) -> None:
    """Raises what forward raises with these inputs, on meta and as far as that goes."""
    import torch

    if inputs.values is None:
        return
    trial = guess.shadow(made.module)
    try:
        with sandbox.trial(_SECONDS), torch.device("meta"), torch.no_grad():
            trial(*_to_meta(inputs.values), **(inputs.concrete or {}))
    except Exception as error:
        if "meta" not in str(error).lower() and not isinstance(error, NotImplementedError):
            raise


def required_arguments(kind: type) -> list[str]:
    """Parameters of ``__init__`` without a default."""
    try:
        parameters = list(inspect.signature(kind.__init__).parameters.values())[1:]  # type: ignore[misc]
    except (TypeError, ValueError):
        return []
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [each.name for each in parameters if each.default is inspect.Parameter.empty and each.kind not in variable]


def _evaluate_module(namespace: ModuleType, source: Source, kind: type, real: bool = False) -> tuple[Any, bool]:
    if source.source == "instance":
        module = getattr(namespace, source.text)
        return module, _on_meta(module)
    code = compile(source.text, "<fxlens construct>", "eval")
    if source.source in FOUND:
        with sandbox.trial(_SECONDS):
            return _evaluate(code, namespace, kind, real)
    return _evaluate(code, namespace, kind, real)


def _evaluate(code: Any, namespace: ModuleType, kind: type, real: bool) -> tuple[Any, bool]:
    import torch

    if not real:
        try:
            with torch.device("meta"):
                module = eval(code, scope(namespace))
            if isinstance(module, kind):
                return module, _on_meta(module)
        except SystemExit:
            raise
        except Exception:
            # Many constructors compute with values; the real device decides whether the expression is wrong.
            module = None
    try:
        module = eval(code, scope(namespace))
    except Exception as error:
        if not alone.is_about(error):
            raise
        with alone.alone():
            module = _on_either(code, namespace, real)
    return module, _on_meta(module, without=not real)


def _on_either(code: Any, namespace: ModuleType, real: bool) -> Any:
    import torch

    if not real:
        with contextlib.suppress(Exception), torch.device("meta"):
            return eval(code, scope(namespace))
    return eval(code, scope(namespace))


def _on_meta(module: Any, without: bool = True) -> bool:
    """Whether a module is on meta; ``without`` is the answer for one that has no tensors."""
    import torch

    if not isinstance(module, torch.nn.Module):
        return False
    for tensor in [*module.parameters(), *module.buffers()]:
        return tensor.device.type == "meta"
    return without


def _inputs(namespace: ModuleType, source: Source, made: Made, constants: Inputs | None) -> Inputs:
    import torch

    code = compile(f"__fxlens_arguments__({source.text})", "<fxlens inputs>", "eval")
    names = {**scope(namespace), "__fxlens_arguments__": lambda *args, **kwargs: (args, kwargs)}
    try:
        if not made.meta:
            raise LookupError("the module is real, so its inputs are")
        with torch.device("meta"):
            args, kwargs = eval(code, names)
    except SystemExit:
        raise
    except Exception:
        args, kwargs = eval(code, names)
        if made.meta:
            args, kwargs = _to_meta(args), _to_meta(kwargs)
    concrete = kwargs.pop("concrete_args", None)
    if concrete and not args and not kwargs:
        return Inputs(None, concrete, source)
    if constants is not None:
        concrete = {**(constants.concrete or {}), **(concrete or {})}
        source = Source(f"{source.text}, {constants.source.text}", source.source, source.line)
    constant = list(concrete or {})
    bound = inspect.signature(made.module.forward).bind_partial(*args, **kwargs)
    _check_complete(made.module, bound, constant)
    if not bound.kwargs:
        return Inputs(bound.args, concrete, source)
    return Inputs(_in_order(made.module, bound, constant), concrete, source)


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
