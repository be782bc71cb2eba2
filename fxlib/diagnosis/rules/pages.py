"""What is written from the table of rules: a page for each, the index, and the facts that the language server reads.

``python -m fxlib.diagnosis.rules.pages`` writes them into the project that it is part of.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from fxlib.diagnosis.rules import RULES, Rule
from fxlib.diagnosis.rules.rule import FORMS

__all__ = ["index", "page", "table", "write"]

_GROUPS = {
    "FX1": ("Loud", "torch.fx raises. The model cannot be captured until these are fixed."),
    "FX2": ("Silent", "torch.fx succeeds, but the graph gives, or may give, different results than the model."),
    "FX3": ("Set-up", "The model could not be imported, constructed, or traced at all."),
    "FX4": ("Lowering", "The graph is fine, but a part of it cannot be lowered to an engine."),
    "FX5": ("torch.export", "torch.export refuses the model, or exports a program that behaves differently."),
    "FX6": ("torch.compile", "The graph breaks, or torch.compile recompiles."),
    "FX7": ("Dynamic shapes", "The exported program is valid for one size only, although the model accepts others."),
}
_WHO = {"FX5": "torch.export", "FX6": "torch.compile", "FX7": "torch.export"}
_CHOICES = {
    "error": "error",
    "warning": "warning",
    "info": "information",
    "hint": "hint",
}


def page(rule: Rule) -> str:
    """One page in Markdown: what, why, torch's own text, a failing and a working example, fixes, how to silence it."""
    kind, _ = _GROUPS[rule.code[:3]]
    who = _who(rule)
    parts = [f"# {rule.code}: {rule.title}", f"`{rule.slug}` · {kind.lower()} · {_CHOICES[rule.severity]}"]
    parts.append(rule.explanation.strip())
    if rule.torch_text:
        parts.append(f"## What {who} says")
        parts.append(f"```text\n{rule.torch_text.strip()}\n```")
    if rule.bad:
        silent = "## Silently wrong" if rule.code < "FX3" else "## Example"
        parts.append("## Fails" if rule.loud or (rule.code > "FX5" and rule.severity == "error") else silent)
        parts.append(f"```python\n{rule.bad.strip()}\n```")
        inputs = rule.inputs.strip()
        options = "" if rule.options == "{}" else f", **{rule.options}"
        entry = f"fxlib.{rule.seen}" if rule.code < "FX5" else "fxlib.captures.judge"
        parts.append(f"Seen with `{entry}(Net(), {inputs}{options})`.")
    if rule.example is not None:
        example = rule.example
        heading = "## Example" if rule.code > "FX5" else "## Fails"
        parts += ["## Silently wrong" if rule.code < "FX3" else heading, *_files(example.bad)]
        parts += [example.how] if example.how else []
        parts += ["## Works", *_files(example.good)]
    if rule.good:
        parts.append("## Works")
        parts.append(f"```python\n{rule.good.strip()}\n```")
    fixes = _fixes(rule)
    if fixes:
        parts.append("## Fixes")
        parts.append(
            "FX Lens offers these where they fit. A fix is preferred only after the edited code was traced again and "
            "its results were compared with eager."
        )
        parts.append("\n".join(f"- {line}" for line in fixes))
    parts.append("## Silence it")
    parts.append(_silence(rule))
    return "\n\n".join(parts) + "\n"


def _who(rule: Rule) -> str:
    """The capture that a rule is about."""
    return _WHO.get(rule.code[:3], "torch.fx")


def _files(files: Mapping[str, str]) -> list[str]:
    """A block for each file, with its name above where there are several."""
    parts = []
    for name, text in files.items():
        parts += [f"`{name}`:"] if len(files) > 1 else []
        kind = "toml" if name.endswith(".toml") else "python"
        parts.append(f"```{kind}\n{text.strip()}\n```")
    return parts


def _fixes(rule: Rule) -> list[str]:
    """What each recipe of the rule does: the first sentence of its docstring."""
    from fxlib.diagnosis.fixes import RECIPES, recipes_of

    return [
        " ".join(RECIPES[name].doc.strip().split("\n\n")[0].split()).replace("``", "`")
        for name in recipes_of(rule.code)
    ]


def _silence(rule: Rule) -> str:
    return (
        f"On one line: `# fxlens: ignore[{rule.code}]`. In a project, in `pyproject.toml`:\n\n"
        f'```toml\n[tool.fxlens]\nignore = ["{rule.code}"]\n\n[tool.fxlens.severity]\n{rule.code} = "info"\n```\n\n'
        f"`ignore` hides the finding, `severity` changes how it is shown. Neither changes what {_who(rule)} does."
    )


def index() -> str:
    """The list of all rules, by group."""
    parts = [
        "# Rules",
        "A released code never changes its meaning. Every page has an example that fails and one that works.",
    ]
    parts.append(
        "Some expressions give another result for a traced value than for a real one: `mask is None`, `isinstance`, an "
        "exception that a handler catches. The trace then takes another branch than a normal run, and never reaches "
        "the code that a normal run executes. FX Lens analyses that code as well. What it finds there is reported as "
        "*After ... is fixed*, and as a warning at most, since torch.fx does not fail on the code as it is."
    )
    for prefix, (kind, text) in _GROUPS.items():
        rules = [RULES[code] for code in sorted(RULES) if code.startswith(prefix)]
        if not rules:
            continue
        parts.append(f"## {kind}\n\n{text}")
        rows = [f"| [{r.code}]({r.code}.md) | {r.title} | {_CHOICES[r.severity]} |" for r in rules]
        parts.append("\n".join(["| code | what | severity |", "|---|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"


def table() -> str:
    """What the language server has to know of the rules, as JSON, a rule on each line: it may not import them."""
    facts = ("slug", "title", "message", "advice", "severity", "loud", "misleads", "torch_text")
    rows = [
        f"{json.dumps(code)}: {json.dumps({name: getattr(RULES[code], name) for name in facts})}"
        for code in sorted(RULES)
    ]
    body = ",\n".join(rows)
    return f'{{"forms": {json.dumps(FORMS)},\n"rules": {{\n{body}\n}}}}\n'


def write(project: Path) -> list[Path]:
    """Write every page, the index and the server's table; the paths whose text changed. Pages of codes that are gone
    are deleted."""
    folder = project / "docs" / "rules"
    folder.mkdir(parents=True, exist_ok=True)
    texts = {folder / f"{code}.md": page(rule) for code, rule in RULES.items()}
    texts |= {folder / "index.md": index(), project / "server" / "fxlens" / "rules.json": table()}
    changed = []
    for path, text in texts.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            changed.append(path)
    for path in folder.glob("FX*.md"):
        if path not in texts:
            path.unlink()
            changed.append(path)
    return changed


if __name__ == "__main__":
    for changed_path in write(Path(__file__).resolve().parents[3]):
        print(changed_path)
