"""The classes of a job's file, with all candidates for their constructions and inputs."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fxlens.sources import from_tests, known, targets

if TYPE_CHECKING:
    from .job import Job


@dataclass(frozen=True)
class Candidates:
    """``asked`` are the classes for which tests were searched, ``tests`` the tests that were used, ``looked_at`` all
    files and folders that were read for that, with their states before."""

    targets: list[targets.Target]
    asked: list[str]
    tests: list[str]
    looked_at: from_tests.LookedAt = field(default_factory=dict)


def find(job: Job, tree: ast.Module) -> Candidates:
    """From the file, the project's configuration, tests, and the server's knowledge of the workspace."""
    found = read(job, tree)
    known.add(found.targets, job.known)
    return found


def read(job: Job, tree: ast.Module) -> Candidates:
    """The same without the server's knowledge."""
    found = targets.find(tree, job.text)
    targets.configure(found, job.config_targets)
    asked = from_tests.asked_for(found, job.path)
    looked_at: from_tests.LookedAt = {}
    tests = from_tests.add(found, tree, job.path, job.folder, job.read, looked_at)
    return Candidates(found, asked, tests, looked_at)
