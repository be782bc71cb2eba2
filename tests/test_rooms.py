"""The rooms of the project and which of them may know which: read from the imports, nothing is run."""

import ast
import functools
import re
from collections import Counter
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ROOT = TESTS.parent
# Import paths of torch.fx that only hand names on.
FACES = {"fxlib.passes.dialect.common.cse_pass"}
# Room -> what it may import of fxlib: rooms, or single files of them. A room may always import itself. No two
# rooms need each other: what the tracer and the code generator take of `interop` is below them, and quantization looks
# into the table of engines only, for the int8 that one takes.
BELOW = {
    "ir": (),
    "codegen": ("ir", "interop.torch_side", "interop.graphs"),
    "interop": ("ir", "codegen"),
    "capture": ("ir", "codegen", "interop.torch_side"),
    "transform": ("ir", "codegen", "interop", "capture", "config", "passes.utils"),
    "shapes": ("ir", "codegen", "interop", "capture", "transform"),
    "passes": ("ir", "codegen", "interop", "capture", "transform", "shapes", "compat.submodules", "lowering.engines"),
    "diagnosis": ("ir", "codegen", "interop", "capture", "transform", "shapes", "passes"),
    "captures": (
        "ir",
        "codegen",
        "interop",
        "capture",
        "shapes",
        "diagnosis.report",
        "diagnosis.rules",
        "diagnosis.engine",
        "diagnosis.fixes",
    ),
    "lowering": ("ir", "codegen", "interop", "capture", "transform", "shapes", "passes"),
    "benchmark": ("ir", "codegen", "capture", "passes", "lowering"),
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


@functools.cache  # when a test asks: every worker of pytest collects this file, and to read them all takes two seconds
def imported() -> dict[str, set[tuple[str, bool]]]:
    return {name: Imports(name, path).found for name, path in MODULES.items()}


def within(name: str, room: str) -> bool:
    return name == room or name.startswith(f"{room}.")


@pytest.mark.parametrize("room", BELOW)
def test_no_room_of_fxlib_knows_one_above_it(room):
    allowed = [f"fxlib.{other}" for other in (room, *BELOW[room])]
    back = {
        (name, used)
        for name, imports in imported().items()
        if within(name, f"fxlib.{room}")
        for used, _ in imports
        if within(used, "fxlib") and not any(within(used, other) for other in allowed) and name not in FACES
    }
    assert not back


def test_only_interop_imports_torch_fx():
    users = {name for name, imports in imported().items() for used, _ in imports if within(used, "torch.fx")}
    assert {name for name in users if not within(name, "fxlib.interop")} == set()


def test_what_is_for_compatibility_is_used_by_nobody():
    faces = {"fxlib.compat", "fxlib.experimental", "fxlib.passes.dialect"}
    users = {
        (name, used)
        for name, imports in imported().items()
        for used, _ in imports
        if any(within(used, face) for face in faces) and not any(within(name, face) for face in faces)
    }
    allowed = {"fxlib.compat.submodules", "fxlib.compat.tensor_type"}
    assert {(name, used) for name, used in users if used not in allowed and name.count(".") > 1} == set()


# Room of the server -> what it may import of the server; `(late)` only inside functions.
SERVER_BELOW = {
    "record": (),
    "not_judged": (),
    "answers": ("record", "sources"),
    "sources": ("record",),
    "config": ("record", "not_judged", "rules", "sources", "ipc"),
    "index": ("sources",),
    "recording": ("sources", "ipc"),
    "ipc": (),
    "overlays": ("record", "not_judged"),
    "passes": ("record",),
    "syntax": ("record", "rules", "sources"),
    "rules": ("record",),
    "views": ("record", "answers", "sources", "rules"),
    "host": ("record", "sources", "ipc"),
    "jobs": (
        "record", "answers", "sources", "config", "ipc", "overlays", "passes", "host.outcome", "host.failures",
        "worker (late)",
    ),
    "worker": ("record", "sources", "ipc", "jobs", "recording.agent.describe"),
    "workspace": (
        "record", "not_judged", "answers", "sources", "config", "ipc", "overlays", "views", "host", "jobs", "syntax",
    ),
    "checking": (
        "record", "not_judged", "answers", "sources", "config", "ipc", "overlays", "views", "host", "jobs", "rules",
        "syntax",
    ),
    "mcp": ("record", "rules", "sources", "config", "checking", "views", "host", "ipc", "index", "syntax"),
    "testing": ("record", "sources", "config", "checking", "worker (late)"),
    "features": (
        "record", "not_judged", "answers", "sources", "config", "ipc", "overlays", "views", "host", "jobs", "passes",
        "rules", "workspace", "checking", "mcp",
    ),
}  # fmt: skip
VERSION = "fxlens"  # its `__init__` has the version, and nothing else


@pytest.mark.parametrize("room", SERVER_BELOW)
def test_no_room_of_the_server_knows_one_above_it(room):
    allowed = {f"fxlens.{other}" for other in (room, *SERVER_BELOW[room]) if not other.endswith(" (late)")}
    late_too = {f"fxlens.{other.removesuffix(' (late)')}" for other in SERVER_BELOW[room]}
    back = {
        (name, used)
        for name, imports in imported().items()
        if within(name, f"fxlens.{room}")
        for used, late in imports
        if within(used, "fxlens") and used != VERSION
        if not any(within(used, other) for other in allowed | (late_too if late else set()))
    }
    assert not back


def test_every_file_of_the_server_is_in_a_room():
    alone = {"fxlens", "fxlens.__main__", "fxlens.safe_path", "fxlens.cli", "fxlens.server", "fxlens.outbox"}
    rooms = [f"fxlens.{room}" for room in (*SERVER_BELOW, "commands")]
    assert {name for name in MODULES if within(name, "fxlens")} == alone | {
        name for name in MODULES if any(within(name, room) for room in rooms)
    }


def test_only_functions_that_run_in_the_users_interpreter_import_torch_or_fxlib():
    users = {
        (name, late)
        for name, imports in imported().items()
        if within(name, "fxlens")
        for used, late in imports
        if within(used, "torch") or within(used, "fxlib")
    }
    assert all(late for _, late in users)
    rooms = ("fxlens.worker", "fxlens.jobs", "fxlens.passes", "fxlens.testing")
    assert {name for name, _ in users if not any(within(name, room) for room in rooms)} == set()


def test_circles_have_at_most_two_files():
    graph = {name: {used for used, _ in imports if used in MODULES} - {name} for name, imports in imported().items()}
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


EXTENSION = ROOT / "vscode-extension" / "src"


def test_pages_and_messages_never_import_vscode_nor_the_host():
    found = {
        path.name
        for folder in ("pages", "protocol")
        for path in (EXTENSION / folder).rglob("*.ts")
        if re.search(r"""from ['"](vscode|(\.\./)+host/.*)['"]""", path.read_text())
    }
    assert list((EXTENSION / "pages").rglob("*.page.ts")) and not found


def test_the_host_of_the_extension_takes_only_the_documents_of_pages():
    found = {
        (path.name, used)
        for path in (EXTENSION / "host").rglob("*.ts")
        for used in re.findall(r"from '(?:\.\./)+pages/(.*)'", path.read_text())
    }
    assert {used.rpartition("/")[2] for _, used in found} == {"document"}


def test_files_of_tests_that_are_in_no_package_have_names_of_their_own():
    """pytest imports them by their names alone, and a whole run ends where it finds one twice."""
    names = Counter(path.name for path in TESTS.rglob("test_*.py") if not (path.parent / "__init__.py").exists())
    assert len(names) > 80 and [name for name, count in names.items() if count > 1] == []
