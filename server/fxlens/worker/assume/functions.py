"""Functions whose calls tell something about their arguments."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .places import Place
from .values import Identity, Known, Sequence

if TYPE_CHECKING:
    from .calls import Calls

_MODULES = ("builtins", "copy", "functools", "einops.einops", "torch.functional")


class Functions:
    """Reads calls of Python's own functions, and of some of einops and torch, for `Calls`."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def named(self, name: str, module: str) -> Callable[..., Any] | None:
        """The reader of calls of this function; None for ordinary functions."""
        return getattr(self, f"of_{name}", None) if module in _MODULES else None

    def of_isinstance(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if len(args) == 2 and isinstance(args[0], Place) and isinstance(args[1], Known):
            kinds = args[1].value if isinstance(args[1].value, (tuple, list)) else (args[1].value,)
            for each in kinds:
                if isinstance(each, type):
                    args[0].use("isinstance", each)
        return None

    def of_len(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if args and isinstance(args[0], Place):
            args[0].use("length")
        return None

    def of_range(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        for each in args:
            if isinstance(each, Place):
                each.use("int", "range")
        return None

    def of_hasattr(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if len(args) == 2 and isinstance(args[0], Place) and isinstance(args[1], Known):
            args[0].use("hasattr", args[1].value)
        return None

    def of_getattr(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if len(args) < 2:
            return None
        owner, name = args[0], args[1]
        if isinstance(name, Place):
            if isinstance(owner, Known) and isinstance(owner.value, (ModuleType, type)):
                name.use("name_in", Identity(owner.value))
            else:
                name.use("string", "getattr")
            return None
        if isinstance(name, Known) and isinstance(name.value, str):
            if isinstance(owner, Place) and len(args) == 3:
                owner.use("hasattr", name.value)
                part = owner.part("attribute", name.value)
                part.default = args[2].value if isinstance(args[2], Known) else None
                return part
            return self._calls.body.attribute(owner, name.value)
        return None

    def of_enumerate(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        inner = self._calls.body.of_iterable(args[0]) if args else [None]
        if len(inner) > 1 or (args and isinstance(args[0], Known)):
            return Sequence([Sequence([Known(index), each]) for index, each in enumerate(inner)])
        return Sequence([Sequence([None, each]) for each in inner])

    def of_zip(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        places = [each for each in args if isinstance(each, Place)]
        for one in places:
            one.use("iterate")
            for other in args:
                if other is not one and isinstance(other, Place):
                    one.use("same_length", other)
        known = [self._calls.body.of_iterable(each) for each in args if isinstance(each, (Known, Sequence))]
        count = min((len(each) for each in known), default=1)
        rows = []
        for index in range(max(count, 1)):
            row: list[Any] = []
            for each in args:
                if isinstance(each, Place):
                    row.append(each.part("item", index) if known and count > 1 else each.part("item"))
                else:
                    items = self._calls.body.of_iterable(each)
                    row.append(items[min(index, len(items) - 1)])
            rows.append(Sequence(row))
        return Sequence(rows)

    def of_map(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if len(args) == 2:
            return Sequence([self._calls.apply(args[0], [self._calls.body.of_iterable(args[1])[0]], {})])
        return None

    def of_sum(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if args and isinstance(args[0], Place):
            args[0].use("iterate")
            args[0].part("item").use("arithmetic", "+")
        return None

    of_max = of_min = of_sum

    def of_callable(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if args and isinstance(args[0], Place):
            args[0].use("callable")
        return None

    def of_partial(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        return self._calls.apply(args[0], args[1:], kwargs) if args else None

    def of_str(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if args and isinstance(args[0], Place):
            args[0].use("format")
        return None

    def of_rearrange(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if len(args) < 2 or not isinstance(args[1], Known):
            return None
        pattern = str(args[1].value).split("->")[0].strip()
        if isinstance(args[0], Place):
            args[0].use("pattern", (pattern, _sizes(kwargs)))
        for place in self._calls.spread:
            for group in re.findall(r"\(([^)]*)\)", pattern):
                for name in group.split():
                    place.use("key", name)
                    place.part("key", name).use("int")
        return None

    of_reduce = of_repeat = of_rearrange

    def of_einsum(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        pattern = args[0].value if args and isinstance(args[0], Known) and isinstance(args[0].value, str) else ""
        tensors = args[1].items if len(args) == 2 and isinstance(args[1], Sequence) else args[1:]
        for part, each in zip(pattern.split("->")[0].split(","), tensors, strict=False):
            if isinstance(each, Place) and "." not in part:
                letters = part.split() if " " in part.strip() else list(part.strip())
                each.use("dims", tuple(letters))
        return None


def _sizes(kwargs: dict[str, Any]) -> tuple[tuple[str, int], ...]:
    return tuple(
        (name, value.value)
        for name, value in kwargs.items()
        if isinstance(value, Known) and isinstance(value.value, int) and not isinstance(value.value, bool)
    )
