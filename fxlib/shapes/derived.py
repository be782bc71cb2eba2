"""A size that follows another one."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Expression"]


@dataclass(frozen=True)
class Expression:
    """A size as ``factor * root + shift``, as torch writes derived dimensions."""

    root: str
    factor: int = 1
    shift: int = 0

    def at(self, root: int) -> int:
        """The size where the root has this one."""
        return self.factor * root + self.shift

    def root_at(self, size: int) -> int | None:
        """The root's size where this one has ``size``; None where no root gives it."""
        root, rest = divmod(size - self.shift, self.factor)
        return None if rest else root

    def text(self, root: str) -> str:
        """With ``root`` as the name: ``2 * root + 1``."""
        scaled = root if self.factor == 1 else f"{self.factor} * {root}"
        return scaled if not self.shift else f"{scaled} {'+' if self.shift > 0 else '-'} {abs(self.shift)}"
