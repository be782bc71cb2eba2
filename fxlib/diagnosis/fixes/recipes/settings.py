"""Recipes that change what is traced: leaf modules of the project, arguments that are set for the trace."""

from __future__ import annotations

import ast
import os
import re

from fxlib.diagnosis.fixes.edits import Edit, split_lines
from fxlib.diagnosis.fixes.fix import Draft, Site, recipe
from fxlib.diagnosis.fixes.source import source_of


@recipe("leaf-module", kind="leaf")
def leaf_module(site: Site) -> list[Draft]:
    """Mark the submodule with the problem as a leaf: it becomes one node, and its inside is not traced.

    Writes ``[tool.fxlens] leaf-modules`` in pyproject.toml; outside of FX Lens a ``Tracer`` subclass does the same.
    """
    owner = _submodule_class(site)
    if owner is None:
        return []
    path, text = _configuration(site)
    edit = leaf_edit(path, text, owner)
    if edit is None:
        return []
    settings = {"leaf_modules": [owner]}
    title = f"Keep `{owner}` as one node: leaf module in {os.path.basename(path)}"
    drafts = [Draft(title, [edit], "without FX Lens, torch.fx needs a Tracer subclass for this", settings)]
    tracer = _leaf_tracer(site, owner)
    if tracer:
        title = f"Keep `{owner}` as one node, and write the Tracer that torch.fx needs for it"
        drafts.append(Draft(title, [edit, *tracer], "LeafTracer().trace(model) gives the graph", settings))
    return drafts


def _leaf_tracer(site: Site, owner: str) -> list[Edit] | None:
    """A subclass of ``torch.fx.Tracer`` at the end of the file, before the `__main__` block; None if the file has
    one."""
    source = site.source
    if "LeafTracer" in source.module_names:
        return None
    tracer, edits = site.need("torch.fx.Tracer")
    unit, quote = source.indent_unit, source.quote
    text = (
        f"class LeafTracer({tracer}):\n{unit}def is_leaf_module(self, m, module_qualified_name):\n"
        f"{unit * 2}if type(m).__name__ == {quote}{owner}{quote}:\n{unit * 3}return True\n"
        f"{unit * 2}return super().is_leaf_module(m, module_qualified_name)"
    )
    last = source.tree.body[-1]
    if isinstance(last, ast.If) and "__name__" in ast.unparse(last.test):
        return [*edits, source.insert_line(source.line_above(last), f"{text}\n\n")]
    return [*edits, source.insert_line(len(source.lines) + 1, f"\n\n{text}")]


def _submodule_class(site: Site) -> str | None:
    """The class of the innermost submodule on the call path that is not the root's own class."""
    classes = []
    for span in site.calls:
        text = site.source.text if span.file == site.source.file else site.read(span.file)
        if text is None:
            continue
        try:
            source = site.source if span.file == site.source.file else source_of(span.file, text)
        except SyntaxError:
            continue
        nodes = source.enclosing(span)
        owner = source.class_of(nodes[0]) if nodes else None
        if owner is not None and any(isinstance(s, ast.FunctionDef) and s.name == "forward" for s in owner.body):
            classes.append(owner.name)
    if len(classes) < 2 or classes[-1] == classes[0]:
        return None
    return classes[-1]


def _configuration(site: Site) -> tuple[str, str]:
    """The file that configures FX Lens for the source, with its text; else the nearest pyproject.toml, or a new one."""
    nearest = None
    root = folder = os.path.dirname(os.path.abspath(site.source.file))
    while os.path.isfile(os.path.join(root, "__init__.py")) and root != os.path.dirname(root):
        root = os.path.dirname(root)
    while True:
        for name in ("fxlens.toml", "pyproject.toml"):
            path = os.path.join(folder, name)
            text = site.read(path)
            if text is None:
                continue
            if name == "fxlens.toml" or re.search(r"^\s*\[tool\.fxlens\b", text, re.MULTILINE):
                return path, text
            nearest = nearest or (path, text)
        if os.path.isdir(os.path.join(folder, ".git")):
            root = folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return nearest or (os.path.join(root, "pyproject.toml"), "")
        folder = parent


def leaf_edit(path: str, text: str, name: str) -> Edit | None:
    """The edit that adds a class to ``leaf-modules`` of pyproject.toml or fxlens.toml; None when it is there."""
    lines = split_lines(text)
    newline = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
    setting = f'leaf-modules = ["{name}"]{newline}'
    own_file = os.path.basename(path) == "fxlens.toml"
    table = -1 if own_file else next((i for i, line in enumerate(lines) if line.strip() == "[tool.fxlens]"), None)
    if table is None:
        gap = newline if lines and lines[-1].strip() else ""
        head = newline if lines and not lines[-1].endswith(("\n", "\r")) else ""
        line, column = (len(lines), len(lines[-1].encode())) if head else (len(lines) + 1, 0)
        return Edit(path, line, column, line, column, f"{head}{gap}[tool.fxlens]{newline}{setting}")
    for i in range(table + 1, len(lines)):
        if lines[i].lstrip().startswith("["):
            break
        if re.match(r"\s*leaf-modules\s*=", lines[i]):
            return _extended(path, lines, i, name)
    head = "" if own_file or lines[table].endswith(("\n", "\r")) else newline
    line, column = (table + 1, len(lines[table].encode())) if head else (table + 2, 0)
    return Edit(path, line, column, line, column, head + setting)


def _new_line(path: str, lines: list[str], closing: int, name: str, comma: str) -> Edit:
    """The class on a line of its own, before the line of the closing bracket."""
    newline = "\r\n" if lines[0].endswith("\r\n") else "\n"
    if not comma:
        return Edit(path, closing + 1, 0, closing + 1, 0, f'    "{name}",{newline}')
    last = lines[closing - 1]
    column = len(last.partition("#")[0].rstrip().encode())
    rest = last.rstrip("\r\n").encode()[column:].decode()
    end = len(last.rstrip("\r\n").encode())
    return Edit(path, closing, column, closing, end, f',{rest}{newline}    "{name}",')


def _extended(path: str, lines: list[str], first: int, name: str) -> Edit | None:
    for i in range(first, len(lines)):
        if f'"{name}"' in lines[i] or f"'{name}'" in lines[i]:
            return None
        if "]" in lines[i].partition("#")[0]:
            before = "".join(lines[first : i + 1])
            closing = lines[i].partition("#")[0].rindex("]")
            column = len(lines[i][:closing].rstrip().encode()) if lines[i][:closing].strip() else 0
            empty = before[: before.rindex("]")].rstrip().endswith("[")
            comma = "" if empty or before[: before.rindex("]")].rstrip().endswith(",") else ", "
            if not lines[i][:closing].strip():
                return _new_line(path, lines, i, name, comma)
            return Edit(path, i + 1, column, i + 1, column, f'{comma}"{name}"')
    return None


@recipe("concrete-argument", kind="concrete")
def concrete_argument(site: Site) -> list[Draft]:
    """Fix an argument (bool, None, number or string) for the trace, in the `# fxlens:` comment of the class."""
    return [_concrete(site, *each) for each in _arguments(site)]


def _concrete(site: Site, name: str, value: str, owner: ast.ClassDef) -> Draft:
    setting = f'concrete_args={{"{name}": {value}}}'
    lines = site.source.lines
    title = f"Set {name}={value} for the trace (concrete_args)"
    note = f"the graph is for {name}={value} only, and `{name}` can no longer be passed by keyword"
    settings = {"concrete_args": {name: ast.literal_eval(value)}}
    for number in range(site.source.line_above(owner), owner.lineno + 1):
        text = lines[number - 1].rstrip("\r\n")
        found = re.search(r"#\s*fxlens:(?P<body>.*)$", text)
        if found is None:
            continue
        given = re.search(r"concrete_args\s*=\s*\{", text)
        if given is not None:
            column, added = len(text[: given.end()].encode()), f'"{name}": {value}, '
        else:
            inputs = found["body"].partition("<-")[2].strip()
            joint = ", " if inputs else " " if "<-" in found["body"] else " <- "
            column, added = len(text.rstrip().encode()), joint + setting
        return Draft(title, [Edit(site.source.file, number, column, number, column, added)], note, settings)
    comment = f"{site.source.indent_of(owner)}# fxlens: <- {setting}"
    first = min([owner.lineno, *(d.lineno for d in owner.decorator_list)])
    return Draft(title, [site.source.insert_line(first, comment)], note, settings)


def _arguments(site: Site) -> list[tuple[str, str, ast.ClassDef]]:
    """The arguments of forward that may decide a branch, those with the default None first, each with its default as
    text, and the class. A bool without a default is given twice."""
    owner = site.source.class_of(site.node)
    function = site.function
    if owner is None or function is None or function.name != "forward":
        return []
    if len({(s.file, s.line) for s in site.calls}) > 1 and _submodule_class(site) is not None:
        return []
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = dict(
        zip([a.arg for a in positional][len(positional) - len(arguments.defaults) :], arguments.defaults, strict=True)
    )
    defaults |= {a.arg: d for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None}
    names = dict.fromkeys(n.id for n in ast.walk(site.node) if isinstance(n, ast.Name))
    found = [(name, default) for name in names if isinstance(default := defaults.get(name), ast.Constant)]
    found.sort(key=lambda each: each[1].value is not None)
    bools = {
        each.arg
        for each in [*positional, *arguments.kwonlyargs]
        if isinstance(each.annotation, ast.Name) and each.annotation.id == "bool"
    }
    open_ones = [name for name in names if name in bools and name not in defaults]
    return [(name, value, owner) for name in open_ones for value in ("True", "False")] + [
        (name, site.text(default), owner)
        for name, default in found
        if default.value is None or isinstance(default.value, bool | int | str)
    ]
