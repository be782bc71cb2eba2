"""The subject and the result of a verification."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Target", "Verdict"]


@dataclass(frozen=True)
class Target:
    """A module of a file: the expression that makes it, its inputs (None where unknown), and whether these are assumed,
    not given by the user."""

    construct: str
    inputs: str | None = None
    assumed: bool = False


@dataclass
class Verdict:
    """The result of a verification.

    ``gone``: the finding is no longer reported at its place. ``moved_to``: lines of the edited text with findings that
    were not there before. ``traces``: torch.fx traces the edited model. ``same_eager``: the edited model computes what
    the original does, on every input tried; None if nothing could be compared. ``equal_to_eager``: the traced module
    does too; None if it does not trace or if other findings make it differ. ``max_error``: the largest absolute
    difference seen. ``side_effects``: what callers can notice beside the result. ``hazard``: what it is right for only.
    ``failed``: why the edited text could not be used at all.
    """

    gone: bool = False
    moved_to: list[int] = field(default_factory=list)
    traces: bool = False
    same_eager: bool | None = None
    equal_to_eager: bool | None = None
    max_error: float = 0.0
    side_effects: list[str] = field(default_factory=list)
    note: str | None = None
    hazard: str | None = None
    failed: str | None = None

    @property
    def compared(self) -> bool:
        return self.same_eager is not None
