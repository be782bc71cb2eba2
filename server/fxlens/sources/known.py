"""Knowledge of a file's classes from the rest of the workspace, as sources of constructions and inputs: recorded runs,
the index, and assumptions from an earlier text.

Standard library only. The server makes it as plain data, by class; the worker adds it to the targets. Every text can be
evaluated in the class's module: other modules are written as ``import_module("package.module")``.
"""

from __future__ import annotations

import ast
import functools
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, TypedDict

from .files import ERRORS
from .notebook import place_of
from .paths import import_name, is_named, key
from .recorded import Example
from .targets import Source, Target, arrange

HOLE = "__hole__"
_Imports = tuple[tuple[str, str, str | None], ...]
"""A name, its original name in a module, and that module; without one, it names a module."""
_OURS = {"functools.partial": "partial", "types.SimpleNamespace": "SimpleNamespace"}


class Known(TypedDict, total=False):
    """For one class: sources as plain data, the best first, and its part (from the index only).

    ``captured`` says how and where it is captured, ``aside`` why it does not look like a model, ``root`` whether
    scripts construct it and no other model contains it, ``holder`` which model does.  ``alone``: in its last trace,
    forward asked for a CUDA device or a process group.
    """

    construct: list[dict[str, Any]]
    inputs: list[dict[str, Any]]
    captured: str
    aside: str
    root: bool
    holder: str
    alone: bool


def from_recorded(examples: Mapping[str, Iterable[Example]], root: str, path: str) -> dict[str, Known]:
    """Knowledge of the classes of a file from the recorded runs of the folder ``root``."""
    found: dict[str, Known] = {}
    path, _ = place_of(path, 0, path)
    here = functools.cache(lambda file: is_named(file, root, path))
    for name, recorded in examples.items():
        file, _, kind = name.rpartition("::")
        if not here(file):
            continue
        known = found.setdefault(kind, {"construct": [], "inputs": []})
        for example in recorded:
            imports = tuple((each.partition(".")[0], each, None) for each in example.imports)
            made = _written(example.construct, imports) if example.complete else None
            if made:
                known["construct"].append(asdict(Source(made, "recorded")))
            for inputs in example.inputs:
                text = arguments(inputs, example.imports)
                if text:
                    known["inputs"].append(asdict(Source(text, "recorded", made=made)))
    return found


def arguments(text: str, imports: Iterable[str]) -> str | None:
    """The arguments of a call with these modules imported where they are named; None if it is not Python."""
    made = _written(f"f({text})", tuple((each.partition(".")[0], each, None) for each in imports))
    return made and made[2:-1]


def from_index(answers: Mapping[str, Any], path: str, folder: str) -> dict[str, Known]:
    """Knowledge of the classes of a file from the index's ``answers``."""
    found: dict[str, Known] = {}
    for name, answer in answers.items():
        known = found[name] = {"construct": [], "inputs": [], **_part(answer, path, folder)}
        for source, said in (("workspace", answer), *(("parent", each) for each in answer["wholes"])):
            for example in said["constructions"]:
                file, line = place_of(example["file"], example["line"], path)
                imports = _spelled(example["imports"], path, folder)
                text = _written(example["text"], imports)
                if text:
                    known["construct"].append(asdict(Source(text, source, line, file)))
            for example in said["inputs"]:
                file, line = place_of(example["file"], example["line"], path)
                imports = _spelled(example["imports"], path, folder)
                text = _written(f"f({example['text']})", imports)
                made = _written(example["made"] or "", imports)
                if text and HOLE not in text:
                    known["inputs"].append(asdict(Source(text[2:-1], source, line, file, made)))
    return found


def _part(answer: Mapping[str, Any], path: str, folder: str) -> Known:
    """The part of a class by the index."""
    captured = ""
    for how, named, number in answer["captured"][:1]:
        file, line = place_of(named, number, path)
        captured = f"{how} at {os.path.relpath(file, folder).replace(os.sep, '/')}{'' if line is None else f':{line}'}"
    holder = next((name for _, name in answer["parents"]), "")
    return {"captured": captured, "aside": answer["aside"], "root": answer["root"], "holder": holder}


def from_record(targets: Iterable[Mapping[str, Any]]) -> dict[str, Known]:
    """Knowledge of classes from their last trace, which is tried before a new search."""
    found: dict[str, Known] = {}
    for target in targets:
        made, inputs = target["construct"], target["inputs"]
        known: Known = {"construct": [], "inputs": []}
        if made and made["source"] in ("parent", "assumed"):
            known["construct"].append(asdict(Source(made["text"], made["source"])))
        if made and inputs and inputs["source"] in ("parent", "assumed"):
            known["inputs"].append(asdict(Source(inputs["text"], inputs["source"], made=made["text"])))
        if target["alone"]:
            known["alone"] = True
        if any(known.values()):
            found[target["name"]] = known
    return found


def same(one: Mapping[str, Known], other: Mapping[str, Known]) -> bool:
    """Whether both are equal except for line numbers."""
    return _texts(one) == _texts(other)


def _texts(known: Mapping[str, Known]) -> dict[str, list[tuple[str, str | None]]]:
    return {
        name: [(each["text"], each["made"]) for each in (*said["construct"], *said["inputs"])]
        for name, said in known.items()
        if said["construct"] or said["inputs"]
    }


def merged(*parts: Mapping[str, Known]) -> dict[str, Known]:
    """All of them merged, the first being the best."""
    found: dict[str, Known] = {}
    for part in parts:
        for name, known in part.items():
            into = found.setdefault(name, {"construct": [], "inputs": []})
            into["construct"] += known["construct"]
            into["inputs"] += known["inputs"]
            if "alone" in known:
                into["alone"] = known["alone"]
            if "holder" in known:
                into["captured"], into["aside"] = known["captured"], known["aside"]
                into["root"], into["holder"] = known["root"], known["holder"]
    return found


def add(found: list[Target], known: Mapping[str, Known]) -> None:
    """Adds it to the targets of the file."""
    for target in found:
        said = known.get(target.name)
        for part in said["construct"] if said else ():
            source = Source(**part)
            into = target.partial if HOLE in source.text else target.construct
            if all(source.text != each.text for each in into):
                into.append(source)
        for part in said["inputs"] if said else ():
            source = Source(**part)
            if all((source.text, source.made) != (each.text, each.made) for each in target.inputs):
                target.inputs.append(source)
        arrange(target)


def _spelled(imports: Iterable[Iterable[Any]], path: str, folder: str) -> _Imports:
    """The meaning of names, with the modules of files as the file at ``path`` imports them."""
    return tuple((name, target, file and _module_name(file, path, folder)) for name, target, file in imports)


@functools.lru_cache(maxsize=1024)  # each edit needs all examples of the file again
def _written(text: str, imports: _Imports) -> str | None:
    """The expression with imported names spelled out; None if it is not an expression."""
    try:
        tree = ast.parse(text, mode="eval")
    except ERRORS:
        return None
    modules: dict[str, ast.expr] = {}
    for name, target, module in imports:
        if module is None:
            modules[target] = _imported(target)
        else:
            modules[name] = ast.Attribute(_imported(module), target, ast.Load())
    try:
        return ast.unparse(ast.fix_missing_locations(_Spelling(modules).visit(tree)))
    except RecursionError:
        return None


def _imported(module: str) -> ast.expr:
    return ast.Call(ast.Name("import_module", ast.Load()), [ast.Constant(module)], [])


def _module_name(file: str, home: str, folder: str) -> str:
    """The import name of a workspace file, relative to ``home``."""
    name, root = import_name(file)
    if key(root) in {key(import_name(home)[1]), key(folder), key(os.path.join(folder, "src"))}:
        return name
    relative = os.path.relpath(file, folder)
    return name if relative.startswith("..") else os.path.splitext(relative)[0].replace(os.sep, ".")


class _Spelling(ast.NodeTransformer):
    """Puts expressions in place of dotted names."""

    def __init__(self, modules: dict[str, ast.expr]) -> None:
        self.modules = modules

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.modules.get(node.id, node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        name = _dotted(node)
        if name in _OURS:
            return ast.Name(_OURS[name], ast.Load())
        return self.modules[name] if name in self.modules else self.generic_visit(node)


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        base = _dotted(node.value)
        return f"{base}.{node.attr}" if base else ""
    return node.id if isinstance(node, ast.Name) else ""
