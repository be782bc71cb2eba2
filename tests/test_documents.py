"""`docs/architecture.md` is a true map: it has every folder, and every file, class and function that it names is there.

Files that other pages name by a path are there as well, and so is what a link leads to.
"""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
MAP = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PROGRAMS = ("fxlib", "server/fxlens", "vscode-extension/src")
#: Where a path may begin that a page leaves the beginning of out.
HOMES = (".", "docs", *PROGRAMS, "fxlib/diagnosis", "fxlib/lowering")
#: Files of users, and of torch.
ELSEWHERE = {"pyproject.toml", "models/net.py", "module.py", "sitecustomize.py", "fxlens.toml", "logging.py", "file.py"}


def quoted(text: str) -> list[str]:
    return re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.S))


def is_path(word: str) -> bool:
    return re.fullmatch(r"[\w./-]+(/|\.(py|ts|js|mjs|sh|md|json))", word) is not None


def found(path: str, homes: tuple[str, ...]) -> bool:
    return any((ROOT / home / path).exists() for home in homes)


def names(file: Path) -> set[str]:
    """What a Python file defines or imports: ``name``, and ``Class.method``."""
    out: set[str] = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            out.add(node.name)
            out |= {f"{node.name}.{inner.name}" for inner in getattr(node, "body", ()) if hasattr(inner, "name")}
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            out |= {target.id for target in targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.ImportFrom):
            out |= {alias.asname or alias.name for alias in node.names}
    return out


def defined(word: str, folder: Path) -> bool:
    """Whether ``word``, such as ``graph.Graph``, ``Pool.run`` or ``findings``, is defined by a file of the folder."""
    files = [folder] if folder.is_file() else sorted(folder.glob("*.py"))
    module, _, name = word.partition(".")
    return any(word in names(file) or (file.stem == module and name in names(file)) for file in files)


def tables() -> list[tuple[str, list[str]]]:
    """The rows of the map under each heading that names a program: ``(program, cells)``."""
    rows, program = [], ""
    for line in MAP.splitlines():
        if line.startswith("#"):
            program = next((each for each in PROGRAMS if f"`{each}`" in line), "")
        elif program and line.startswith("| `"):
            rows.append((program, [cell.strip() for cell in line.strip("|").split("|")]))
    return rows


ROWS = tables()


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_folder_is_on_the_map(program):
    listed = {word for home, cells in ROWS if home == program for word in quoted(cells[0])}
    folders = {
        f"{path.parent.relative_to(ROOT / program).as_posix()}/"
        for pattern in ("*.py", "*.ts")
        for path in (ROOT / program).rglob(pattern)
        if path.parent != ROOT / program
    }
    empty = {"passes/dialect/"}  # holds a folder and nothing else
    assert folders - empty == {word for word in listed if word.endswith("/")}
    assert all((ROOT / program / word).exists() for word in listed)


@pytest.mark.parametrize(("program", "cells"), ROWS, ids=[cells[0] for _, cells in ROWS])
def test_entry_points_are_there(program, cells):
    folders = [ROOT / program / word for word in quoted(cells[0])]
    words = quoted(cells[2])
    assert words
    for word in words:
        name = re.sub(r"\(.*\)$", "", word)
        here = tuple(folder.relative_to(ROOT).as_posix() for folder in folders)
        assert found(name, (*HOMES, *here)) if is_path(name) else any(defined(name, folder) for folder in folders), word


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_names_are_there(page):
    text = page.read_text(encoding="utf-8")
    paths = {word for word in quoted(text) if is_path(word) and "/" in word.rstrip("/")} - ELSEWHERE
    assert {word for word in paths if not found(word, HOMES)} == set()
    links = {link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link}
    assert {link for link in links if link and not (page.parent / link).exists()} == set()


def test_texts_are_in_plain_english():
    """Phrases that readers could not make sense of, in what users read."""
    riddles = r"\b(mended|needs its truth|what comes by|asked of|at hand|met by way of)\b"
    files = [*PAGES, *(ROOT / "docs" / "rules").glob("*.md"), ROOT / "server/fxlens/rules.json"]
    files += [ROOT / "vscode-extension/package.json", *(ROOT / "vscode-extension/media/walkthrough").glob("*.md")]
    assert len(files) > 80
    assert {file.name for file in files if re.search(riddles, file.read_text(encoding="utf-8"))} == set()


def test_the_walks_name_what_is_there():
    walks = MAP[MAP.index("## From a keystroke") : MAP.index("## Spans")]
    python = [path for program in PROGRAMS[:2] for path in (ROOT / program).rglob("*.py")]
    known = set().union(*(names(path) for path in python))
    called = {word for word in quoted(walks) if re.fullmatch(r"[A-Z][A-Za-z]+\.\w+", word)}
    assert called
    assert called - known == set()
    for file, name in re.findall(r"`([\w/]+\.py)(?:: |`: `)(\w+)`", walks):
        assert defined(name, ROOT / "server/fxlens" / file), (file, name)
    files = {re.match(r"[\w/.]+", word)[0] for word in quoted(walks) if re.match(r"[\w/]+\.(py|ts)\b", word)}
    assert {file for file in files if not found(file, HOMES)} == set()
