"""Fix all: apply preferred fixes one after the other, each verified on the text that those before it left."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from fxlib.diagnosis.fixes import apply_fix, read_file
from fxlib.diagnosis.fixes.fix import Fix
from fxlib.diagnosis.fixes.reload import load_file
from fxlib.diagnosis.fixes.verify import Checker, Load, Read

__all__ = ["FixedFiles", "fix_all"]

_MOST = 60


@dataclass
class FixedFiles:
    """The texts that changed, the fixes that were applied in order, and the findings that remain."""

    texts: dict[str, str] = field(default_factory=dict)
    applied: list[Fix] = field(default_factory=list)
    remaining: list[Any] = field(default_factory=list)


def fix_all(
    path: str,
    targets: Iterable[tuple[str, str | None]],
    *,
    read: Read = read_file,
    load: Load | None = None,
    leaf_modules: tuple[str, ...] = (),
    wanted: Callable[[Any, Read], bool] = lambda finding, read: True,
    checker: Callable[..., Checker] = Checker,
) -> FixedFiles:
    """Apply every fix that proves itself, until none is left.

    Args:
        path: the file.
        targets: for each module of the file, the expression that makes it and its inputs (None where unknown).
        read, load, leaf_modules: as for :class:`~fxlib.diagnosis.fixes.verify.Checker`; the edited texts are given to
            ``load`` on top.
        wanted: which findings to fix, called with a function that gives the text of a file as it is by then.
        checker: makes what proves a fix, called as `Checker` is: for another capture than torch.fx, another one.

    Fixes that change settings (leaf modules, concrete arguments) or only go around a problem are left to a person: they
    decide what the graph is for. A target that cannot be built is passed over.
    """
    fixed = FixedFiles()

    def current(file: str) -> str | None:
        return fixed.texts[file] if file in fixed.texts else read(file)

    def loaded(file: str, texts: dict[str, str]) -> Any:
        known = {**fixed.texts, **texts}
        return load(file, known) if load is not None else load_file(file, known, current)

    for construct, inputs in targets:
        remaining: list[Any] = []
        for _ in range(_MOST):
            proves = checker(path, construct, inputs, read=current, load=loaded, leaf_modules=leaf_modules)
            try:
                findings = proves.before.report.findings
            except Exception:
                break
            remaining = findings
            chosen = _first_proven(proves, [finding for finding in findings if wanted(finding, current)])
            if chosen is None:
                break
            fixed.texts.update(apply_fix(chosen, current))
            fixed.applied.append(chosen)
        fixed.remaining += remaining
    return fixed


def _first_proven(checker: Checker, findings: list[Any]) -> Fix | None:
    for finding in findings:
        for fix in checker.settle(finding):
            if fix.preferred and not fix.settings and fix.kind != "around":
                return fix
    return None
