"""Calls ``Net(…)`` and ``net(x)`` in a text: how its author constructs and calls the models.

Standard library only: the worker reads the same file.
"""

from __future__ import annotations

import ast
import bisect
import builtins
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from .bound_names import bound, is_main_guard, module_level, spelled, trusted_imports
from .fixtures import FUNCTIONS, decorated, parametrized, values_first
from .inlining import Binding, Inlining, Known, Unresolvable, bind, scoped, unchanging
from .variables import OWN, Instance, Scope, rooted, stored

__all__ = ["Candidate", "Source", "Uses", "called"]

# Methods whose result has the same construction or shape as the object.
_TRANSPARENT = {"eval", "train", "to", "cuda", "cpu", "half", "float", "double", "bfloat16", "requires_grad_"}
_READING = {
    *_TRANSPARENT, "apply", "children", "copy", "count", "dim", "forward", "get", "index", "items", "keys",
    "load_state_dict", "modules", "named_parameters", "numel", "parameters", "size", "state_dict", "values",
    "zero_grad",
}  # fmt: skip
"""Methods that do not change how their object is constructed."""
_HARMLESS = re.compile(r"(self\.)?assert\w*|(\w+\.)?(print|log|debug|info|warning)|(\w+\.)*testing\.\w+")
"""Functions that leave what they get as it is."""
_BUILTINS = {*dir(builtins)} - {"setattr", "delattr", "next", "exec", "eval"}
_DEFINITIONS = (*FUNCTIONS, ast.ClassDef, ast.Import, ast.ImportFrom)
_WITH_OWN_NAMES = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_CALLING = (ast.Call, ast.Attribute, ast.Subscript, ast.NamedExpr)
_NO_NAMES: frozenset[str] = frozenset()
_EXPECTS = re.compile(r"(\w+\.)*(raises|assertRaises\w*)\(")


@dataclass(frozen=True)
class Source:
    """An expression that makes a module or its inputs, and its source.

    ``source`` is one of ``targets.ORDER``; ``file`` is the other file that contains it; ``made`` the construction of
    the module that is called with these inputs.
    """

    text: str
    source: str
    line: int | None = None
    file: str | None = None
    made: str | None = None


@dataclass(frozen=True)
class Candidate:
    """An expression for a class from a text: ``kind`` is ``construct`` or ``inputs``."""

    target: str
    kind: str
    source: Source


def called(spellings: Iterable[str]) -> re.Pattern[str]:
    """Finds calls of these names."""
    return re.compile(rf"\b({'|'.join(map(re.escape, spellings)) or '(?!)'})\s*\(")


class Uses:
    """Calls ``Net(…)`` and ``net(x)`` in module code, under the main guard and in functions.

    An expression counts if its names can be resolved: to module-level names, or to values assigned before in the same
    scope, which are inlined if nothing may have changed them since.

    Args:
        classes: the text's spelling of each class (``Net``, ``models.Net``) -> its name.
        names: the names that expressions may use; by default those of the text's own module level.
        trusted: those of them whose calls may make examples; by default from the text's imports.
        file: the file of the text, if that is a test and not the classes' own file. Its module level is then resolved
            like any other scope, and pytest's fixtures and parameters get their first value.
    """

    def __init__(
        self,
        tree: ast.Module,
        classes: Mapping[str, str],
        lines: list[str],
        *,
        names: set[str] | None = None,
        trusted: set[str] | None = None,
        file: str | None = None,
    ) -> None:
        self.classes = classes
        self.file = file
        calls = called(classes)
        self.mentions = [number for number, line in enumerate(lines, 1) if calls.search(line)]
        self.found: list[Candidate] = []
        own = list(module_level(tree.body))
        self.globals = {*dir(builtins), *(names if names is not None else (n for node in own for n in bound(node)))}
        self.trusted = {name for node in own for name in trusted_imports(node)} if trusted is None else trusted
        self.assigned: dict[str, list[ast.stmt]] = {}
        """The assignments to each name of the module, whose objects functions and the main block may change."""
        for node in [] if file else own:
            for name in () if isinstance(node, _DEFINITIONS) else bound(node):
                self.assigned.setdefault(name, []).append(node)
        self.local: set[str] = set()
        """Names of the functions around, which hide those of the module."""
        self.fixtures: Known = {}
        self.returned: list[Binding] = []
        here = Scope(module=file is None)
        self._block(values_first(tree.body) if file else tree.body, here)

    # ---- statements

    def _block(self, body: Iterable[ast.stmt], here: Scope) -> bool:
        """Whether nothing behind these statements is reached."""
        return any([self._statement(node, here) for node in body])

    def _statement(self, node: ast.stmt, here: Scope) -> bool:
        if isinstance(node, FUNCTIONS):
            if self._mentioned(node):
                self._function(node, here if self.file else Scope(here.known))
        elif isinstance(node, ast.ClassDef):
            self._class(node, here)
        elif isinstance(node, ast.If):
            return self._if(node, here)
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
            self._loop(node, here)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            return self._with(node, here)
        elif hasattr(node, "handlers"):
            return self._try(node, here)
        elif isinstance(node, ast.Match):
            self._expression(node.subject, here)
            self._forget(stored(*(case.pattern for case in node.cases)), here)
            return self._ways([*(case.body for case in node.cases), []], here)
        else:
            self._simple(node, here)
        return isinstance(node, (ast.Return, ast.Raise))

    def _if(self, node: ast.If, here: Scope) -> bool:
        if here.module and is_main_guard(node):
            main = Scope(here.known, here.instances)
            self._block(node.body, main)
            here.known, here.instances = main.known, main.instances
            return False
        ways = [node.body]
        self._expression(node.test, here)
        while len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):  # each elif is a level
            node = node.orelse[0]
            ways.append(node.body)
            self._expression(node.test, here)
        return self._ways([*ways, node.orelse], here)

    def _ways(self, bodies: list[list[ast.stmt]], here: Scope) -> bool:
        """One of these is executed."""
        if here.module:  # what it does is in the namespace
            for body in bodies:
                self._block(body, here)
            return False
        ways = [here.copy() for _ in bodies]
        reached = [way for way, body in zip(ways, bodies, strict=True) if not self._block(body, way)]
        if reached:
            here.become(reached, self._is_outside)
        return not reached

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, here: Scope) -> None:
        """The first iteration; the number of iterations is unknown, and so are the variables that they change."""
        self._expression(node.test if isinstance(node, ast.While) else node.iter, here)
        if not isinstance(node, ast.While):
            self._forget(stored(node.target), here)
        self._ways([node.body, []], here)
        self._block(node.orelse, here)

    def _with(self, node: ast.With | ast.AsyncWith, here: Scope) -> bool:
        if any(_EXPECTS.match(ast.unparse(each.context_expr)) for each in node.items):
            return False  # meant to fail
        for each in node.items:
            self._expression(each.context_expr, here)
            if each.optional_vars is not None:
                self._forget(stored(each.optional_vars), here)
        return self._block(node.body, here)

    def _try(self, node: Any, here: Scope) -> bool:
        before = here.copy()
        reached = [] if self._block([*node.body, *node.orelse], here) and not here.module else [here]
        for handler in node.handlers:
            way = here if here.module else before.copy()
            if way is not here:
                way.become([before, here], self._is_outside)
            self._forget([handler.name] if handler.name else [], way)
            if not self._block(handler.body, way) and way is not here:
                reached.append(way)
        if reached:
            here.become(reached, self._is_outside)
        return self._block(node.finalbody, here) or not reached

    def _simple(self, node: ast.stmt, here: Scope) -> None:
        self._expression(node, here)
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            name = spelled(targets[0]) if len(targets) == 1 else None
            if name is not None and (name.isidentifier() or OWN.fullmatch(name)):
                self._bind(name, self._binding(node.value, here), here)
            else:
                self._forget(stored(*targets), here)
        elif isinstance(node, ast.AugAssign) and (name := spelled(node.target)) is not None:
            before = ast.parse(name, mode="eval").body
            was = (old := here.known.get(name)) is not None and old.changed
            self._alter(name, here, always=False)  # a list is also changed under its other names
            changed = here.known.get(name)
            value = Binding(ast.BinOp(before, node.op, node.value), {})
            value.uses = self._binding(value.value, here).uses
            if changed is not None:
                value.uses[name] = Binding(changed.value, changed.uses, was)
            if name.isidentifier() or OWN.fullmatch(name):
                self._bind(name, value, here)
        elif isinstance(node, ast.Delete):
            self._forget(filter(None, map(spelled, node.targets)), here)
        elif isinstance(node, ast.Return) and node.value is not None:
            self.returned.append(self._binding(node.value, here))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Yield) and node.value.value is not None:
            self.returned.append(self._binding(node.value.value, here))

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, here: Scope) -> Scope:
        """Its variables at its end."""
        parameters = {argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)}
        own = parameters | set(stored(node))
        inside = Scope(
            {name: value and replace(value) for name, value in here.known.items() if name not in own},
            {name: instance for name, instance in here.instances.items() if name not in own},
        )
        inside.known.update(dict.fromkeys(parameters))
        before, self.local = self.local, self.local | own
        around, self.returned = self.returned, []
        if self.file:
            given = {name: value and replace(value) for name, value in self.fixtures.items() if name in parameters}
            stated = {name: self._binding(value, here) for name, value in parametrized(node).items()}
            for name, value in {**given, **stated}.items():
                self._forget([name], inside) if value is None else self._bind(name, value, inside)
        self._block(node.body, inside)
        if any(decorated(node, "fixture")):
            self.fixtures[node.name] = self.returned[0] if len(self.returned) == 1 else None
        self.local, self.returned = before, around
        return inside

    def _class(self, node: ast.ClassDef, here: Scope) -> None:
        inside = here.copy() if self.file else Scope()
        methods: list[ast.FunctionDef | ast.AsyncFunctionDef]
        methods = [part for part in node.body if isinstance(part, FUNCTIONS)]
        for part in values_first(methods) if self.file else methods:
            if self._mentioned(part):
                end = self._function(part, inside)
                for name in filter(OWN.fullmatch, end.known if self.file else ()):
                    inside.known[name] = end.known[name]
                    if name in end.instances:
                        inside.instances[name] = end.instances[name]

    def _mentioned(self, node: ast.stmt) -> bool:
        """Whether one of the classes is called on a line of this function; most functions do not and are skipped."""
        if self.file:
            return True
        at = bisect.bisect_left(self.mentions, node.lineno)
        return at < len(self.mentions) and self.mentions[at] <= (node.end_lineno or node.lineno)

    # ---- values

    def _is_outside(self, name: str) -> bool:
        return name in self.globals and name not in self.local

    def _binding(self, value: ast.expr, here: Scope) -> Binding:
        return bind(value, here.known, self.local)

    def _forget(self, names: Iterable[str], here: Scope) -> None:
        for name in names:
            here.instances.pop(name, None)
            here.known[name] = None
            if here.module:
                del here.known[name]  # it is in the module's own namespace

    def _bind(self, name: str, binding: Binding, here: Scope) -> None:
        instance = self._instance(binding, here)
        if instance is None and name in here.instances and _first(binding.value) == name:
            instance = here.instances[name]  # wrapped: `net = DataParallel(net)`
        self._forget([name], here)
        if instance is not None:
            # One of this module is a construction by its name.
            here.instances[name] = Instance(instance.target, None) if here.module else instance
            if here.module and self._constructed(binding.value):
                self._add(instance.target, "construct", name, "instance", binding.value.lineno)
        if not here.module:
            here.known[name] = binding

    def _instance(self, binding: Binding, here: Scope) -> Instance | None:
        """The module that this is, also within ``.eval()`` and the like."""
        value = _unwrapped(binding.value)
        if (made := self._constructed(value)) is not None:
            return Instance(made, None if here.module else self._text(value, binding.uses))
        name = spelled(value) or ""
        found = binding.uses.get(name)
        return here.instances.get(name) or (None if found is None else self._instance(found, here))

    def _constructed(self, value: ast.expr) -> str | None:
        """The class that this expression instantiates."""
        value = _unwrapped(value)
        return self.classes.get(spelled(value.func) or "") if isinstance(value, ast.Call) else None

    def _expression(self, node: ast.AST, here: Scope) -> None:
        """The calls in an expression or a simple statement, and then what it changes."""
        parts = list(ast.walk(node))
        if not any(isinstance(part, _CALLING) for part in parts):
            return
        nested = any(isinstance(part, _WITH_OWN_NAMES) for part in parts)
        placed = list(scoped(node)) if nested else [(part, _NO_NAMES) for part in parts]
        for part, own in placed:
            if isinstance(part, ast.Call):
                self._call(part, here, own)
        for part, own in placed if not here.module else ():
            if isinstance(part, ast.NamedExpr):
                self._forget(stored(part.target), here)
            elif isinstance(part, (ast.Attribute, ast.Subscript)) and not isinstance(part.ctx, ast.Load):
                self._alter(rooted(part.value), here, own)
            elif isinstance(part, ast.Call):
                self._passed(part, here, own)

    def _passed(self, call: ast.Call, here: Scope, own: frozenset[str]) -> None:
        """What may be changed by a call: the object of a method, and what an unknown function gets."""
        name = spelled(call.func) or ""
        root = name.partition(".")[0]
        if root in self.trusted or name in self.classes or name in here.instances:
            return
        if isinstance(call.func, ast.Attribute) and call.func.attr not in _READING:
            self._alter(rooted(call.func.value), here, own, always=call.func.attr.endswith("_"))
        if (name in _BUILTINS or name.rpartition(".")[2][:1].isupper() or _HARMLESS.fullmatch(name)) and name:
            return
        for given in [*call.args, *(each.value for each in call.keywords)]:
            for each in given.elts if isinstance(given, (ast.List, ast.Tuple)) else [given]:
                each = each.value if isinstance(each, ast.Starred) else each
                if spelled(each) in here.known:
                    self._alter(spelled(each), here, own, always=name == "setattr")

    def _alter(self, name: str | None, here: Scope, own: frozenset[str] = _NO_NAMES, always: bool = True) -> None:
        """The object of this name may have changed; unless ``always``, not if it is a number or a tensor."""
        if name is None or name in own:
            return
        found = here.known.get(name)
        if found is None:
            is_of_module = name in self.assigned and name not in self.local and not here.module
            if is_of_module and (always or not all(map(self._is_plain, self.assigned[name]))):
                here.known[name] = None  # the module's own object is another one than on import
            return
        if always or not unchanging(found, self.trusted):
            while found is not None and not found.changed:
                found.changed = True
                found = found.uses.get(rooted(found.value) or "")  # which this one is, or is a part of

    def _is_plain(self, node: ast.stmt) -> bool:
        return isinstance(node, ast.Assign) and unchanging(Binding(node.value), self.trusted)

    # ---- calls

    def _call(self, call: ast.Call, here: Scope, own: frozenset[str]) -> None:
        name = spelled(call.func) or ""
        known = {**here.known, **dict.fromkeys(own)} if own else here.known
        target = self.classes.get(name)
        if target is not None:
            if (text := self._text(call, bind(call, known, self.local).uses)) is not None:
                self._add(target, "construct", text, "call", call.lineno)
            return
        function = call.func
        if isinstance(function, ast.Attribute) and function.attr == "forward":
            function = function.value
        instance = here.instances.get(spelled(function) or "")
        if instance is None and (made := self._constructed(function)):
            built = _unwrapped(function)
            instance = Instance(made, self._text(built, bind(built, known, self.local).uses))
        if instance is not None and (call.args or call.keywords):
            arguments = ast.Call(ast.Name("dict", ast.Load()), call.args, call.keywords)
            if (text := self._text(arguments, bind(arguments, known, self.local).uses)) is not None:
                self._add(instance.target, "inputs", text[len("dict(") : -1], "call", call.lineno, instance.made)

    def _add(self, target: str, kind: str, text: str, source: str, line: int, made: str | None = None) -> None:
        if self.file is not None:
            if kind == "inputs" and made is None:
                return  # the module's construction is unknown
            source = "test"
        self.found.append(Candidate(target, kind, Source(text, source, line, self.file, made)))

    def _text(self, expression: ast.expr, uses: Known) -> str | None:
        """The expression's text with values for local names; None if that is impossible."""
        spellings = self.classes if self.file else {}
        try:
            callables = {*self.trusted, *self.classes.values()}
            return Inlining(spellings, self.globals, callables).text(expression, uses)
        except Unresolvable:
            return None


def _first(value: ast.expr) -> str | None:
    """The name that a call gets first."""
    return spelled(value.args[0]) if isinstance(value, ast.Call) and value.args else None


def _unwrapped(value: ast.expr) -> ast.expr:
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _TRANSPARENT:
        value = value.func.value
    return value
