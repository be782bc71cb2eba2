"""The table from an exception and its expression to a rule."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from torch import nn
from torch.distributions import Distribution

from fxlib.capture.sites import EndlessTrace
from fxlib.capture.tracer_base import TraceError
from fxlib.diagnosis.engine.absent_device import ABSENT_DEVICE
from fxlib.diagnosis.engine.forms import called_name
from fxlib.diagnosis.engine.place import Place
from fxlib.diagnosis.engine.raised import text_of

__all__ = ["Failure", "about_tracing", "classify", "rule_of"]


class Failure(NamedTuple):
    """An exception and where the user's code raised it. ``function`` is the object that the expression calls."""

    error: BaseException
    place: Place
    function: Any

    @property
    def text(self) -> str:
        return text_of(self.error)

    @property
    def name(self) -> str:
        return called_name(self.place.node)

    @property
    def last(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def owner(self) -> str:
        return getattr(self.function, "__module__", None) or ""


_SIZED = {
    "zeros", "ones", "empty", "rand", "randn", "new_zeros", "new_ones", "new_empty", "expand", "repeat", "reshape",
    "view",
}  # fmt: skip
_CONSTRUCTORS = {
    "full", "eye", "arange", "linspace", "logspace", "randint", "randperm", "new_full", "tril_indices", "triu_indices",
    "hann_window", "hamming_window", "Tensor", "FloatTensor", "DoubleTensor", "HalfTensor", "BFloat16Tensor",
    "LongTensor", "IntTensor", "ShortTensor", "CharTensor", "ByteTensor", "BoolTensor",
}  # fmt: skip
_MATH = {"round", "ceil", "floor", "trunc", "sqrt", "log", "log2", "exp", "pow"}
_FROM_DATA = frozenset({"tensor", "Size", "as_tensor", "asarray", "new_tensor", "sparse_coo_tensor"})
_REAL_TENSOR = (
    "Variable data has to be a tensor", "`__cuda_array_interface__` must be a dict", "not a storage 'Proxy'",
    "expected Tensor as argument",
)  # fmt: skip
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


def _by_text(failure: Failure) -> bool:
    """Whether the key of the item is a string, which never indexes a tensor."""
    node = failure.place.node
    key = node.slice if isinstance(node, ast.Subscript) else None
    return isinstance(key, ast.Constant) and isinstance(key.value, str)


def _deletes(failure: Failure) -> bool:
    return "doesn't support item deletion" in failure.text or "does not support item deletion" in failure.text


def _builds_module(failure: Failure) -> bool:
    return isinstance(failure.function, type) and issubclass(failure.function, nn.Module)


def _of_distributions(failure: Failure) -> bool:
    builds = isinstance(failure.function, type) and issubclass(failure.function, Distribution)
    return builds or (failure.last == "kl_divergence" and failure.owner.startswith("torch.distributions"))


def _transform(failure: Failure) -> bool:
    node = failure.place.node
    inner = node.func if isinstance(node, ast.Call) else None
    return (
        failure.owner.startswith("torch._functorch")
        or called_name(inner).rpartition(".")[2] in _TRANSFORMS
        or failure.last in _TRANSFORMS
    )


def _structured(failure: Failure) -> bool:
    if isinstance(failure.error, ImportError):
        return False  # another function of this name
    return failure.last in ("cond", "while_loop", "scan", "map") or failure.last.startswith(("_check", "check"))


def _formats(failure: Failure) -> bool:
    node = failure.place.node
    percent = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant)
    return percent or ("format" in failure.text and ("__format__" in failure.text or "%" in failure.text))


def _says_type(failure: Failure) -> str:
    found = re.search(r"<class '(?:.*\.)?(\w+)'>", failure.text)
    kind = f"type `{found[1]}`" if found else "this type"
    return f"A graph cannot hold an argument of {kind}: `{failure.place.text}`"


def _assigned(failure: Failure) -> bool:
    node = failure.place.node
    return isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)


def _says_held(failure: Failure) -> str:
    return f"`{failure.place.text}` can be set to a real tensor only, and is set to a traced value"


def _says_number(failure: Failure) -> str:
    what = f"`{failure.name}`" if failure.name else "This"
    return f"{what} needs Python numbers, but gets a traced value: `{failure.place.text}`"


class _Row(NamedTuple):
    """``says`` is the first sentence of a finding, ``advice`` the second, if they differ from the rule's."""

    code: str
    fits: Callable[[Failure], bool]
    says: Callable[[Failure], str] | None = None
    advice: str = ""


def _remote(failure: Failure) -> bool:
    return failure.owner.startswith("torch.distributed.rpc")


_NO_DATA = (
    "on meta tensors", "with Meta tensors", "meta device type tensor", "meta tensor;", "a meta tensor", "register_meta",
    "'meta' device",
)  # fmt: skip
"""Torch's error for reading the data of a real tensor that has none."""

_TRACED = ("Proxy", "Attribute")
"""Types of traced values in Python's messages."""

_TABLE = (
    _Row("FX310", _type(RecursionError)),
    _Row("FX199", _says(*ABSENT_DEVICE)),
    _Row("FX199", _says(*_NO_DATA), advice="The module is on the meta device, where tensors have no data"),
    _Row("FX172", _type(EndlessTrace)),
    _Row("FX170", _says("module is not installed as a submodule")),
    _Row("FX171", _says("parameter is not a member of this module")),
    _Row("FX185", _says("wrap must be called at the top level")),
    _Row("FX141", _numpy_argument),
    _Row("FX175", _both(_type(NotImplementedError), _says("argument of type:")), _says_type),
    _Row("FX175", _says("Keys for dictionaries used as an argument cannot contain a Node")),
    _Row("FX150", _both(_stores, _by_text), advice="Build a new container with the item"),
    _Row("FX150", _stores),
    _Row("FX151", _deletes),
    _Row("FX184", _in_context),
    _Row("FX184", _says("does not support the context manager protocol", "does not support the asynchronous context")),
    _Row("FX182", _structured),
    _Row("FX181", _transform),
    _Row("FX180", _scripted),
    _Row("FX188", _of_distributions),
    _Row("FX130", _calls("int", "float", "complex")),
    _Row("FX131", _both(_type(TypeError), _calls(*_MATH))),
    _Row("FX132", _calls("divmod")),
    _Row("FX133", _calls("range")),
    _Row("FX140", _from_numpy),
    _Row("FX122", _calls(*_FROM_DATA)),
    _Row("FX121", _calls("reversed")),
    _Row("FX120", _says("'len' is not supported in symbolic tracing")),
    _Row("FX136", _formats),
    _Row("FX135", _both(_type(KeyError), lambda failure: "Proxy" in failure.text)),
    _Row("FX134", _both(_type(TypeError), _says("an __index__ method", "index must be"))),
    _Row("FX134", _both(_both(_type(TypeError), _says("indices must be")), _says(*_TRACED))),
    _Row("FX134", _both(_both(_subscript, _says("cannot be interpreted as an integer")), _says(*_TRACED))),
    _Row("FX141", _both(lambda failure: isinstance(failure.place.node, (ast.BinOp, ast.AugAssign)), _numpy)),
    _Row("FX140", _numpy),
    _Row("FX160", _both(_type(TypeError, RuntimeError), _calls(*_SIZED))),
    _Row("FX160", _both(_type(TypeError, RuntimeError), _calls(*_CONSTRUCTORS)), _says_number),
    _Row("FX160", _builds_module, _says_number),
    _Row("FX160", _says("cannot be interpreted as an integer"), _says_number),
    _Row("FX186", _both(_assigned, _says(*_REAL_TENSOR)), _says_held, "Set it outside of forward"),
    _Row("FX186", _both(_type(TypeError, RuntimeError), _says(*_REAL_TENSOR))),
    _Row("FX101", _both(_type(TraceError), _says("control flow"))),
    _Row("FX110", _type(TraceError)),
    _Row("FX199", _remote, advice="fxlib.passes.schedule_rpc.RpcTracer records remote calls"),
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
    return isinstance(error, TraceError) or any(text in text_of(error) for text in _TRACING_TEXTS)


def classify(failure: Failure) -> tuple[str, str, str]:
    """The code of the rule for ``failure``, FX199 if the table has none, and the first and second sentence of the
    finding, empty for the rule's own."""
    row = next((row for row in _TABLE if row.fits(failure)), None)
    if row is None:
        return "FX199", "", ""
    return row.code, "" if row.says is None else row.says(failure), row.advice


def rule_of(failure: Failure) -> str:
    """The code of the rule for ``failure``."""
    return classify(failure)[0]
