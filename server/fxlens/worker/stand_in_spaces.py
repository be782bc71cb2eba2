"""Stand-ins for the spaces of gym and gymnasium, if neither is installed, since policies are constructed from them."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

GYMS = ("gymnasium", "gym")


def stands_for(name: str) -> Any:
    """The module ``gymnasium.spaces``, or a member of it, for this dotted name; None for others."""
    package, _, inside = name.partition(".")
    if package not in GYMS or not (inside == "Space" or inside.partition(".")[0] == "spaces"):
        return None
    module = _module(package)
    return module if inside == "spaces" else vars(module).get(name.rpartition(".")[2])


@functools.cache
def _module(package: str) -> ModuleType:
    from .placeholders import PlaceholderModule

    name = f"{package}.spaces"
    module: Any = PlaceholderModule(name, __doc__)  # other spaces can be imported, too
    for each in _spaces():
        each.__module__, each.__qualname__ = name, each.__name__
        setattr(module, each.__name__, each)
    module.utils, module.__path__ = module, []
    sys.modules[name] = module
    return module


def _spaces() -> tuple[Callable[..., Any], ...]:
    import numpy as np

    class Space:
        """Observations or actions of an environment: ``shape`` and ``dtype`` of one value."""

        def __init__(self, shape: tuple[int, ...] | None = None, dtype: Any = None, seed: Any = None) -> None:
            self.shape = None if shape is None else tuple(shape)
            self.dtype = None if dtype is None else np.dtype(dtype)

        def sample(self) -> Any:
            return np.zeros(self.shape or (), self.dtype)

    class Box(Space):
        """Numbers between bounds."""

        def __init__(self, low: Any, high: Any, shape: Any = None, dtype: Any = np.float32, seed: Any = None) -> None:
            sizes = np.shape(low) if shape is None else tuple(shape)
            super().__init__(sizes, dtype)
            self.low, self.high = np.full(sizes, low, self.dtype), np.full(sizes, high, self.dtype)

    class Discrete(Space):
        """One of ``n`` numbers."""

        def __init__(self, n: int, seed: Any = None, start: int = 0) -> None:
            super().__init__((), np.int64)
            self.n, self.start = int(n), int(start)

    class MultiDiscrete(Space):
        """Several numbers, each with its own range."""

        def __init__(self, nvec: Any, dtype: Any = np.int64, seed: Any = None) -> None:
            self.nvec = np.asarray(nvec, dtype)
            super().__init__(self.nvec.shape, dtype)

    class MultiBinary(Space):
        """``n`` numbers that are 0 or 1."""

        def __init__(self, n: Any, seed: Any = None) -> None:
            self.n = n
            super().__init__((n,) if isinstance(n, int) else tuple(n), np.int8)

    class Dict(Space, Mapping):  # type: ignore[type-arg]
        """Spaces by name."""

        def __init__(self, spaces: Any = None, seed: Any = None, **more: Space) -> None:
            super().__init__()
            self.spaces: dict[str, Space] = {**dict(spaces or {}), **more}

        def __getitem__(self, key: str) -> Space:
            return self.spaces[key]

        def __iter__(self) -> Any:
            return iter(self.spaces)

        def __len__(self) -> int:
            return len(self.spaces)

        def sample(self) -> Any:
            return {key: each.sample() for key, each in self.spaces.items()}

    class Tuple(Space):
        """A tuple of spaces."""

        def __init__(self, spaces: Any, seed: Any = None) -> None:
            super().__init__()
            self.spaces = tuple(spaces)

        def sample(self) -> Any:
            return tuple(each.sample() for each in self.spaces)

    def flatdim(space: Any) -> int:
        """The number of elements of a flattened value of the space; discrete ones count one-hot."""
        inner = getattr(space, "spaces", None)
        if inner is not None:
            return sum(map(flatdim, inner.values() if isinstance(inner, dict) else inner))
        if isinstance(space, MultiDiscrete):
            return int(space.nvec.sum())
        return space.n if isinstance(space, Discrete) else int(np.prod(space.shape))

    return Space, Box, Discrete, MultiDiscrete, MultiBinary, Dict, Tuple, flatdim
