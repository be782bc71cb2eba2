"""``fxlens.examples.toml``: recorded constructions and inputs, as a small sorted file that can be committed.

::

    [["unet/model.py::UNet"]]
    construct = "UNet(n_channels=3, n_classes=2)"
    train = ["torch.randn(4, 3, 64, 64)"]
    eval = ["torch.randn(1, 3, 96, 96)"]

``imports`` names modules that the expressions need, ``missing`` values without an expression (written as ``...``).
Read as data, like the project's configuration.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from .files import ERRORS, read_source
from .notebook import python_of
from .toml_text import quoted

NAME = "fxlens.examples.toml"
_CALLS = 4
MOST_BYTES = 4 << 20
HEADER = """\
# Recorded by `fxlens record`: how the modules of this workspace are constructed and what they are called with.
# FX Lens takes its examples from here. Commit the file to share them; entries may be edited or deleted.
"""


@dataclass
class Example:
    """One construction of a class, and the inputs of calls of such modules.

    Attributes:
        construct: an expression such as ``Net(10)``, or "" if only calls are known.
        train, evaluation: the text between the parentheses of each distinct call, by the mode of the module.
        imports: modules to import before these are evaluated.
        missing: values without an expression.
    """

    construct: str
    train: list[str] = field(default_factory=list)
    evaluation: list[str] = field(default_factory=list)
    imports: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    @property
    def inputs(self) -> list[str]:
        """All recorded calls, those in evaluation mode first."""
        return [*self.evaluation, *(call for call in self.train if call not in self.evaluation)]

    @property
    def complete(self) -> bool:
        return not self.missing and bool(self.construct)


Examples = dict[str, list[Example]]
"""By ``path/of/file.py::Class``, the path relative to the folder of the file, with slashes."""


def from_facts(facts: Iterable[dict[str, Any]], folder: str) -> Examples:
    """Examples from the journals, for the classes of files in ``folder``."""
    root = os.path.realpath(folder)
    found: dict[str, dict[str, Example]] = {}
    for fact in facts:
        if fact.get("event") not in ("constructed", "called") or not _is_whole(fact):
            continue
        key = f"{os.path.relpath(fact['file'], root).replace(os.sep, '/')}::{fact['name']}"
        example = found.setdefault(key, {}).setdefault(fact["construct"], Example(fact["construct"]))
        if fact["event"] == "called":
            calls = example.train if fact.get("training") else example.evaluation
            if fact["inputs"] not in calls and not fact["missing"]:
                calls.append(fact["inputs"])
        else:
            example.missing = fact["missing"]
        example.imports = sorted({*example.imports, *fact["imports"]})
    return {key: _kept(list(examples.values())) for key, examples in found.items()}


def _is_whole(fact: dict[str, Any]) -> bool:
    """Whether a line of a journal is complete, since the program can write there, too."""
    texts = ["file", "name", "construct", *(["inputs"] if fact["event"] == "called" else [])]
    lists = [fact.get(name) for name in ("imports", "missing")]
    return all(isinstance(fact.get(name), str) for name in texts) and all(
        isinstance(each, list) and all(isinstance(part, str) for part in each) for each in lists
    )


def merged(old: Examples, new: Examples) -> Examples:
    """Both; for an equal construction, the calls of both."""
    result = {key: list(examples) for key, examples in old.items()}
    for key, examples in new.items():
        known = {example.construct: example for example in result.get(key, [])}
        for example in examples:
            before = known.get(example.construct)
            if before is not None:
                example = Example(
                    example.construct,
                    [*before.train, *(call for call in example.train if call not in before.train)],
                    [*before.evaluation, *(call for call in example.evaluation if call not in before.evaluation)],
                    sorted({*before.imports, *example.imports}),
                    example.missing,
                )
            known[example.construct] = example
        result[key] = _kept(list(known.values()))
    return result


def _kept(examples: list[Example]) -> list[Example]:
    """Those that were called, if any was; with a few calls each, including the smallest and the largest.

    A copied module has no construction: if all others share one, it counts as one of these.
    """
    named = [example for example in examples if example.construct]
    for copied in [example for example in examples if not example.construct and named]:
        if len(named) == 1:
            named[0].train += [call for call in copied.train if call not in named[0].train]
            named[0].evaluation += [call for call in copied.evaluation if call not in named[0].evaluation]
        examples = named
    called = [example for example in examples if example.inputs]
    for example in called:
        example.train, example.evaluation = _few(example.train), _few(example.evaluation)
    return sorted(called or examples, key=lambda example: (not example.complete, example.construct))


def _few(calls: list[str]) -> list[str]:
    ordered = sorted(calls, key=lambda call: ([size for shape in shapes(call).values() for size in shape], call))
    return ordered if len(ordered) <= _CALLS else [*ordered[: _CALLS - 1], ordered[-1]]


def without_outdated(examples: Examples, folder: str) -> tuple[Examples, list[str]]:
    """Examples whose class still exists and accepts these arguments; and a line for each that was dropped."""
    kept: Examples = {}
    dropped = []
    trees: dict[str, ast.Module | str | None] = {}
    for key, entries in examples.items():
        file, _, name = key.rpartition("::")
        if file not in trees:
            trees[file] = _tree(os.path.join(folder, file))
        for entry in entries:
            reason = _outdated(trees[file], name, entry)
            if reason is None:
                kept.setdefault(key, []).append(entry)
            else:
                dropped.append(f"{key}: {entry.construct or 'its inputs'} dropped: {reason}")
    return kept, dropped


def _tree(path: str) -> ast.Module | str | None:
    """The tree of a file, or why it has no classes any more; None if it, or a cell of it, cannot be read or parsed
    now."""
    try:
        text, notebook = python_of(path, read_source(path))
        return None if notebook is not None and notebook.broken else ast.parse(text)
    except (FileNotFoundError, NotADirectoryError):
        return "the file is gone"
    except (OSError, *ERRORS):
        return None


def _outdated(tree: ast.Module | str | None, name: str, entry: Example) -> str | None:
    if isinstance(tree, str):
        return tree
    if tree is None or "<locals>" in name:
        return None
    body: Any = tree
    for part in name.split("."):
        body = next((node for node in ast.walk(body) if isinstance(node, ast.ClassDef) and node.name == part), None)
        if body is None:
            return "the class no longer exists"
    methods = {node.name: node for node in body.body if isinstance(node, ast.FunctionDef)}
    for method, call in (("__init__", entry.construct), *(("forward", f"f({text})") for text in entry.inputs)):
        if call and method in methods and not _takes(methods[method], call):
            return f"{method} no longer takes these arguments"
    return None


def _takes(function: ast.FunctionDef, call: str) -> bool:
    """Whether a method (without its first parameter) can be called with the arguments of an expression."""
    try:
        node = ast.parse(call, mode="eval").body
    except ERRORS:
        return False
    if not isinstance(node, ast.Call) or any(isinstance(arg, ast.Starred) for arg in node.args):
        return True
    spec = function.args
    positional = [arg.arg for arg in [*spec.posonlyargs, *spec.args]][1:]
    if len(node.args) > len(positional) and spec.vararg is None:
        return False
    given = set(positional[: len(node.args)])
    named = {keyword.arg for keyword in node.keywords if keyword.arg}
    known = {*positional, *(arg.arg for arg in spec.kwonlyargs)}
    if (spec.kwarg is None and named - known) or given & named:
        return False
    required = set(positional[: len(positional) - len(spec.defaults)] if spec.defaults else positional)
    required |= {arg.arg for arg, value in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if value is None}
    return required <= given | named


# --- the file ---------------------------------------------------------------------------------------------------------


def write(examples: Examples, before: str = "") -> str:
    """The text of the file: sorted, one line for each call. Comments in the text ``before`` come first."""
    own = HEADER.splitlines()
    comments = [line for line in before.splitlines() if line.startswith("#") and line not in own]
    parts = [HEADER, *(f"{line}\n" for line in comments)]
    for key in sorted(examples):
        for example in examples[key]:
            parts.append(f"\n[[{quoted(key)}]]\n")
            if example.construct:
                parts.append(f"construct = {quoted(example.construct)}\n")
            for name, values in (
                ("train", example.train),
                ("eval", example.evaluation),
                ("imports", example.imports),
                ("missing", example.missing),
            ):
                if len(values) > 1 and name in ("train", "eval"):
                    lines = "".join(f"    {quoted(value)},\n" for value in values)
                    parts.append(f"{name} = [\n{lines}]\n")
                elif values:
                    parts.append(f"{name} = [{', '.join(map(quoted, values))}]\n")
    return "".join(parts)


def parse(text: str) -> Examples:
    """The examples of a file's text.

    Raises:
        ValueError: not TOML, or not of this form.
    """
    try:
        data = tomllib.loads(text.removeprefix("\ufeff"))
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    found: Examples = {}
    for key, entries in data.items():
        if not isinstance(entries, list) or "::" not in key or not all(isinstance(each, dict) for each in entries):
            raise ValueError(f'"{key}" must be a list of tables named "file.py::Class"')
        for entry in entries:
            lists = [entry.get(name, []) for name in ("train", "eval", "imports", "missing")]
            if not isinstance(entry.get("construct", ""), str) or not all(
                isinstance(values, list) and all(isinstance(value, str) for value in values) for values in lists
            ):
                raise ValueError(f'"{key}": construct must be text, and train, eval, imports and missing lists of text')
            found.setdefault(key, []).append(Example(entry.get("construct", ""), *lists))
    return found


# --- what varies ------------------------------------------------------------------------------------------------------


def shapes(inputs: str) -> dict[int | str, list[int]]:
    """The shape of each tensor among the inputs, by position or name of the argument."""
    try:
        call = ast.parse(f"f({inputs})", mode="eval").body
    except ERRORS:
        return {}
    if not isinstance(call, ast.Call):  # ")(" between the parentheses
        return {}
    arguments: list[tuple[int | str, ast.expr]] = list(enumerate(call.args))
    arguments += [(keyword.arg, keyword.value) for keyword in call.keywords if keyword.arg]
    return {place: shape for place, value in arguments if (shape := _shape(value)) is not None}


def _shape(node: ast.expr) -> list[int] | None:
    if not isinstance(node, ast.Call) or not ast.unparse(node.func).startswith("torch."):
        return None
    sizes = node.args[0].elts if len(node.args) == 1 and isinstance(node.args[0], ast.Tuple) else node.args
    values = [size.value for size in sizes if isinstance(size, ast.Constant)]
    return [value for value in values if isinstance(value, int)] if len(values) == len(sizes) else None


def varying(calls: Iterable[str]) -> dict[int | str, set[int]]:
    """The dimensions of each input that differ between calls: ``{0: {0, 2, 3}}``.

    Tensors of different rank are not compared.
    """
    first: dict[int | str, list[int]] = {}
    result: dict[int | str, set[int]] = {}
    for call in calls:
        for place, shape in shapes(call).items():
            known = first.setdefault(place, shape)
            if len(known) == len(shape):
                differ = {dim for dim, (a, b) in enumerate(zip(known, shape, strict=True)) if a != b}
                if differ:
                    result.setdefault(place, set()).update(differ)
    return result
