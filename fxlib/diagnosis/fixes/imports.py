"""Which names a file has for torch's modules, and how to add the import or the `wrap` call that a fix needs."""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass, field

from fxlib.diagnosis.fixes.edits import Edit
from fxlib.diagnosis.fixes.source import Source

__all__ = ["Bindings", "Need", "needed", "wrap_call"]


@dataclass
class Bindings:
    """Dotted name of a module or object -> the expression for it at module scope of the file."""

    names: dict[str, str] = field(default_factory=dict)
    imported: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, source: Source) -> Bindings:
        bindings = cls()
        for statement in _header_statements(source.tree.body):
            if isinstance(statement, ast.Import):
                for alias in statement.names:
                    bindings.imported.add(alias.name)
                    if alias.asname:
                        bindings.names[alias.name] = alias.asname
                    else:
                        root = alias.name.split(".")[0]
                        bindings.names[root] = root
            elif isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
                for alias in statement.names:
                    bindings.names[f"{statement.module}.{alias.name}"] = alias.asname or alias.name
        return bindings

    def reach(self, dotted: str) -> str | None:
        """The expression for a dotted name by the file's imports, the shortest first: ``torch.nn`` -> ``nn``."""
        parts = dotted.split(".")
        for cut in range(len(parts), 0, -1):
            bound = self.names.get(".".join(parts[:cut]))
            if bound is not None:
                return ".".join([bound, *parts[cut:]])
        return None

    def resolve(self, node: ast.AST) -> str | None:
        """The dotted name that an expression such as ``F.dropout`` stands for: ``torch.nn.functional.dropout``."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        for dotted, bound in self.names.items():
            if bound == node.id:
                return ".".join([dotted, *reversed(parts)])
        return ".".join([node.id, *reversed(parts)]) if not parts else None


@dataclass
class Need:
    """An expression to write, and the edits that make it valid."""

    expression: str
    edits: list[Edit] = field(default_factory=list)


def _header_statements(body: list[ast.stmt]):
    """Module-scope statements, those under `if` and `try` too."""
    for statement in body:
        if isinstance(statement, ast.If | ast.Try):
            for block in (statement.body, statement.orelse, getattr(statement, "finalbody", [])):
                yield from _header_statements(block)
            for handler in getattr(statement, "handlers", []):
                yield from _header_statements(handler.body)
        else:
            yield statement


def _import_end(source: Source) -> int:
    """The line after the last import of the head of the file, or after the docstring."""
    line = 1
    for i, statement in enumerate(source.tree.body):
        if isinstance(statement, ast.Import | ast.ImportFrom) or (i == 0 and _is_docstring(statement)):
            line = source.line_below(statement)
        elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            break
    return line


def _is_docstring(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def add_import(source: Source, module: str) -> Edit:
    """Insert ``import module`` beside the other imports of the same package, else in its place among those of the
    standard library, or of other packages."""
    root = module.split(".")[0]
    imports = [s for s in source.tree.body if isinstance(s, ast.Import | ast.ImportFrom)]
    for statement in imports:
        if isinstance(statement, ast.Import) and any(a.name.split(".")[0] == root for a in statement.names):
            return source.insert_line(source.line_below(statement), f"import {module}")
    for statement in imports:
        if (
            isinstance(statement, ast.ImportFrom)
            and (statement.module or "").split(".")[0] == root
            and not statement.level
        ):
            line = statement.lineno if source.starts_line(statement) else source.line_below(statement)
            return source.insert_line(line, f"import {module}")
    plain = [s for s in imports if isinstance(s, ast.Import)]
    standard = root in sys.stdlib_module_names
    kin = [s for s in plain if (s.names[0].name.split(".")[0] in sys.stdlib_module_names) == standard]
    if kin:
        later = next((s for s in kin if s.names[0].name > module), None)
        return source.insert_line(source.line_below(kin[-1]) if later is None else later.lineno, f"import {module}")
    if plain and standard:
        return source.insert_line(plain[0].lineno, f"import {module}\n")
    if plain:
        return source.insert_line(source.line_below(plain[-1]), f"\nimport {module}")
    others = [s for s in imports if not (isinstance(s, ast.ImportFrom) and s.module == "__future__")]
    if others:
        return source.insert_line(others[0].lineno, f"import {module}")
    line = _import_end(source)
    following = source.lines[line - 1].strip() if line <= len(source.lines) else ""
    before = "\n" if line > 1 and source.lines[line - 2].strip() else ""
    return source.insert_line(line, f"{before}import {module}" + ("\n" if following else ""))


def add_line(source: Source, line: str) -> Edit:
    """Insert an import statement as the last one of the head of the file."""
    return source.insert_line(_import_end(source), line)


def needed(source: Source, dotted: str) -> Need:
    """How to write a dotted name such as ``torch.where`` in this file, with the import where it lacks.

    ``torch.nn.functional.gelu`` is reached through whichever prefix the file has imported. A missing package is
    imported by its top name, except that ``torch.fx`` is imported as itself.
    """
    bindings = Bindings.of(source)
    module = dotted.rpartition(".")[0] or dotted
    expression = bindings.reach(dotted)
    if (
        module == "torch.fx"
        and (expression is None or expression.startswith("torch.fx"))
        and "torch.fx" not in bindings.imported
    ):
        return Need("torch.fx" + dotted[len("torch.fx") :], [add_import(source, "torch.fx")])
    if expression is not None:
        return Need(expression)
    return Need(dotted, [add_import(source, dotted.split(".")[0])])


def wrap_call(source: Source, name: str, line: int | None = None) -> list[Edit]:
    """The edits that add ``torch.fx.wrap("name")`` at module scope, below the imports or before ``line``."""
    library = _wrap_library(Bindings.of(source))
    need = needed(source, f"{library}.wrap")
    call = f"{need.expression}({source.quote}{name}{source.quote})"
    if line is not None:
        return [*need.edits, source.insert_line(line, call)]
    existing = _last_wrap(source, need.expression)
    if existing is not None:
        return [*need.edits, source.insert_line(existing + 1, call)]
    line = _import_end(source)
    if not source.tree.body or line == 1:
        return [*need.edits, source.insert_line(line, f"{call}\n" if source.tree.body else call)]
    return [*need.edits, source.insert_line(line, f"\n{call}" + _gap(source, line))]


def _wrap_library(bindings: Bindings) -> str:
    """The library whose `wrap` a file should call: fxlib if it uses fxlib and not torch.fx."""
    used = bindings.imported | set(bindings.names)
    if any((name + ".").startswith("torch.fx.") for name in used):
        return "torch.fx"
    return "fxlib" if any((name + ".").startswith("fxlib.") for name in used) else "torch.fx"


def _gap(source: Source, line: int) -> str:
    """Nothing when a blank line already follows, else one."""
    follows = source.lines[line - 1].strip() if line <= len(source.lines) else ""
    return "\n" if follows else ""


def _last_wrap(source: Source, expression: str) -> int | None:
    """The line of the last `wrap` call at the head of the module."""
    last = None
    for statement in source.tree.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            break
        if (
            isinstance(statement, ast.Expr)
            and isinstance(statement.value, ast.Call)
            and ast.unparse(statement.value.func) == expression
        ):
            last = statement.end_lineno
    return last
