"""Example inputs of a module: given ones, those of models that contain it, or those that its layers require."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from fxlens.sources.targets import ASKED, FOUND, Source, Target

from . import alone, assumed, guess
from .assume import sandbox
from .construct import Made, guarded
from .errors import brief, text_of
from .scope import scope
from .stand_ins import NotInstalled

_SECONDS = 5.0
_MOST_OTHERS = 4


class CannotUseInputs(Exception):
    """The example inputs that the user wrote raise, or do not fit forward."""

    def __init__(self, message: str, source: Source) -> None:
        super().__init__(message)
        self.source = source


Values = tuple[Any, ...] | dict[str, Any]
"""Arguments in forward's order; all by their names where forward takes some by keyword only."""


@dataclass
class Inputs:
    """Example arguments for forward (None if unknown), and arguments that become constants."""

    values: Values | None
    concrete: dict[str, Any] | None
    source: Source


def make(namespace: ModuleType, target: Target, made: Made) -> Inputs | None:
    """The first source that can be evaluated and fits forward's parameters; None if there is none.

    One with only ``concrete_args={…}`` adds to the next one. Raises CannotUseInputs if the user's own comment does not
    fit.
    """
    constants: Inputs | None = None
    for source in target.inputs:
        of_another = source.made not in (None, made.source.text)
        if of_another and source.source != "call":
            continue
        try:
            found = _inputs(namespace, source, made, constants)
            if source.source in FOUND or of_another:
                _run(made, found)
        except BaseException as error:
            if source.source not in FOUND and not isinstance(error, (Exception, sandbox.OutOfTime)):
                raise
            if source.source in ASKED:
                raise CannotUseInputs(f"`{source.text}`: {brief(error)}", source) from error
            continue
        if found.values is not None:
            return _settled(made, found)
        constants = found
    if made.inputs:
        with contextlib.suppress(BaseException):
            return _settled(made, _inputs(namespace, Source(made.inputs, "assumed"), made, constants))
    return constants


def others(namespace: ModuleType, target: Target, made: Made, inputs: Inputs | None) -> list[Values]:
    """Further inputs of the module in recorded runs, if ``inputs`` were recorded, too."""
    found = []
    for source in target.inputs if inputs is not None and inputs.source.source == "recorded" else ():
        if source.source == "recorded" and source.made == made.source.text:
            with contextlib.suppress(Exception):
                values = _inputs(namespace, source, made, None).values
                found += [values] if values is not None else []
    return found[:_MOST_OTHERS]


def infer(
    namespace: ModuleType,
    made: Made,
    constants: Inputs | None,
    graph: Any,
    like: Source | None = None,
    searching: Callable[[], Source | None] = lambda: None,
) -> Inputs | None:
    """Inputs if none are given: ``like`` those of a model that contains this one (they `fit`), or by its layers'
    requirements, or from ``searching``, or else assumed ones. ``constants`` if nothing fits.

    ``graph`` is the part that could be traced without inputs.
    """
    if like is not None:
        with contextlib.suppress(Exception):
            return _settled(made, _inputs(namespace, like, made, constants))
    concrete = (constants.concrete if constants else None) or {}
    text = guess.guess(made.module, graph, concrete)
    source = Source(text, "inferred") if text else searching()
    if source is None and made.source.source != "assumed" and not concrete:
        text = assumed.inputs(namespace, made.module, made.source.text, made.meta)
        source = Source(text, "assumed") if text else None
    if source is None:
        return constants
    try:
        return _settled(made, _inputs(namespace, source, made, constants))
    except Exception:
        if source.source != "inferred":
            return constants
        raise


def fit(namespace: ModuleType, made: Made, source: Source) -> bool:
    """Whether forward runs with these inputs, as far as meta shows."""
    try:
        _run(made, _inputs(namespace, source, made, None))
    except BaseException:
        return False
    return True


def _settled(made: Made, inputs: Inputs) -> Inputs:
    """The inputs, after the module's lazy layers got their sizes from them."""
    from fxlib.diagnosis import lazy_layers

    if inputs.values is not None and lazy_layers.waits(made.module):
        with contextlib.suppress(sandbox.OutOfTime), sandbox.trial(_SECONDS):
            lazy_layers.settle(made.module, *arguments(inputs))
    return inputs


def arguments(inputs: Inputs, on_meta: bool = False) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The positional arguments of a call of forward, and those by keyword."""
    values = to_meta(inputs.values or ()) if on_meta else inputs.values or ()
    return ((), {**values, **(inputs.concrete or {})}) if isinstance(values, dict) else (values, inputs.concrete or {})


def _run(made: Made, inputs: Inputs) -> None:
    """Raises the error of forward with these inputs, as far as meta shows."""
    import torch

    if inputs.values is None:
        return
    trial = guess.shadow(made.module)
    try:
        with sandbox.trial(_SECONDS), torch.device("meta"), torch.no_grad():
            args, kwargs = arguments(inputs, on_meta=True)
            alone.run(trial, lambda: trial(*args, **kwargs))
    except Exception as error:
        if "meta" not in text_of(error).lower() and not isinstance(error, (NotImplementedError, NotInstalled)):
            raise


def _inputs(namespace: ModuleType, source: Source, made: Made, constants: Inputs | None) -> Inputs:
    import torch

    code = compile(f"__fxlens_arguments__({source.text})", "<fxlens inputs>", "eval")
    names = {**scope(namespace), "__fxlens_arguments__": lambda *args, **kwargs: (args, kwargs)}
    with guarded(source):
        try:
            if not made.meta:
                raise LookupError("the module is real, so its inputs are")
            with torch.device("meta"):
                args, kwargs = eval(code, names)
        except Exception:
            args, kwargs = alone.run(made.module, lambda: eval(code, names))
            if made.meta:
                args, kwargs = to_meta(args), to_meta(kwargs)
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
    return Inputs(_in_order(made.module, bound), concrete, source)


def _check_complete(module: Any, bound: inspect.BoundArguments, concrete: list[str]) -> None:
    for name, parameter in inspect.signature(module.forward).parameters.items():
        given = name in bound.arguments or name in concrete
        if not given and parameter.default is inspect.Parameter.empty and not _gathers(parameter):
            raise TypeError(f"forward needs {name}")


def _in_order(module: Any, bound: inspect.BoundArguments) -> Values:
    """Positional values up to the last one given by keyword, defaults filled in between; all by name if one can be
    given by keyword only."""
    parameters = inspect.signature(module.forward).parameters
    kinds = {name: parameters[name].kind for name in bound.arguments}
    if inspect.Parameter.KEYWORD_ONLY in kinds.values():
        if {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY} & {*kinds.values()}:
            raise TypeError("examples for arguments that are positional only beside those by keyword only")
        bound.apply_defaults()
        return {name: each for name, each in bound.arguments.items() if not _gathers(parameters[name])}
    values: list[Any] = []
    left = dict(bound.arguments)
    for name, parameter in parameters.items():
        if not left:
            break
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            values.extend(left.pop(name, ()))
        elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
            break
        else:
            default = None if parameter.default is inspect.Parameter.empty else parameter.default
            values.append(left.pop(name, default))
    return tuple(values)


def _gathers(parameter: inspect.Parameter) -> bool:
    return parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)


def in_order(values: Values) -> tuple[Any, ...]:
    """The arguments in the order of the graph's, which takes all of them by position."""
    return tuple(values.values()) if isinstance(values, dict) else values


def to_meta(value: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        return value.to("meta")
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return type(value)(to_meta(each) for each in value)
    if type(value) is dict:
        return {key: to_meta(each) for key, each in value.items()}
    return value
