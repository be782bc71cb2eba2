"""Fixes: from a finding and the source text to text edits that remove it.

:func:`propose` computes the fixes of a finding (stdlib only, no code is run). ``verify`` applies one to a copy, traces
again and compares with eager, which is what makes a fix *preferred*; ``fix_all`` does so for all findings of a file.
"""

from __future__ import annotations

import ast
import logging
import re
from collections.abc import Callable, Iterable
from typing import Any

from fxlib.diagnosis.engine.packages import is_installed
from fxlib.diagnosis.fixes import recipes as _recipes
from fxlib.diagnosis.fixes.edits import Edit, apply_edits
from fxlib.diagnosis.fixes.fix import RECIPES, Draft, Fix, Recipe, Site
from fxlib.diagnosis.fixes.moved import names_itself, noticed
from fxlib.diagnosis.fixes.source import Source, source_of
from fxlib.diagnosis.rules import RULES
from fxlib.ir.strict import STRICT

__all__ = [
    "RECIPES",
    "Draft",
    "Edit",
    "Fix",
    "Recipe",
    "Site",
    "Source",
    "apply_edits",
    "apply_fix",
    "propose",
    "recipes_of",
]

_ = _recipes

log = logging.getLogger(__name__)

# Tried for every loud rule that has fixes, after its own.
_GENERIC = ("wrap", "lift-block", "lift-expression", "leaf-module")
# Errors of the code itself: whoever keeps their place out of the trace hides them until the model runs.
_MISTAKES = ("NameError", "UnboundLocalError", "ImportError", "ModuleNotFoundError", "AttributeError")
_OF_MISTAKES = ("import-name",)


def recipes_of(code: str) -> list[str]:
    """The ids of the recipes of a rule, best first."""
    rule = RULES.get(code)
    if rule is None:
        return []
    return list(dict.fromkeys([*rule.fixes, *(_GENERIC if rule.loud and rule.fixes else ())]))


def read_file(path: str) -> str | None:
    """The text of a file, its line ends untouched; None where it cannot be read."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return None


def propose(
    finding: Any,
    read: Callable[[str], str | None] = read_file,
    recipes: Iterable[str] | None = None,
    project: bool = False,
) -> list[Fix]:
    """The fixes of a finding, best first, not yet verified.

    Args:
        finding: has ``code``, ``span``, ``call_path`` or ``related``, as :class:`fxlib.diagnosis.report.Finding`.
        read: gives the text of a file as the trace saw it (an open buffer, else the file), or None.
        recipes: ids of recipes to try; those of the finding's rule when left out.
        project: whether to look into the other files of the project for what uses that which a fix changes.

    A finding in a module of an installed package gets those at the user's call of it: installed files are never edited,
    unless the model itself is defined in one.
    """
    if finding.span is None:
        return []
    span = own_place(finding)
    if recipes is None:
        recipes = recipes_of(finding.code)
    if finding.code == "FX199" and finding.data.get("raises") in _MISTAKES:
        recipes = [name for name in recipes if name in _OF_MISTAKES]
    if span is not finding.span:
        # What is written there is right; only leaving the module of the package out of the trace helps.
        recipes = [name for name in recipes if name == "leaf-module"]
    text = read(span.file)
    if text is None:
        return []
    try:
        source = source_of(span.file, text)
    except (SyntaxError, ValueError):
        return []
    nodes = source.enclosing(span)
    if not nodes:
        return []
    site = Site(finding, source, nodes[0], read, project)
    fixes: list[Fix] = []
    for name in recipes:
        entry = RECIPES.get(name)
        if entry is None:
            continue
        for draft in _drafts(entry, site):
            edits = source.with_comments(dict.fromkeys(draft.edits))
            if not edits or any(edits == other.edits for other in fixes):
                continue
            hazard = draft.hazard or (entry.assumes and f"right only if {entry.assumes}")
            if hazard is None and any(map(names_itself, source.ancestors(site.node))):
                hazard = "the text that it stands in names it"
            if entry.kind == "lift":
                hazard = hazard or noticed(source, site.function, edits)
            hazard = hazard or (_of_others(site, entry, edits) if project else None)
            fix = Fix(
                entry.id,
                draft.title,
                entry.kind,
                edits,
                draft.note,
                settings=draft.settings,
                first=draft.first,
                branches=draft.branches,
                hazard=hazard,
            )
            fixes.append(fix)
    return fixes


def _of_others(site: Site, recipe: Recipe, edits: Iterable[Edit]) -> str | None:
    """What others do with the code that is changed, which no proof tries."""
    if recipe.kind in ("lift", "wrap"):
        for file in {each.file for each in edits}:
            if not any(map(_imports_torch, source_of(file, site.read(file) or "").tree.body)):
                return "torch.fx is then imported at the top, whatever guards the import of torch"
    # As a decorator of a function, it scripts no method.
    script = _SCRIPT if site.source.class_of(site.node) is None else _OF_MODELS
    own = re.search(rf"{_OF_MODELS}|{_MARKS}", site.source.text)
    if recipe.kind == "lift" and (own or site.mentioned(script, *_WORDS)):
        return "torch.jit.script takes the arguments of the new function for tensors, since they have no annotations"
    return None


def _imports_torch(statement: ast.stmt) -> bool:
    names = [each.name for each in statement.names] if isinstance(statement, ast.Import) else []
    names += [statement.module or ""] if isinstance(statement, ast.ImportFrom) and not statement.level else []
    return any(each.split(".")[0] == "torch" for each in names)


_SCRIPT = (
    r"\bjit\.\w*script|(=\s*|getattr\()torch\.jit\b(?!\.)|[tT]o_?[tT]orch_?[sS]cript"
    r"|\b(import|from) torch\.jit\b|\bfrom torch import .*\bjit\b"
)
_WORDS = ("jit", "orchscript", "orchScript", "orch_script", "orch_Script")
"""One of them is in each text in which one of these is found."""
# What only classes that are scripted say.
_MARKS = r"\bjit\.(export|Final|unused|ignore|is_scripting|Attribute)\b"
_OF_MODELS = _SCRIPT.replace(r"\bjit\.\w*script", r"(?<!@)\b(?<!@torch\.)jit\.script\b|\bjit\.script_\w+")


def _drafts(recipe: Recipe, site: Site) -> list[Draft]:
    """What a recipe proposes. One that fails costs its own fixes, and not what was found."""
    try:
        drafts = recipe.draft(site)
        return [drafts] if isinstance(drafts, Draft) else list(drafts or ())
    except Exception:
        if STRICT:
            raise
        log.exception("the recipe %s failed; its fixes are missing", recipe.id)
        return []


def own_place(finding: Any) -> Any:
    """The innermost place of the call path in a file of the user's, or the finding's own where there is none."""
    if is_installed(finding.span.file):
        for step in reversed(getattr(finding, "call_path", ())):
            if not is_installed(step.file):
                return step
    return finding.span


def apply_fix(fix: Fix, read: Callable[[str], str | None] = read_file) -> dict[str, str]:
    """The texts of the files that a fix changes, after it; a file that is not there yet starts empty."""
    files = dict.fromkeys(edit.file for edit in fix.edits)
    return {file: apply_edits(read(file) or "", [e for e in fix.edits if e.file == file]) for file in files}
