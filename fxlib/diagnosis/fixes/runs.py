"""What a call in a forward runs, by the text alone: layers of torch.nn, and functions of the file."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from fxlib.diagnosis.fixes.elsewhere import derived, imported_as
from fxlib.diagnosis.fixes.fix import Site
from fxlib.diagnosis.fixes.given import Given, to_attribute, to_name
from fxlib.diagnosis.fixes.names import self_name
from fxlib.diagnosis.fixes.source import FunctionNode
from fxlib.diagnosis.fixes.torch_names import FLAG, INPLACE

__all__ = ["Runs"]


class Runs:
    """The calls of a file, and what is known of the modules that they run."""

    def __init__(self, site: Site) -> None:
        self.site, self.source = site, site.source

    def of(self, called: ast.expr, function: FunctionNode | None, first: bool = False) -> list[str | FunctionNode]:
        """What a call runs: layers of torch.nn by their names, and functions of the file; nothing where any of it is
        not known. Of a Sequential it is the last layer, or the ``first``."""
        found = [*self._modules(called, function, first, 0)]
        return [each for each in found if each is not None] if None not in found else []

    def _modules(
        self, node: ast.AST | None, function: FunctionNode | None, first: bool, depth: int
    ) -> Iterator[str | FunctionNode | None]:
        me = self_name(self.source, function) if function is not None else None
        tree = self.source.tree
        if depth > 4:
            yield None
        elif isinstance(node, ast.Name):
            given = list(to_name(self.source, node, function))
            plain = next((s for s in tree.body if isinstance(s, FunctionNode) and s.name == node.id), None)
            if plain is not None and len(given) == 1:
                yield plain
                return
            for value, where in given or [(None, None)]:
                yield from self._made(value, where, first, depth + 1)
        elif isinstance(node, ast.Attribute) and me is not None and getattr(node.value, "id", None) == me:
            owner = self.source.class_of(function) if function is not None else None
            method = next((s for s in getattr(owner, "body", ()) if getattr(s, "name", "") == node.attr), None)
            if isinstance(method, FunctionNode):
                yield method if self._is_the_only(method, owner) else None
                return
            given = list(to_attribute(self.source, owner, node.attr))
            if self.is_set_elsewhere(node.attr):
                yield None
            for value, where in given or [(None, None)]:
                yield from self._made(value, where, first, depth + 1)
            for value, where in self._added_to(node.attr):
                yield from self._made(value, where, first, depth + 1)
        elif isinstance(node, ast.Subscript):
            yield from self._modules(node.value, function, first, depth + 1)
        else:
            yield None

    def _is_the_only(self, method: FunctionNode, owner: ast.ClassDef | None) -> bool:
        """Whether no child of a class has a method of that name."""
        same = [each for each in self.source.nodes if isinstance(each, FunctionNode) and each.name == method.name]
        own = [each for each in same if self.source.class_of(each) is not owner]
        children = (
            each
            for each in map(self.source.class_of, own)
            if each is not None and owner is not None and any(owner.name in ast.unparse(base) for base in each.bases)
        )
        outside = derived(self.source, owner) if owner is not None and self.site.project else None
        return outside is None and next(children, None) is None

    def _added_to(self, attribute: str) -> Given:
        """What is added to a list of that name after it was made."""
        for method in ("append", "extend", "insert", "add_module"):
            for node in self.source.attributes.get(method, ()):
                call = self.source.parents[node]
                if isinstance(call, ast.Call) and call.args and getattr(node.value, "attr", None) == attribute:
                    yield call.args[-1], self.source.function_of(call)

    def _made(
        self, value: ast.AST | None, function: FunctionNode | None, first: bool, depth: int
    ) -> Iterator[str | FunctionNode | None]:
        """The modules that an expression makes, by the names of their classes, or their forward."""
        if isinstance(value, ast.IfExp):
            yield from self._made(value.body, function, first, depth)
            yield from self._made(value.orelse, function, first, depth)
        elif isinstance(value, ast.List | ast.Tuple):
            for each in value.elts:
                yield from self._made(each, function, first, depth)
        elif isinstance(value, ast.ListComp | ast.GeneratorExp):
            yield from self._made(value.elt, function, first, depth)
        elif isinstance(value, ast.Subscript):
            yield from self._modules(value.value, function, first, depth + 1)
        elif isinstance(value, ast.Call):
            name = self.site.bindings.resolve(value.func) or ""
            if name == "torch.nn.ModuleList" and len(value.args) <= 1:
                for each in value.args:
                    yield from self._made(each, function, first, depth)
                return
            if name == "torch.nn.Sequential" and value.args:
                yield from self._made(value.args[0 if first else -1], function, first, depth)
                return
            if any(each.arg is None or FLAG.match(each.arg) for each in value.keywords):
                yield None
            changes = next((each.value for each in value.keywords if each.arg == "inplace"), None)
            if changes is not None and not (isinstance(changes, ast.Constant) and not changes.value):
                yield INPLACE
            classes = (s for s in self.source.tree.body if isinstance(s, ast.ClassDef) and s.name == name)
            made = next(classes, None)
            forward = next((s for s in getattr(made, "body", ()) if getattr(s, "name", "") == "forward"), None)
            yield forward if isinstance(forward, FunctionNode) else name if name.startswith("torch.nn.") else None
        else:
            yield None

    def is_set_elsewhere(self, attribute: str) -> bool:
        """Whether another file that uses this one, such as one with a child of the class, sets such an attribute."""
        name = re.escape(attribute)
        setting = rf"(?m)(\.|^[ \t]+){name}\s*(:[^=\n]*)?=[^=]"
        return self.site.mentioned(name, imported_as(self.source.file), setting) is not None
