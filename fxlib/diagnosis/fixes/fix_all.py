"""Fix all: apply preferred fixes one after the other, each verified on the text that those before it left."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fxlib.diagnosis.fixes import apply_fix, read_file
from fxlib.diagnosis.fixes.fix import Fix
from fxlib.diagnosis.fixes.reload import load_file
from fxlib.diagnosis.fixes.sides import Load, Read
from fxlib.diagnosis.fixes.tidy import without_unused_imports
from fxlib.diagnosis.fixes.verdict import Target
from fxlib.diagnosis.fixes.verify import Checker

__all__ = ["FixedFiles", "Target", "fix_all"]

_MOST = 60
_OF_A_PERSON = ("around", "leaf", "concrete")
"""Kinds of fixes that a person has to decide on: they say what the graph is for."""


@dataclass
class FixedFiles:
    """The texts that changed, the fixes that were applied in order, and the findings that remain."""

    texts: dict[str, str] = field(default_factory=dict)
    applied: list[Fix] = field(default_factory=list)
    remaining: list[Any] = field(default_factory=list)


def fix_all(
    path: str,
    targets: Iterable[Target],
    *,
    read: Read = read_file,
    load: Load | None = None,
    leaf_modules: tuple[str, ...] = (),
    tracer: Callable[[], Any] | None = None,
    names: Mapping[str, Any] | None = None,
    wanted: Callable[[Any, Read], bool] = lambda finding, read: True,
    takes: Callable[[Fix], bool] = lambda fix: True,
    unsafe: bool = False,
    checker: Callable[..., Checker] = Checker,
    others: Iterable[Target] = (),
    known: Iterable[tuple[Any, Fix]] = (),
    folder: str | None = None,
    on_target: Callable[[Target], None] = lambda target: None,
    on_fixed: Callable[[FixedFiles], None] = lambda fixed: None,
) -> FixedFiles:
    """Apply every fix that proves itself, until none is left.

    Args:
        path: the file.
        targets: the modules of the file.
        read, load, leaf_modules, tracer, names: as for :class:`~fxlib.diagnosis.fixes.verify.Checker`; the edited texts
            are given to ``load`` on top.
        wanted: which findings to fix, called with a function that gives the text of a file as it is by then.
        takes: which proven fixes to apply, by where their edits are in the texts as they are by then.
        unsafe: whether to apply also fixes that assume what the text does not say, such as that a value is a tensor.
        checker: makes what proves a fix, called as `Checker` is: for another capture than torch.fx, another one.
        others: further modules of the file, which have to compute the same with a fix as without it.
        known: findings, and fixes that proved themselves on the texts as they are: the first that is wanted is applied
            without another proof.
        folder: where files are that may import from the ones that are fixed; otherwise the folder of each.
        on_target: called before each target.
        on_fixed: called with what is fixed so far after each fix.

    An import that the fixes leave without a use goes too. Fixes that change settings (leaf modules, concrete arguments)
    or only go around a problem are left to a person. A target that cannot be built is passed over.
    """
    fixed = FixedFiles()
    targets = list(targets)
    all_of_file = list(dict.fromkeys([*targets, *others]))

    def current(file: str) -> str | None:
        return fixed.texts[file] if file in fixed.texts else read(file)

    def loaded(file: str, texts: dict[str, str]) -> Any:
        together = {**fixed.texts, **texts}
        return load(file, together) if load is not None else load_file(file, together, current)

    def put_in(fix: Fix) -> None:
        for file, text in apply_fix(fix, current).items():
            before = read(file) or ""
            tidy = file.endswith(".py")
            fixed.texts[file] = without_unused_imports(file, before, text, folder) if tidy else text
        fixed.applied.append(fix)
        on_fixed(fixed)

    def fix_target(target: Target) -> list[Any]:
        """Apply what proves itself on one target; the findings that remain."""
        remaining: list[Any] = []
        on_target(target)
        for _ in range(_MOST):
            proves = checker(
                path,
                target.construct,
                target.inputs,
                read=current,
                load=loaded,
                assumed=target.assumed,
                leaf_modules=leaf_modules,
                tracer=tracer,
                names=names,
                others=all_of_file,
                unsafe=unsafe,
            )
            try:
                remaining = proves.before.report.findings
            except Exception:
                break
            chosen = _first_proven(proves, [each for each in remaining if wanted(each, current)], takes, unsafe)
            if chosen is None:
                break
            put_in(chosen)
        return remaining

    proven = (fix for finding, fix in known if wanted(finding, current) and _is_applied(fix, takes))
    if (first := next(proven, None)) is not None:
        put_in(first)
    left: dict[Target, list[Any]] = {}
    for target in targets:
        left[target] = fix_target(target)
    # What was fixed for one may let a fix for another prove itself.
    for target in left if fixed.applied and len(left) > 1 else ():
        if left[target]:
            left[target] = fix_target(target)
    fixed.remaining = [finding for findings in left.values() for finding in findings]
    return fixed


def _first_proven(checker: Checker, findings: list[Any], takes: Callable[[Fix], bool], unsafe: bool) -> Fix | None:
    for finding in findings:
        offered = checker.settle(finding, every=False)
        for fix in offered:
            proven = fix.preferred or (unsafe and fix.proven)
            if proven and _is_applied(fix, takes):
                return fix
    return None


def _is_applied(fix: Fix, takes: Callable[[Fix], bool]) -> bool:
    return fix.kind not in _OF_A_PERSON and takes(fix)
