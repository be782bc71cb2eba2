"""Which rule an exception belongs to, by what was raised and what the expression was: one table."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, NamedTuple

from torch import nn

from fxlib.capture.tracer_base import TraceError
from fxlib.diagnosis.engine.forms import called_name
from fxlib.diagnosis.engine.place import Place

__all__ = ["Failure", "about_tracing", "rule_of"]


class Failure(NamedTuple):
    """An exception and where the user's code raised it. ``function`` is the object that the expression calls."""

    error: BaseException
    place: Place
    function: Any

    @property
    def text(self) -> str:
        return str(self.error)

    @property
    def name(self) -> str:
        return called_name(self.place.node)

    @property
    def last(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def owner(self) -> str:
        return getattr(self.function, "__module__", None) or ""


_CONSTRUCTORS = frozenset(
    {
        "zeros",
        "ones",
        "empty",
        "full",
        "rand",
        "randn",
        "eye",
        "arange",
        "linspace",
        "logspace",
        "randint",
        "randperm",
        "new_zeros",
        "new_ones",
        "new_empty",
        "new_full",
        "tril_indices",
        "triu_indices",
        "expand",
        "repeat",
        "reshape",
        "view",
        "hann_window",
        "hamming_window",
        "Tensor",
        "FloatTensor",
        "LongTensor",
    }
)
_FROM_DATA = frozenset({"tensor", "Size", "as_tensor", "asarray", "new_tensor", "sparse_coo_tensor"})
_TRANSFORMS = frozenset({"vmap", "grad", "vjp", "jvp", "jacrev", "jacfwd", "hessian", "functional_call", "linearize"})


def _type(*kinds: type[BaseException]) -> Callable[[Failure], bool]:
    return lambda failure: isinstance(failure.error, kinds)


def _says(*texts: str) -> Callable[[Failure], bool]:
    return lambda failure: any(text in failure.text for text in texts)


def _calls(*names: str) -> Callable[[Failure], bool]:
    return lambda failure: failure.last in names


def _both(first: Callable[[Failure], bool], second: Callable[[Failure], bool]) -> Callable[[Failure], bool]:
    return lambda failure: first(failure) and second(failure)


def _numpy_argument(failure: Failure) -> bool:
    return "argument of type: <class 'numpy" in failure.text


def _numpy(failure: Failure) -> bool:
    texts = ("__array_struct__", "__array_interface__", "__array__", "expected np.ndarray")
    return failure.owner.startswith("numpy") or any(text in failure.text for text in texts)


def _from_numpy(failure: Failure) -> bool:
    return failure.owner.partition(".")[0] == "numpy" or type(failure.function).__module__.startswith("numpy")


def _in_context(failure: Failure) -> bool:
    node = failure.place.node
    parent = getattr(node, "parent", None)
    return isinstance(parent, ast.withitem) or failure.last in ("autocast", "device")


def _scripted(failure: Failure) -> bool:
    kind = type(failure.function).__name__
    scripted = kind in ("ScriptFunction", "ScriptMethod", "RecursiveScriptModule")
    return scripted or "but instead found type 'Proxy'" in failure.text


def _subscript(failure: Failure) -> bool:
    return isinstance(failure.place.node, ast.Subscript)


def _stores(failure: Failure) -> bool:
    return "does not support item assignment" in failure.text


def _deletes(failure: Failure) -> bool:
    return "doesn't support item deletion" in failure.text or "does not support item deletion" in failure.text


def _builds_module(failure: Failure) -> bool:
    return isinstance(failure.function, type) and issubclass(failure.function, nn.Module)


def _transform(failure: Failure) -> bool:
    node = failure.place.node
    inner = node.func if isinstance(node, ast.Call) else None
    return (
        failure.owner.startswith("torch._functorch")
        or called_name(inner).rpartition(".")[2] in _TRANSFORMS
        or failure.last in _TRANSFORMS
    )


def _structured(failure: Failure) -> bool:
    return failure.last in ("cond", "while_loop", "scan", "map") or failure.last.startswith(("_check", "check"))


def _formats(failure: Failure) -> bool:
    node = failure.place.node
    percent = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant)
    return percent or ("format" in failure.text and ("__format__" in failure.text or "%" in failure.text))


_TABLE: tuple[tuple[str, Callable[[Failure], bool]], ...] = (
    ("FX310", _type(RecursionError)),
    ("FX170", _says("module is not installed as a submodule")),
    ("FX171", _says("parameter is not a member of this module")),
    ("FX185", _says("wrap must be called at the top level")),
    ("FX141", _numpy_argument),
    ("FX175", _both(_type(NotImplementedError), _says("argument of type:"))),
    ("FX175", _says("Keys for dictionaries used as an argument cannot contain a Node")),
    ("FX150", _stores),
    ("FX151", _deletes),
    ("FX184", _in_context),
    ("FX184", _says("does not support the context manager protocol", "does not support the asynchronous context")),
    ("FX182", _structured),
    ("FX181", _transform),
    ("FX180", _scripted),
    ("FX130", _calls("int", "float", "complex")),
    ("FX131", _both(_type(TypeError), _calls("round", "ceil", "floor", "trunc", "sqrt", "log", "log2", "exp", "pow"))),
    ("FX132", _calls("divmod")),
    ("FX133", _calls("range")),
    ("FX140", _from_numpy),
    ("FX122", _calls(*_FROM_DATA)),
    ("FX121", _calls("reversed")),
    ("FX120", _says("'len' is not supported in symbolic tracing")),
    ("FX136", _formats),
    ("FX135", _both(_type(KeyError), lambda failure: "Proxy" in failure.text)),
    ("FX134", _both(_type(TypeError), _says("indices must be", "an __index__ method", "index must be"))),
    ("FX134", _both(_subscript, _says("cannot be interpreted as an integer"))),
    ("FX140", _numpy),
    ("FX160", _both(_type(TypeError, RuntimeError), _calls(*_CONSTRUCTORS))),
    ("FX160", _builds_module),
    ("FX160", _says("cannot be interpreted as an integer")),
    ("FX101", _both(_type(TraceError), _says("control flow"))),
    ("FX110", _type(TraceError)),
)

_TRACING_TEXTS = (
    "Proxy",
    "symbolic tracing",
    "symbolically traced",
    "argument of type:",
    "__array_struct__",
    "fx.proxy",
    "not installed as a submodule",
    "not a member of this module",
    "wrap must be called",
)


def about_tracing(error: BaseException) -> bool:
    """Whether ``error`` comes from tracing, rather than from the program itself."""
    return isinstance(error, TraceError) or any(text in str(error) for text in _TRACING_TEXTS)


def rule_of(failure: Failure) -> str:
    """The code of the rule for ``failure``; FX199 where the table has none."""
    return next((code for code, fits in _TABLE if fits(failure)), "FX199")
