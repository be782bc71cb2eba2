"""The values of nodes on the example inputs: shapes, dtypes and plain Python values, without data.

Values are computed only when needed, from the first node without a value up to the requested one.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any

import torch

from fxlib.capture.proxy import Proxy
from fxlib.diagnosis.engine import holes
from fxlib.diagnosis.engine.tracers import ContinuingTracer
from fxlib.ir.node import Node
from fxlib.shapes import DataDependentError, ShapeError, TensorMeta, infer, map_values

__all__ = ["PLAIN", "UNKNOWN", "Unknown", "Values", "describe", "show"]


log = logging.getLogger(__name__)


class Unknown:
    """A value that does not follow from metadata. ``data`` is true when it depends on the data in tensors."""

    __slots__ = ("data",)

    def __init__(self, data: bool) -> None:
        self.data = data

    def __repr__(self) -> str:
        return "a value that depends on data" if self.data else "an unknown value"


UNKNOWN = Unknown(False)
PLAIN = Unknown(False)
"""The value of an expression that reads no traced value and raises: nothing else is known about it."""
_DATA = Unknown(True)
_CPU = torch.device("cpu")
_SCALARS = frozenset((int, float, bool, str, type(None)))


def describe(value: Any) -> Any:
    """An example input, or a parameter, without its data. Tensors on the meta device count as tensors on the CPU: the
    device of a model without memory says nothing about where it will run."""

    def one(item: Any) -> Any:
        if isinstance(item, torch.Tensor):
            meta = TensorMeta.of(item)
            if meta.device.type == "meta":
                meta = TensorMeta(meta.shape, meta.dtype, _CPU, meta.strides, meta.requires_grad)
            return meta
        return item

    return map_values(value, one)


def show(value: Any) -> str:
    """A value as a message shows it, on one short line."""
    if isinstance(value, TensorMeta):
        return f"a tensor {value}"
    # Strides of nested tensors do not help here.
    text = re.sub(r"(?<=\]):\[[\d, ]*\]", "", " ".join(repr(value).split()))
    return text if len(text) <= 60 else text[:57] + "..."


def _raised_by_a_rule(error: BaseException) -> bool:
    """Whether an exception comes from a shape rule itself, which is a bug. (A missing attribute of a value is not: it
    is read there.)"""
    at = None if isinstance(error, AttributeError) else error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return at is not None and at.tb_frame.f_globals.get("__name__", "").startswith("fxlib.shapes.")


def _never_needs(node: Any, value: Any) -> bool:
    """Whether a tensor is an input that needs no gradient, also after `backward`."""
    known = node.op == "placeholder" and isinstance(value, TensorMeta) and not value.requires_grad
    return known and all(user.target != "requires_grad_" for user in node.users)


class Values:
    """The values of the nodes of one growing graph.

    ``inputs`` gives the value of each placeholder by its name; placeholders that are not in it are unknown. ``errors``
    holds torch's errors for nodes whose inputs do not fit.
    """

    def __init__(self, tracer: ContinuingTracer, inputs: Mapping[str, Any]) -> None:
        self.tracer = tracer
        self.inputs = inputs
        self.errors: dict[Node, ShapeError] = {}
        self.known: dict[Node, Any] = {}
        self._last: Node | None = None
        self._differentiated = False

    def of(self, node: Node) -> Any:
        """The value of ``node``, or an `Unknown`."""
        if node not in self.known:
            self.upto(node)
        return self.known.get(node, UNKNOWN)

    def upto(self, node: Node) -> None:
        """Compute the values of all nodes up to ``node``."""
        at = self._last.next if self._last is not None else next(iter(node.graph.nodes))
        while at.op != "root":
            if at not in self.known:
                self.known[at] = self._value(at)
            self._last = at
            if at is node:
                break
            at = at.next

    def _value(self, node: Node) -> Any:
        if node.op == "placeholder":
            return self.inputs.get(node.target, UNKNOWN)
        unknown: list[Unknown] = []
        args = self._filled(node.args, unknown)
        kwargs = self._filled(node.kwargs, unknown) if node.kwargs else {}
        if unknown:
            return _DATA if any(item.data for item in unknown) else UNKNOWN
        if node.op == "output":
            return args[0]
        if node.target is holes.hole:
            return UNKNOWN
        self._differentiated |= node.target in ("backward", torch.autograd.backward)
        if self._differentiated and node.target is getattr and args[1:2] == ("grad",):
            return None if _never_needs(node.args[0], args[0]) else UNKNOWN
        if node.op == "call_method" and isinstance(args[0], dict) and node.target in ("items", "keys", "values"):
            return list(getattr(args[0], node.target)())
        try:
            root, target = self.tracer.root, node.target
            if self.tracer.strangers and node.op in ("call_module", "get_attr"):
                root, target = self.tracer.holder(target)
            value = infer(node.op, target, args, kwargs, root)
        except DataDependentError:
            return _DATA
        except ShapeError as error:
            self.errors[node] = error
            return UNKNOWN
        except Exception as error:
            # User functions run here on tensors without data; their exceptions say nothing about the model.
            if _raised_by_a_rule(error):
                log.exception("the shape of %s %s was not found; its value counts as unknown", node.op, node.target)
            return UNKNOWN
        if isinstance(value, Proxy):
            return UNKNOWN
        # Objects among the examples may hold real tensors.
        if isinstance(value, (torch.Tensor, list, tuple, dict)):
            return describe(value)
        if node.op == "get_attr" and isinstance(value, TensorMeta) and value.device.type == "meta":
            return TensorMeta(value.shape, value.dtype, _CPU, value.strides, value.requires_grad)
        return value

    def _filled(self, argument: Any, unknown: list[Unknown]) -> Any:
        kind = type(argument)
        if kind is Node:
            value = self.known.get(argument, UNKNOWN)
            if type(value) is Unknown:
                unknown.append(value)
            return value
        if kind in _SCALARS:
            return argument
        if isinstance(argument, tuple):
            items = [self._filled(item, unknown) for item in argument]
            return kind(*items) if hasattr(argument, "_fields") else tuple(items)
        if isinstance(argument, list):
            return [self._filled(item, unknown) for item in argument]
        if isinstance(argument, dict):
            return {key: self._filled(item, unknown) for key, item in argument.items()}
        if kind is slice:
            return slice(
                self._filled(argument.start, unknown),
                self._filled(argument.stop, unknown),
                self._filled(argument.step, unknown),
            )
        return argument
