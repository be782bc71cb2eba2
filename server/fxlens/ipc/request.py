"""The request for a job: the text to run, its context, and its limits."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypedDict

from .protocol import Data


@dataclass(frozen=True)
class Limits:
    """The limits of one step of a job.  ``deadline`` in seconds, ``memory`` in bytes of resident set, ``processes`` and
    ``threads`` counts, the latter of all of its processes."""

    deadline: float = 10.0
    memory: int = 8 << 30
    processes: int = 64
    threads: int = 1024 + 16 * (os.cpu_count() or 1)


class Tracer(TypedDict):
    """A project's own tracer: ``package.module:Class``, and the keyword arguments that it is constructed with."""

    name: str
    arguments: Mapping[str, object]


@dataclass(frozen=True)
class Request:
    """A file's text, the other texts that are open, and the folder it belongs to."""

    path: str
    text: str
    folder: str | None = None
    overlays: Mapping[str, str] = field(default_factory=dict)
    config_targets: Mapping[str, str] = field(default_factory=dict)
    leaf_modules: tuple[str, ...] = ()
    tracer: Tracer | None = None
    known: Mapping[str, object] = field(default_factory=dict)
    """Knowledge of the file's classes from the rest of the workspace (``sources.known``)."""
    indexed: bool = True
    """Whether that includes the index's. Without it, nobody knows which classes are meant to be captured."""
    cursor: str = ""
    """The class at the cursor, which is traced first."""
    batch: str = ""
    """The name of the batch dimension in shapes; empty: sizes only."""
    device: str = ""
    """The device that times are predicted for; empty: none."""
    limits: Limits = field(default_factory=Limits)

    def message(self, kind: str, **more: object) -> Data:
        """The first message to the process of a job; ``kind`` is a module of ``fxlens.jobs``."""
        return {
            "kind": kind, "path": self.path, "text": self.text, "folder": self.folder, "overlays": self.overlays,
            "config_targets": self.config_targets, "leaf_modules": self.leaf_modules, "tracer": self.tracer,
            "known": self.known, "deadline": self.limits.deadline, **more,
        }  # fmt: skip
