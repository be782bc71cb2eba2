"""The variables of a scope at one point of its statements. Standard library only."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from .bound_names import spelled
from .inlining import Known, alike

__all__ = ["OWN", "Instance", "Scope", "rooted", "stored"]

OWN = re.compile(r"self\.\w+")
"""Attributes that are variables, too, such as those that a ``setUp`` assigns."""


@dataclass(frozen=True)
class Instance:
    """A module in a variable; ``made`` is None if its construction is unknown."""

    target: str
    made: str | None


@dataclass
class Scope:
    """The variables at one point of a scope. Those of a ``module``, except for its main block, are in its namespace."""

    known: Known = field(default_factory=dict)
    instances: dict[str, Instance] = field(default_factory=dict)
    module: bool = False

    def copy(self) -> Scope:
        return Scope({**self.known}, {**self.instances}, self.module)

    def become(self, ways: list[Scope], outside: Callable[[str], bool]) -> None:
        """Continues after several ways to here: what they do not agree on is unknown. A name that only some of them
        bind has that value, unless it also has one ``outside``."""
        known, instances = {**ways[0].known}, {**ways[0].instances}
        for way in ways[1:]:
            for name in {**known, **way.known}:
                if name in known and name in way.known:
                    known[name] = known[name] if alike(known[name], way.known[name]) else None
                else:
                    known[name] = None if outside(name) else known.get(name, way.known.get(name))
            for name, instance in way.instances.items():
                mine = instances.setdefault(name, instance)
                if mine.target != instance.target:
                    del instances[name]
                elif mine != instance:
                    instances[name] = Instance(mine.target, None)
        self.known, self.instances = known, instances


def rooted(node: ast.expr) -> str | None:
    """The name of which an expression is a part: ``cfg`` of ``cfg.sizes[0]``, ``self.cfg`` of ``self.cfg.sizes``."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)):
        name = spelled(node)
        if name is not None and OWN.fullmatch(name):
            return name
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def stored(*nodes: ast.AST) -> Iterator[str]:
    """Names, and those of attributes of ``self``, that are assigned anywhere in these."""
    for node in nodes:
        for part in ast.walk(node):
            if isinstance(part, (ast.Name, ast.Attribute)) and isinstance(part.ctx, ast.Store):
                name = spelled(part) or ""
                if name.isidentifier() or OWN.fullmatch(name):
                    yield name
            elif isinstance(part, (ast.MatchAs, ast.MatchStar)) and part.name:
                yield part.name
