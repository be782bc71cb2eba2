"""The rooms of the project and which of them may know which: read from the imports, nothing is run."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# Import paths of torch.fx that only hand names on.
FACES = {"fxlib.passes.dialect.common.cse_pass"}
# Room -> what it may import of fxlib. A room may always import itself.
BELOW = {
    "ir": (),
    "codegen": ("ir", "interop"),
    "interop": ("ir", "codegen"),
    "capture": ("ir", "codegen", "interop"),
    "transform": ("ir", "codegen", "interop", "capture", "config", "passes.utils"),
    "shapes": ("ir", "codegen", "interop", "capture", "transform"),
    "passes": ("ir", "codegen", "interop", "capture", "transform", "shapes", "compat.submodules"),
    "diagnosis": ("ir", "codegen", "interop", "capture", "transform", "shapes", "passes"),
    "captures": (
        "ir", "codegen", "interop", "capture", "shapes", "diagnosis.report", "diagnosis.rules", "diagnosis.engine",
        "diagnosis.fixes",
    ),
    "lowering": ("ir", "codegen", "interop", "capture", "transform", "shapes", "passes", "diagnosis"),
}


def modules() -> dict[str, Path]:
    found = {}
    for top, home in (("fxlib", ROOT), ("fxlens", ROOT / "server")):
        for path in sorted((home / top).rglob("*.py")):
            parts = path.relative_to(home).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


class Imports(ast.NodeVisitor):
    """The modules that a file imports: ``(name, inside a function)``, those for type checkers apart."""

    def __init__(self, name: str, path: Path) -> None:
        self.package = name if path.stem == "__init__" else name.rpartition(".")[0]
        self.found: set[tuple[str, bool]] = set()
        self.depth = 0
        self.visit(ast.parse(path.read_text()))

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" not in ast.dump(node.test):
            self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        self.found.update((alias.name, self.depth > 0) for alias in node.names)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = node.module or ""
        if node.level:
            owner = self.package.rsplit(".", node.level - 1)[0] if node.level > 1 else self.package
            base = f"{owner}.{base}".rstrip(".")
        for alias in node.names:
            full = f"{base}.{alias.name}"
            self.found.add((full if full in MODULES else base, self.depth > 0))


IMPORTS = {name: Imports(name, path).found for name, path in MODULES.items()}


def within(name: str, room: str) -> bool:
    return name == room or name.startswith(f"{room}.")


@pytest.mark.parametrize("room", BELOW)
def test_no_room_of_fxlib_knows_one_above_it(room):
    allowed = [f"fxlib.{other}" for other in (room, *BELOW[room])]
    back = {
        (name, used)
        for name, imports in IMPORTS.items()
        if within(name, f"fxlib.{room}")
        for used, _ in imports
        if within(used, "fxlib") and not any(within(used, other) for other in allowed) and name not in FACES
    }
    assert not back


def test_only_interop_imports_torch_fx():
    users = {name for name, imports in IMPORTS.items() for used, _ in imports if within(used, "torch.fx")}
    assert {name for name in users if not within(name, "fxlib.interop")} == set()


def test_what_is_for_compatibility_is_used_by_nobody():
    faces = {"fxlib.compat", "fxlib.experimental", "fxlib.passes.dialect"}
    users = {
        (name, used)
        for name, imports in IMPORTS.items()
        for used, _ in imports
        if any(within(used, face) for face in faces) and not any(within(name, face) for face in faces)
    }
    allowed = {"fxlib.compat.submodules", "fxlib.compat.tensor_type"}
    assert {(name, used) for name, used in users if used not in allowed and name.count(".") > 1} == set()


def test_the_server_never_imports_torch_or_fxlib():
    at_once = {
        (name, used)
        for name, imports in IMPORTS.items()
        if within(name, "fxlens")
        for used, late in imports
        if (within(used, "torch") or within(used, "fxlib")) and not (late and within(name, "fxlens.worker"))
    }
    # Run in the user's interpreter, and imported by nothing that the server imports.
    assert {name for name, _ in at_once} <= {"fxlens.worker.costs"}


def test_circles_have_at_most_two_files():
    graph = {name: {used for used, _ in imports if used in MODULES} - {name} for name, imports in IMPORTS.items()}
    reach: dict[str, set[str]] = {}
    for start in graph:
        seen, stack = set(), [start]
        while stack:
            for used in graph[stack.pop()] - seen:
                seen.add(used)
                stack.append(used)
        reach[start] = seen
    circles = {frozenset(b for b in reach[a] if a in reach[b]) for a in graph if a in reach[a]}
    assert {circle for circle in circles if len(circle) > 2} == set()


def test_pages_never_import_vscode():
    pages = ROOT / "vscode-extension" / "src" / "panel"
    found = [path.name for path in pages.rglob("*.ts") if re.search(r"""from ['"]vscode['"]""", path.read_text())]
    assert list(pages.rglob("*.ts")) and not found
