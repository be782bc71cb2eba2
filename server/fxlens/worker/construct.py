"""Constructs the module of a target from the candidates of the text and the workspace.

Modules are built under ``torch.device("meta")`` if possible, since a ResNet-50 then takes a tenth of the time and no
memory; a constructor that needs values is run again with data.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import os
import re
import traceback
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

from fxlens import record
from fxlens.sources.targets import ASKED, FOUND, FREE, ORDER, Source, Target

from . import alone, assumed, fallbacks, hub, network, text_warnings, tokenizers
from .assume import sandbox
from .assume.annotated import default_of
from .assume.places import NOTHING
from .errors import brief
from .keeping import keeping_files
from .scope import AttrDict, class_named, scope, spelled

_SMALL = 100_000_000  # parameters
_SECONDS = 5.0
_MOST_LACKING = 3
"""The most missing resources, after the first, that a construction is repeated without."""
_DEVICES = re.compile(r"\b(device|is_meta|is_cuda|is_cpu)\b")
_NEWLINE = re.compile(r"\r\n?|\n")


class CannotConstruct(Exception):
    """No candidate worked. ``source`` is the one that the user wrote for this purpose, if any; ``tried`` the assumed
    construction that got furthest."""

    def __init__(self, message: str, source: Source | None = None, tried: str = "") -> None:
        super().__init__(message)
        self.source = source
        self.tried = tried


@dataclass
class Made:
    """A module, its source, and whether its parameters are on meta.

    ``inputs`` are those found together with an assumed construction.
    """

    module: Any
    source: Source
    meta: bool
    inputs: str | None = None


def is_model(namespace: ModuleType, target: Target) -> bool:
    """Whether the class is an ``nn.Module`` of this file with a forward, or one that the project configures."""
    import torch

    kind = class_named(namespace, target.name)
    if not isinstance(kind, type) or not issubclass(kind, torch.nn.Module) or inspect.isabstract(kind):
        return False
    if any(source.source in ASKED for source in target.construct):
        return True  # configured by the user, so a missing forward is reported
    forward = getattr(kind, "forward", None)
    return forward is not None and getattr(forward, "__name__", "") != "_forward_unimplemented"


def is_leaf(namespace: ModuleType, target: Target, leaf_modules: Iterable[str]) -> bool:
    """Whether the project configures this class as a leaf, by its qualified name or the end of it."""
    kind = class_named(namespace, target.name)
    name = f"{kind.__module__}.{kind.__qualname__}"
    return any(name == entry or name.endswith(f".{entry}") for entry in leaf_modules)


def left_out(namespace: ModuleType, target: Target) -> str:
    """Why a model is not constructed; empty if it is."""
    if target.skip:
        return "left out by a comment"
    if target.leaf:
        return "the project's configuration makes it a leaf module"
    asked = any(source.source in ASKED for source in target.construct)
    if not asked and assumed.is_abstract(namespace, class_named(namespace, target.name)):
        return record.ABSTRACT
    return ""


def fresh() -> None:
    """Restores torch's global state and random numbers, so that models do not affect each other."""
    import torch

    from fxlib.diagnosis.fixes.compare import seed_all

    torch.set_default_dtype(torch.float32)
    torch.set_default_device(None)
    torch.set_grad_enabled(True)
    seed_all(0)


NO_HASH = (
    "a class with `__eq__` and without `__hash__`, as `@dataclass` makes it, has no hash, by which torch finds the "
    "modules of a model. Write `@dataclass(eq=False)`, or `__hash__ = nn.Module.__hash__`"
)


class Construction:
    """The ways to construct one class, in this order."""

    def __init__(self, namespace: ModuleType, target: Target) -> None:
        self.namespace = namespace
        self.target = target
        self.kind = class_named(namespace, target.name)
        self._reasons: list[str] = []
        self._missing = required_arguments(self.kind)

    def said(self) -> Made | None:
        """By a given construction, or without arguments if that is enough. Raises CannotConstruct.

        A comment that fails is an error and not skipped, since the user wrote it.
        """
        name = self.target.name
        if self.kind.__hash__ is None:
            raise CannotConstruct(NO_HASH)
        own = [each for each in self.target.construct if each.source not in ("parent", "assumed")]
        sources = [each for each in own if each.source in ASKED or not _gives_nothing(each.text)]
        if not self._missing:
            at = sum(ORDER.index(each.source) < ORDER.index("default") for each in sources)
            sources.insert(at, Source(f"{name}()", "default"))
        for at, source in enumerate(sources):
            try:
                module, meta = evaluate(self.namespace, source, self.kind)
            except BaseException as error:
                if source.source in FOUND and (other := self._with_attributes(source, error)) is not None:
                    sources.insert(at + 1, other)
                if source.source not in FOUND and not isinstance(error, (Exception, sandbox.OutOfTime)):
                    raise
                if source.source in ASKED:
                    raise CannotConstruct(f"`{source.text}` raises {brief(error)}", source) from error
                if isinstance(error, (RecursionError, MemoryError)) and source.source == "default":
                    raise CannotConstruct(f"`{source.text}` raises {brief(error)}") from error
                if source.source not in FOUND:
                    self._reasons.append(f"`{source.text}`{_where(source)} raises {brief(error)}")
                continue
            if isinstance(module, self.kind):
                return Made(module, source, meta)
            if source.source in ASKED:
                raise CannotConstruct(f"`{source.text}` gives {type(module).__name__}, not {name}", source)
        return None

    def _with_attributes(self, source: Source, error: BaseException) -> Source | None:
        """With dicts whose keys are attributes too, where the code reads a configuration's dict that way."""
        if not isinstance(error, AttributeError) or type(getattr(error, "obj", None)) is not dict:
            return None
        wrapping = _Wrapping(spelled(AttrDict, scope(self.namespace)))
        return replace(source, text=ast.unparse(wrapping.visit(ast.parse(source.text, mode="eval"))))

    def assumed(self) -> Made:
        """With assumed arguments, the previous ones first. Raises CannotConstruct."""
        for source in self.target.construct:
            if source.source == "assumed":
                with contextlib.suppress(BaseException):
                    module, meta = evaluate(self.namespace, source, self.kind)
                    if isinstance(module, self.kind):
                        return Made(module, source, meta)
        made = assumed.construct(self.namespace, self.target, self.kind)
        if made.module is None:
            needs = [f"{self.target.name}() needs {', '.join(self._missing)}"] if self._missing else []
            raise CannotConstruct("; ".join(dict.fromkeys((*needs, *self._reasons, made.reason))), tried=made.text)
        source = Source(made.text, "assumed")
        try:
            # Trials may have changed that module.
            module, meta = evaluate(self.namespace, source, self.kind, real=not made.meta)
        except BaseException:
            module, meta = made.module, made.meta
        return Made(module, source, meta, made.inputs)


class _Wrapping(ast.NodeTransformer):
    """Writes each dict as ``AttrDict({…})``."""

    def __init__(self, name: str) -> None:
        self._name = ast.parse(name, mode="eval").body

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        self.generic_visit(node)
        return ast.Call(self._name, [node], [])


def make_real(namespace: ModuleType, made: Made) -> Made:
    """The same module with data in its parameters; unchanged if that fails."""
    try:
        module, meta = evaluate(namespace, made.source, type(made.module), real=True)
    except SystemExit:
        raise
    except (Exception, sandbox.OutOfTime):
        return made
    return replace(made, module=module, meta=meta) if isinstance(module, type(made.module)) else made


def _gives_nothing(text: str) -> bool:
    """Whether every argument is None, as in `Net(None, None)`, which only tests that the line runs."""
    call = ast.parse(text, mode="eval").body
    given = [*call.args, *(each.value for each in call.keywords)] if isinstance(call, ast.Call) else []
    return bool(given) and all(isinstance(each, ast.Constant) and each.value is None for each in given)


def _where(source: Source) -> str:
    if source.line is None:
        return ""
    return f" ({f'{os.path.basename(source.file)}, ' if source.file else ''}line {source.line})"


def reads_own_device(tree: ast.Module, text: str) -> bool:
    """Whether code of the file reads the device of a module's own tensors, by ``self.weight.device`` or
    ``next(self.parameters()).device``: it must not see the meta device."""
    lines = [number for number, line in enumerate(_NEWLINE.split(text), 1) if _DEVICES.search(line)]
    for node in _standing_on(lines, tree) if lines else ():
        if isinstance(node, ast.Attribute) and _DEVICES.fullmatch(node.attr):
            inner: ast.expr = node.value
            while isinstance(inner, (ast.Attribute, ast.Call, ast.Subscript)):
                argument = inner.args[0] if isinstance(inner, ast.Call) and inner.args else None
                inner = inner.value if isinstance(inner, (ast.Attribute, ast.Subscript)) else argument or inner.func
            if isinstance(inner, ast.Name) and inner.id == "self":
                return True
    return False


def names_devices(text: str) -> bool:
    """Whether the text may contain such code."""
    return _DEVICES.search(text) is not None


def _standing_on(lines: list[int], tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes on any of these sorted lines."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        for child in ast.iter_child_nodes(node):
            first, last = getattr(child, "lineno", None), getattr(child, "end_lineno", None)
            if first is not None and last is not None:
                at = bisect_left(lines, first)
                if at == len(lines) or lines[at] > last:
                    continue
            yield child
            waiting.append(child)


def is_small(module: Any) -> bool:
    """Whether the module is small enough to be constructed with data for a trace."""
    from torch.nn.parameter import is_lazy

    return sum(tensor.numel() for tensor in module.parameters() if not is_lazy(tensor)) <= _SMALL


def required_arguments(kind: type) -> list[str]:
    """Parameters of ``__init__`` without a default."""
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    for each in kind.__mro__:
        if "__init__" not in vars(each):
            continue
        try:
            parameters = list(inspect.signature(each.__init__).parameters.values())[1:]  # type: ignore[misc]
        except (TypeError, ValueError):
            return []
        # A class that a decorator wraps around another one passes its arguments on.
        if not parameters or any(parameter.kind not in variable for parameter in parameters):
            break
    else:
        return []
    return [each.name for each in parameters if default_of(each) is NOTHING and each.kind not in variable]


def evaluate(namespace: ModuleType, source: Source, kind: type, real: bool = False) -> tuple[Any, bool]:
    """The module from a source, on meta if possible, and whether it is on meta."""
    if source.source == "instance":
        module = getattr(namespace, source.text)
        return module, _on_meta(module)
    code = compile(source.text, "<fxlens construct>", "eval")
    try:
        with guarded(source):
            return _evaluate(code, namespace, kind, real)
    finally:
        text_warnings.leave_out()


def guarded(source: Source) -> contextlib.AbstractContextManager[None]:
    """The context in which a construction or inputs from this source are evaluated: what nobody wrote for FX Lens
    leaves the user's files alone."""
    if source.source in FREE:
        return contextlib.nullcontext()
    return sandbox.trial(_SECONDS) if source.source in FOUND else keeping_files()


def _evaluate(code: Any, namespace: ModuleType, kind: type, real: bool) -> tuple[Any, bool]:
    import torch

    from fxlib.diagnosis.lazy_layers import waits

    if not real:
        try:
            with torch.device("meta"), sandbox.scripting_anew():
                module = eval(code, scope(namespace))
            # A layer that gets its sizes from a first call needs a call that works, which one on meta may not.
            if isinstance(module, kind) and not (isinstance(module, torch.nn.Module) and waits(module)):
                return module, _on_meta(module)
        except SystemExit:
            raise
        except Exception:
            # Many constructors compute with values; only the real device shows whether the expression is wrong.
            module = None
    try:
        module = eval(code, scope(namespace))
    except Exception as error:
        if without_what_it_lacks(error) is None:
            raise
        module = _without_all(code, namespace, real, [error])
    return module, _on_meta(module, without=not real)


def _without_all(code: Any, namespace: ModuleType, real: bool, lacking: list[Exception]) -> Any:
    """Without missing resources, one after the other, as the constructor needs them."""
    try:
        with contextlib.ExitStack() as stack:
            for error in lacking:
                if (context := without_what_it_lacks(error)) is not None:
                    stack.enter_context(context)
            return _without_loading(code, namespace, real)
    except Exception as error:
        if any(error is each for each in lacking) or without_what_it_lacks(error) is None:
            raise
        if len(lacking) > _MOST_LACKING:
            raise lacking[0] from None
        following = [*lacking, error]
    return _without_all(code, namespace, real, following)


def without_what_it_lacks(error: Exception) -> contextlib.AbstractContextManager[None] | None:
    """The context in which a construction that raised this works without a resource that this machine lacks: weights, a
    device, a process group, a tokenizer's file, an optional package; None if none of these is missing."""
    if hub.is_about(error):
        return _or_raise(error, hub.without())
    if network.is_about(error) or _fetches_weights(error):
        return sandbox.without_weights()  # graphs do not depend on weights
    if alone.is_about(error):
        return alone.alone(error)
    if (tokenizer := tokenizers.behind(error)) is not None:
        return _or_raise(error, tokenizers.without(tokenizer))
    if (absent := fallbacks.behind(error)) is not None:
        return _or_raise(error, fallbacks.standing_in(absent))
    loader = sandbox.loading(error)
    return None if loader is None else _or_raise(error, sandbox.without_loading(loader))


@contextlib.contextmanager
def _or_raise(error: Exception, context: contextlib.AbstractContextManager[None]) -> Iterator[None]:
    """Run in a context without some resource. A failure there raises ``error``, which names the missing resource,
    instead of a follow-up error, unless that is about another missing one."""
    try:
        with context:
            yield
    except Exception as following:
        if without_what_it_lacks(following) is not None:
            raise
        raise error from None


def _fetches_weights(error: Exception) -> bool:
    """Whether it was raised while fetching weights, from any address."""
    frames = traceback.walk_tb(error.__traceback__)
    return any(frame.f_code.co_name == "load_state_dict_from_url" for frame, _ in frames)


def _without_loading(code: Any, namespace: ModuleType, real: bool) -> Any:
    """Leave out a function that needs weights to load."""
    try:
        return _on_either(code, namespace, real)
    except Exception as error:
        loader = sandbox.loading(error)
        if loader is None:
            raise
        with _or_raise(error, sandbox.without_loading(loader)):
            return _on_either(code, namespace, real)


def _on_either(code: Any, namespace: ModuleType, real: bool) -> Any:
    import torch

    if not real:
        with contextlib.suppress(Exception), torch.device("meta"):
            return eval(code, scope(namespace))
    return eval(code, scope(namespace))


def _on_meta(module: Any, without: bool = True) -> bool:
    """Whether any tensor of a module is on meta; some, such as ``torch.Tensor(3, 4)``, may have data. ``without`` is
    the result for a module without tensors."""
    import torch

    if not isinstance(module, torch.nn.Module):
        return False
    tensors = [*module.parameters(), *module.buffers()]
    return any(tensor.device.type == "meta" for tensor in tensors) if tensors else without
