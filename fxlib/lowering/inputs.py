"""The inputs of a model: the arguments of an example call, split into tensors and constants.

A lowered model takes the tensors. Everything else in the example is a constant of the graph, so a call with another
value is rejected.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from fxlib.capture.root_arguments import PH
from fxlib.lowering.guards import Guard
from fxlib.lowering.structure import Constant, Form, put_together, same_form, take_apart

Range = tuple[int, int | None]
"""The smallest and the largest size of a dimension; None if unbounded."""
Dynamic = Mapping[str, Sequence[int] | Mapping[int, Range]] | bool | None
"""The dimensions that may change: input name -> dimensions, or a mapping of them to ranges, for engines that are built
for a range of sizes; True means dimension 0 of every tensor; None means none."""

_ANY: Range = (0, None)
_STARRED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Inputs:
    """The arguments of one example call.

    Attributes:
        tensors: the example's tensors, in order.
        labels: a name for each: `x`, or `x[0]` where the argument `x` holds several.
        ranges: for each, the dimensions that may change, and their ranges; None if unknown.
        sizes: the shape that each must have in a call, with a range for each dynamic size.
    """

    def __init__(
        self, forward: Callable[..., Any], example: Sequence[Any] | Mapping[str, Any], dynamic: Dynamic = None,
        concrete_args: Mapping[str, Any] | None = None, caller: str = "lower()",
    ) -> None:  # fmt: skip
        """Split an example call.

        Args:
            forward: what is called.
            example: one value for each of its arguments, or a mapping of their names to values. Arguments with defaults
                may be left out.
            dynamic: the dimensions that may change between calls.
            concrete_args: further arguments by name; they take precedence.
            caller: the prefix of error texts.

        Raises:
            TypeError: `example` is neither, or does not fit the signature of `forward`.
            ValueError: `dynamic` names an unknown argument or dimension.
        """
        self._parameters = list(inspect.signature(forward).parameters.values())
        args, kwargs = _arguments(example, caller)
        self._check_names(concrete_args or {}, caller)
        given = self._bound(args, kwargs, caller, concrete_args or {})
        self.forms: dict[str, Form] = {}
        self.tensors: list[torch.Tensor] = []
        self.labels: list[str] = []
        self._owners: list[str] = []
        for name, value in given.items():
            tensors, form = take_apart(value)
            if _shown(form) == "a numpy.ndarray":
                raise TypeError(_of_numpy(caller, name))
            self.forms[name] = form
            self.tensors += tensors
            self.labels += form.labels(name)
            self._owners += [name] * len(tensors)
        first = self._parameters[: len(self.forms)]
        in_order = [each.name for each in first if each.kind in _POSITIONAL] == list(self.forms)
        self._plain = in_order and all(form.single for form in self.forms.values())
        self.ranges = self._ranges(dynamic, caller)
        self.dims = [sorted(each) for each in self.ranges]
        self.sizes = [
            tuple(ranges[axis] or _ANY if axis in ranges else size for axis, size in enumerate(tensor.shape))
            for tensor, ranges in zip(self.tensors, self.ranges, strict=True)
        ]
        self.dtypes = [tensor.dtype for tensor in self.tensors]
        self.guards: list[Guard] = []
        """Conditions on the sizes of a call, besides `sizes`."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "tensors": [], "_parameters": [_plain(each) for each in self._parameters]}

    # -- for a capture

    def concrete_args(self) -> dict[str, Any] | None:
        """The arguments that are not plain tensors, as `fxlib.symbolic_trace` takes them; None if there are none."""
        held: dict[str, Any] = {}
        for name, form in self.forms.items():
            if not form.single:
                held[name] = put_together(form, iter([PH] * form.count()))
        for parameter in self._omitted():
            if parameter.kind not in _STARRED:
                held[parameter.name] = parameter.default
        return held or None

    def by_placeholder(self, leaves: bool) -> list[Form]:
        """The form of each placeholder of a trace: that of an argument, or with `leaves` of one leaf of it. Arguments
        left out have their default."""
        empty: dict[Any, Any] = {inspect.Parameter.VAR_POSITIONAL: (), inspect.Parameter.VAR_KEYWORD: {}}
        found: list[Form] = []
        for each in self._parameters:
            form = self.forms.get(each.name) or take_apart(empty.get(each.kind, each.default))[1]
            found += form.split() if leaves and each.kind not in empty else [form]
        return found

    def call(self, model: Callable[..., Any], tensors: Sequence[Any]) -> Any:
        """`model`, called as in the example but with these tensors."""
        rest = iter(tensors)
        values: Any = {name: put_together(form, rest) for name, form in self.forms.items()}
        bound = inspect.BoundArguments(inspect.Signature(self._parameters), values)
        return model(*bound.args, **bound.kwargs)

    # -- for a call of the lowered model

    def of_call(self, args: tuple[Any, ...], kwargs: dict[str, Any], caller: str) -> Sequence[torch.Tensor]:
        """The tensors of a call, in the order of the example's.

        Raises:
            TypeError: the arguments do not fit the signature, or one is of another kind than in the example.
            ValueError: a constant has another value than in the example.
        """
        if self._plain and not kwargs and len(args) == len(self.forms):
            for value in args:
                if not isinstance(value, torch.Tensor):
                    break
            else:
                return args
        given = self._bound(args, kwargs, caller)
        tensors: list[torch.Tensor] = []
        for name, form in self.forms.items():
            if name not in given:
                raise TypeError(f"{caller} needs the argument {name!r}: the model was lowered with it")
            found, there = take_apart(given.pop(name))
            if not same_form(form, there):
                raise _other(caller, name, form, there)
            tensors += found
        defaults = {each.name: each.default for each in self._omitted()}
        for name, value in given.items():
            held, default = (take_apart(each)[1] for each in (value, defaults.get(name)))
            if value is not defaults.get(name) and not same_form(held, default):
                raise ValueError(
                    f"{caller} got {name!r}, which was left out when the model was lowered; lower it with an example "
                    "that has it"
                )
        return tensors

    def problem(self, tensors: Sequence[Any], caller: str) -> Exception | None:
        """The problem with the tensors on which a lowered model failed; None if they match the example."""
        for label, tensor, dtype, sizes in zip(self.labels, tensors, self.dtypes, self.sizes, strict=True):
            if tensor.is_meta or tensor.layout != torch.strided:
                kind = "on the meta device" if tensor.is_meta else f"in the layout {tensor.layout}"
                return TypeError(f"{caller} got {label!r} {kind}, but an engine needs dense tensors that have data")
            if tensor.dtype != dtype:
                return TypeError(f"{caller} got {label!r} of {tensor.dtype}, but the model was lowered for {dtype}")
            if len(sizes) != tensor.dim() or not all(map(_fits, sizes, tensor.shape)):
                wanted = f"[{', '.join(map(_size_shown, sizes))}]"
                return ValueError(
                    f"{caller} got {label!r} of shape {list(tensor.shape)}, but the model was lowered for {wanted}; "
                    "dynamic= of lower() lets sizes change"
                )
        return None

    def conditions(self) -> list[str]:
        """`guards` as text."""
        return [guard.shown(self.labels) for guard in self.guards]

    def check_sizes(self, tensors: Sequence[torch.Tensor], caller: str) -> None:
        """
        Raises:
            TypeError: a tensor is not dense, has no data, or has another dtype than the example's.
            ValueError: a size is not dynamic and another than the example's; or with these sizes forward would take
                another branch than it did for the capture.
        """
        if not all(map(_alike, tensors, self.sizes, self.dtypes)) and (problem := self.problem(tensors, caller)):
            raise problem
        for guard in self.guards:
            if not guard.holds(tensors):
                shapes = ", ".join(f"{n} of shape {list(t.shape)}" for n, t in zip(self.labels, tensors, strict=True))
                raise ValueError(
                    f"{caller} got {shapes}, but the model was captured for {guard.shown(self.labels)}: forward takes "
                    "another branch otherwise"
                )

    # -- inside

    def _bound(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], caller: str, more: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Parameter name -> value, for the given ones, in the order of the signature."""
        if more:
            later = {each.name for each in self._parameters[len(args) :]}
            kwargs = {**kwargs, **{name: value for name, value in more.items() if name in later}}
        try:
            given = dict(inspect.Signature(self._parameters).bind(*args, **kwargs).arguments)
        except TypeError:
            raise TypeError(f"{caller} {_misfit(self._parameters, args, kwargs)}") from None
        return {name: (more or {}).get(name, value) for name, value in given.items()}

    def _check_names(self, concrete_args: Mapping[str, Any], caller: str) -> None:
        names = [each.name for each in self._parameters]
        if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in self._parameters):
            return
        for name in concrete_args:
            if name not in names:
                raise ValueError(
                    f"{caller} got {name!r} in concrete_args, but the arguments of forward are {', '.join(names)}"
                )

    def _omitted(self) -> list[inspect.Parameter]:
        return [each for each in self._parameters if each.name not in self.forms]

    def _ranges(self, dynamic: Dynamic, caller: str) -> list[dict[int, Range | None]]:
        """The dimensions of each tensor that may change, with their ranges if known."""
        if isinstance(dynamic, Mapping):
            for name, dims in dynamic.items():
                self._check_dynamic(name, dims, caller)
        elif dynamic not in (None, True, False):
            raise TypeError(
                f"{caller}: dynamic must be True or a mapping of argument names to dimensions, not "
                f"{type(dynamic).__name__}"
            )
        found = []
        for owner, tensor in zip(self._owners, self.tensors, strict=True):
            wanted = dynamic.get(owner, ()) if isinstance(dynamic, Mapping) else [0] if dynamic else []
            ranges = wanted if isinstance(wanted, Mapping) else dict.fromkeys(wanted)
            found.append({dim % tensor.dim(): ranges[dim] for dim in wanted} if tensor.dim() else {})
        return found

    def _check_dynamic(self, name: str, dims: Any, caller: str) -> None:
        there = [tensor for owner, tensor in zip(self._owners, self.tensors, strict=True) if owner == name]
        if not there:
            raise ValueError(
                f"{caller} has no input {name!r} that dynamic could name; its tensors are in "
                f"{', '.join(dict.fromkeys(self._owners)) or 'no argument'}"
            )
        listed = isinstance(dims, (list, tuple, set, frozenset, range, Mapping))
        if not listed or not all(type(dim) is int for dim in dims):
            raise TypeError(
                f"{caller} takes dimensions as a tuple of integers: dynamic={{{name!r}: (0,)}}, or as a mapping of "
                f"them to their smallest and largest sizes: dynamic={{{name!r}: {{0: (1, 64)}}}}, not {dims!r}"
            )
        for dim in dims:
            if isinstance(dims, Mapping) and not _is_range(dims[dim]):
                raise TypeError(
                    f"{caller} takes the range of a dimension as its smallest and its largest size, both 1 or "
                    f"more, or None for no end: dynamic={{{name!r}: {{{dim}: (1, 64)}}}}, not {dims[dim]!r}"
                )
            for tensor in there:
                if not -tensor.dim() <= dim < tensor.dim():
                    raise ValueError(
                        f"{caller} got dimension {dim} of {name!r} in dynamic, but it has {tensor.dim()} dimensions"
                    )
                if isinstance(dims, Mapping) and dim < 0 and dim + tensor.dim() in dims:
                    raise ValueError(
                        f"{caller} got two ranges for dimension {dim + tensor.dim()} of {name!r} in dynamic, which is "
                        f"also dimension {dim}; leave one out"
                    )
                if isinstance(dims, Mapping) and not _fits(dims[dim], tensor.shape[dim]):
                    raise ValueError(
                        f"{caller} got {_size_shown(dims[dim])} for dimension {dim} of {name!r} in dynamic, but the "
                        f"example has {tensor.shape[dim]}"
                    )


def _alike(tensor: torch.Tensor, sizes: tuple[int | Range, ...], dtype: torch.dtype) -> bool:
    """Whether it is a tensor with data that has the example's dtype, and its sizes where they are not dynamic."""
    shape = tensor.shape
    same = shape == sizes or (
        len(shape) == len(sizes)
        and all(have == size or type(size) is tuple for have, size in zip(shape, sizes, strict=True))
    )
    return same and tensor.dtype is dtype and tensor.layout is torch.strided and not tensor.is_meta


def _fits(size: int | Range, there: int) -> bool:
    if isinstance(size, int):
        return size == there
    return size[0] <= there and (size[1] is None or there <= size[1])


def _size_shown(size: int | Range) -> str:
    if isinstance(size, int):
        return str(size)
    low, high = size
    if high is None:
        return "any" if low <= 1 else f"{low} or more"
    return f"{low} to {high}"


def _is_range(value: Any) -> bool:
    if not isinstance(value, (tuple, list)) or len(value) != 2 or not isinstance(value[0], int):
        return False
    return value[1] is None or (isinstance(value[1], int) and 0 < value[0] <= value[1])


def _arguments(example: Any, caller: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(example, Mapping):
        return (), dict(example)
    if isinstance(example, (tuple, list)):
        return tuple(example), {}
    hint = "; put it into a tuple: (x,)" if isinstance(example, torch.Tensor) else ""
    raise TypeError(
        f"{caller}: example_inputs must be a tuple with one value for each argument of forward, or a mapping of their "
        f"names to values, not {_kind_of(example)}{hint}"
    )


def _misfit(parameters: Sequence[inspect.Parameter], args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Why arguments do not fit a signature."""
    named = [p for p in parameters if p.kind not in _STARRED]
    places = [p for p in named if p.kind in _POSITIONAL]
    listed = ", ".join(p.name for p in named) or "none"
    if len(args) > len(places):
        return f"got {len(args)} inputs, but forward takes {len(places)}: {listed}"
    for name in kwargs:
        if name not in [p.name for p in named]:
            return f"got an input {name!r}, but the arguments of forward are {listed}"
        if name in [p.name for p in places[: len(args)]]:
            return f"got the input {name!r} twice"
    missing = [p.name for p in named[len(args) :] if p.name not in kwargs and p.default is inspect.Parameter.empty]
    return f"got no input for {', '.join(map(repr, missing))}; the arguments of forward are {listed}"


def _other(caller: str, name: str, form: Form, there: Form) -> Exception:
    """The error for an argument that differs from the example."""
    was, now = _shown(form), _shown(there)
    if form.single and now == "a numpy.ndarray":
        return TypeError(_of_numpy(caller, name))
    kind = ValueError if form.count() == there.count() == 0 else TypeError
    return kind(f"{caller} got {name!r} as {now}, but it was {was} when the model was lowered; lower the model for it")


def _of_numpy(caller: str, name: str) -> str:
    return f"{caller} got {name!r} as a numpy.ndarray, but takes tensors; torch.from_numpy() makes one of it"


def _shown(form: Form) -> str:
    if form.single:
        return "a tensor"
    if form.spec.is_leaf() and isinstance(form.leaves[0], Constant):
        value = form.leaves[0].value
        return repr(value) if value is None or isinstance(value, (bool, int, float, str)) else _kind_of(value)
    return f"a {getattr(form.spec.type, '__name__', 'structure')} of {form.count()} tensors"


def _kind_of(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return "a tensor"
    module = type(value).__module__
    name = type(value).__qualname__ if module == "builtins" else f"{module}.{type(value).__qualname__}"
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _plain(parameter: inspect.Parameter) -> inspect.Parameter:
    """Without its annotation, which may not be picklable."""
    return parameter.replace(annotation=inspect.Parameter.empty)
