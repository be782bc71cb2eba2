"""Proxies: the values that flow through a program while it is traced and record what happens to them.

A `Proxy` stands for the value of one node. Every operation on it makes its tracer (`tracer_base`) append a node, and
returns the proxy of that node. Operations that Python does not let us record, such as ``bool`` or ``len``, call a
method of the tracer, which raises by default.
"""

from __future__ import annotations

import copy
import logging
import operator
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
import torch.overrides
from torch.utils import _pytree as pytree

from fxlib.capture.bytecode import is_assertion, unpack_count
from fxlib.interop.torch_side import foreign_proxy
from fxlib.ir.format import magic_methods, reflectable_magic_methods
from fxlib.ir.node import Node

if TYPE_CHECKING:
    from fxlib.capture.tracer_base import TracerBase
    from fxlib.ir.graph import Graph

__all__ = [
    "Attribute",
    "Proxy",
    "assert_fn",
]

log = logging.getLogger(__name__)


def assert_fn(x: object) -> None:
    """Raise AssertionError unless ``x`` is true: what an ``assert`` becomes under ``Tracer.trace_asserts``."""
    if not x:
        raise AssertionError("Assertion failed")


# The class of tracers that append to a graph, set by `fxlib.capture.tracer_base`.
_tracer_of_graph: Callable[[Graph], TracerBase] = None  # type: ignore[assignment]


def _new_proxy(kind: type[Proxy]) -> Proxy:
    """An empty proxy, for copying and unpickling."""
    return object.__new__(kind)


class Proxy:
    """The stand-in for the value of a node while a program is traced.

    Operators, attributes, methods, and torch functions called with a proxy are recorded as nodes of the graph.
    ``Proxy(node)`` wraps an existing node, so that further nodes can be written as Python expressions: a convenient way
    to write a decomposition.

    A proxy has no value, so it cannot decide an ``if``, be iterated, or have a length. Unpacking into a fixed number
    of names works. To keep other code out of the graph, put it in a function registered with `fxlib.wrap`.

    Args:
        node: the node whose value this is.
        tracer: appends the nodes; by default to the node's own graph.
    """

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = _tracer_of_graph(node.graph) if tracer is None else tracer
        self.node = node

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        # Libraries check `isinstance(x, torch.fx.Proxy)` to skip checks in a trace; `type(x)` still gives the real
        # class.
        return foreign_proxy if type(self) is Proxy else type(self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _new_proxy, (type(self),), self.__getstate__()

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Attribute:
        return Attribute(self, k)

    # Defined here so that copying and pickling do not record attribute reads.

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, d: dict[str, Any]) -> None:
        self.__dict__ = d

    def __deepcopy__(self, memo: dict[int, Any]) -> Proxy:
        clone = memo[id(self)] = _new_proxy(Proxy)
        clone.__dict__.update((name, _copied(self, name, memo)) for name in self.__dict__)
        return clone

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer._emit("call_method", "__call__", (self, *args), kwargs)

    def __abs__(self) -> Proxy:
        return self.tracer._emit("call_function", operator.abs, (self,), {})

    def __iter__(self) -> Iterator[Proxy]:
        count = unpack_count(sys._getframe(1))
        if count is not None:
            return map(self.__getitem__, range(count))
        return self.tracer.iter(self)

    def __bool__(self) -> bool:
        tracer = self.tracer
        if tracer.trace_asserts and is_assertion(sys._getframe(1)):
            tracer._emit("call_function", assert_fn, (self,), {})
            return True
        return tracer.to_bool(self)

    def keys(self) -> Any:
        """The result of ``proxy.keys()``, also used by ``**proxy``; the tracer decides."""
        return self.tracer.keys(self)

    def __len__(self) -> int:
        return self.tracer._length(self)

    __hash__ = object.__hash__

    @classmethod
    def __torch_function__(
        cls,
        orig_method: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        args = args or ()
        kwargs = kwargs or {}
        tracer = _tracer_of(orig_method, args, kwargs)
        try:
            kind, name = _torch_calls[orig_method]
        except (KeyError, TypeError):
            kind, name = _classify(orig_method)
        if kind == "call_method":
            if name is None:
                script_method: Any = orig_method
                return tracer._emit("call_method", script_method.name, (script_method.owner, *args), kwargs)
            return tracer._emit("call_method", name, args, kwargs)
        if kind == "higher_order":
            found = _arbitrary_callable(args, kwargs)
            if found is not None:
                raise RuntimeError(
                    f"Unable to symbolically trace the HigherOrderOperator {orig_method._name} because it received "  # type: ignore[attr-defined]
                    f"an arbitrary callable argument {found}. Use make_fx or dynamo tracing instead."
                )
        return tracer._emit("call_function", orig_method, args, kwargs, tracer.graph._target_to_str(name))


def _copied(proxy: Proxy, name: str, memo: dict[int, Any]) -> Any:
    """A deep copy of an attribute, or a shallow one if that fails, as for objects that hold modules."""
    value = proxy.__dict__[name]
    try:
        return copy.deepcopy(value, memo)
    except Exception:
        log.warning(
            "Shallow copy %s of Proxy because it cannot be deepcopied. Proxy is created for node %s",
            name,
            proxy.node.name,
        )
    return copy.copy(value)


# torch function -> (kind of call, name), cached because querying torch is slow.
_torch_calls: dict[Callable[..., Any], tuple[str, str | None]] = {}


def _classify(function: Any) -> tuple[str, str | None]:
    if isinstance(function, torch._C.ScriptMethod):
        return "call_method", None
    if torch.overrides.is_tensor_method_or_property(function):
        found: tuple[str, str | None] = ("call_method", function.__name__)
    elif isinstance(function, torch._ops.HigherOrderOperator):
        return "higher_order", function.__name__
    else:
        found = ("call_function", function.__name__)
    if len(_torch_calls) < 10_000 and isinstance(function, _LASTING):
        _torch_calls[function] = found
    return found


_LASTING = (type(torch.add), type(torch.nn.functional.relu), type(torch.Tensor.add))


def _tracer_of(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> TracerBase:
    """The one tracer of all proxies among the arguments.

    Raises:
        RuntimeError: proxies of several tracers meet in one call.
    """
    found: dict[TracerBase, None] = {}

    for value in (*args, *kwargs.values()) if kwargs else args:
        if type(value) is Proxy:
            found[value.tracer] = None
        elif type(value) not in _PLAIN:
            found.update((leaf.tracer, None) for leaf in pytree.tree_leaves(value) if isinstance(leaf, Proxy))
    if len(found) != 1:
        raise RuntimeError(
            f"Found multiple different tracers {list(found)} while trying to trace operations {function}"
        )
    return next(iter(found))


_PLAIN = frozenset({bool, int, float, str, type(None), torch.dtype, torch.device})


def _arbitrary_callable(args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
    """The first argument that is a callable and cannot be in a graph: a function or other object, not a module."""
    for value in pytree.tree_leaves((args, kwargs)):
        if callable(value) and not isinstance(value, (torch.nn.Module, Proxy)):
            return value
    return None


class Attribute(Proxy):
    """``proxy.name``, before it is known whether it is a method about to be called or a value.

    A call becomes one ``call_method`` node; any other use makes a ``getattr`` node on the first access of `node`.
    """

    _node: Node | None

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root, self.attr, self._node = root, attr, None
        tracer = self.tracer = root.tracer
        if tracer._tracing:
            # Recorded here, because the node is made later, where the value is used.
            self._site = tracer._take_site(sys._getframe(2))

    @property
    def node(self) -> Node:  # type: ignore[override]
        return self._node or _read(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer._emit("call_method", self.attr, (self.root, *args), kwargs)


def _read(attribute: Attribute) -> Node:
    """Make the node of an attribute that is used as a value."""
    owner, site = attribute.root, attribute.__dict__.get("_site")
    owner.node  # noqa: B018 - makes the node of an unused attribute of an attribute first
    value = owner.tracer._emit("call_function", getattr, (owner, attribute.attr), {}, None, site)
    attribute._node = value.node
    return value.node


def _unary(target: Any) -> Callable[..., Proxy]:
    return lambda self: self.tracer._emit("call_function", target, (self,), {})


def _binary(target: Any) -> Callable[..., Proxy]:
    return lambda self, other: self.tracer._emit("call_function", target, (self, other), {})


def _power(target: Any) -> Callable[..., Proxy]:
    return lambda self, other, *modulus: self.tracer._emit("call_function", target, (self, other, *modulus), {})


def _reflected(target: Any) -> Callable[..., Proxy]:
    return lambda self, other: self.tracer._emit("call_function", target, (other, self), {})


def _absent(name: str) -> Callable[..., Proxy]:
    return lambda self, other: getattr(operator, name)  # raises Python's own AttributeError


def _define(prefix: str, name: str, recording: Callable[[Any], Callable[..., Proxy]]) -> None:
    """Define the method of `Proxy` for an operator; ``and_`` and ``or_`` are keywords with an underscore."""
    target = getattr(operator, name, None)
    method = _absent(name) if target is None else recording(target)
    method.__name__ = f"__{prefix}{name.strip('_')}__"
    method.__qualname__ = f"Proxy.{method.__name__}"
    setattr(Proxy, method.__name__, method)


_FORMS = {"pos": _unary, "neg": _unary, "invert": _unary, "pow": _power}
for _name in magic_methods:
    _define("", _name, _FORMS.get(_name, _binary))
for _name in reflectable_magic_methods:
    _define("r", _name, _reflected)
# The public module path of these names, which error texts show.
for _cls in (Proxy, Attribute):
    _cls.__module__ = "fxlib.proxy"
