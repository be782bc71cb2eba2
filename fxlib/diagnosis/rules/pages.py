"""The pages of the rules, written from the table: ``python -m fxlib.diagnosis.rules.pages docs/rules``."""

from __future__ import annotations

import sys
from pathlib import Path

from fxlib.diagnosis.rules import RULES, Rule
from fxlib.diagnosis.rules.setup_examples import SETUP_EXAMPLES

__all__ = ["index", "page", "write"]

_GROUPS = {
    "FX1": ("Loud", "torch.fx raises. The model cannot be captured until these are mended."),
    "FX2": ("Silent", "torch.fx succeeds, and the graph computes something else than the model, or may."),
    "FX3": ("Set-up", "The model could not be imported, constructed, or traced at all."),
    "FX4": ("Lowering", "The graph is fine, and a part of it cannot be lowered to an engine."),
    "FX5": ("torch.export", "torch.export refuses the model, or exports a program that does something else."),
    "FX6": ("torch.compile", "The graph breaks, or torch.compile compiles again."),
    "FX7": ("Dynamic shapes", "The exported program holds for one size, although the model takes others."),
}
_CHOICES = {
    "error": "error",
    "warning": "warning",
    "info": "information",
    "hint": "hint",
}


def page(rule: Rule) -> str:
    """One page in Markdown: what, why, torch's own text, a failing and a mended example, fixes, how to silence it."""
    kind, _ = _GROUPS[rule.code[:3]]
    parts = [f"# {rule.code}: {rule.title}", f"`{rule.slug}` · {kind.lower()} · {_CHOICES[rule.severity]}"]
    parts.append(rule.explanation.strip())
    if rule.torch_text:
        parts.append("## What torch.fx says" if rule.loud else "## What torch says")
        parts.append(f"```text\n{rule.torch_text.strip()}\n```")
    if rule.bad:
        silent = "## Traces into something else" if rule.code < "FX3" else "## Example"
        parts.append("## Fails" if rule.loud or (rule.code > "FX5" and rule.severity == "error") else silent)
        parts.append(f"```python\n{rule.bad.strip()}\n```")
        inputs = rule.inputs.strip()
        options = "" if rule.options == "{}" else f", **{rule.options}"
        entry = "fxlib.diagnose" if rule.code < "FX5" else "fxlib.captures.judge"
        parts.append(f"Seen with `{entry}(Net(), {inputs}{options})`.")
    if rule.code in SETUP_EXAMPLES:
        example = SETUP_EXAMPLES[rule.code]
        parts += ["## Traces into something else" if rule.code < "FX3" else "## Fails", *_files(example.bad)]
        parts += [example.how] if example.how else []
        parts += ["## Works", *_files(example.good)]
    if rule.good:
        parts.append("## Works")
        parts.append(f"```python\n{rule.good.strip()}\n```")
    fixes = _fixes(rule)
    if fixes:
        parts.append("## Fixes")
        parts.append(
            "FX Lens offers these where they fit. One is preferred only after the edited text was traced again and "
            "its results were compared with eager."
        )
        parts.append("\n".join(f"- {line}" for line in fixes))
    parts.append("## Silence it")
    parts.append(_silence(rule))
    return "\n\n".join(parts) + "\n"


def _files(files: dict[str, str]) -> list[str]:
    """A block for each file, with its name above where there are several."""
    parts = []
    for name, text in files.items():
        parts += [f"`{name}`:"] if len(files) > 1 else []
        parts.append(f"```python\n{text.strip()}\n```")
    return parts


def _fixes(rule: Rule) -> list[str]:
    """What each recipe of the rule does: the first sentence of its docstring."""
    from fxlib.diagnosis.fixes import GENERIC, RECIPES

    names = dict.fromkeys([*rule.fixes, *(GENERIC if rule.loud and rule.fixes else ())])
    return [" ".join(RECIPES[name].doc.strip().split("\n\n")[0].split()).replace("``", "`") for name in names]


def _silence(rule: Rule) -> str:
    who = "torch.fx" if rule.code < "FX5" else "torch"
    return (
        f"On one line: `# fxlens: ignore[{rule.code}]`. In a project, in `pyproject.toml`:\n\n"
        f'```toml\n[tool.fxlens]\nignore = ["{rule.code}"]\n\n[tool.fxlens.severity]\n{rule.code} = "info"\n```\n\n'
        f"The first leaves it out, the second gives it another severity. Neither changes what {who} does."
    )


def index() -> str:
    """The list of all rules, by group."""
    parts = ["# Rules", "A code keeps its meaning once it is released. Every page has a failing and a mended example."]
    parts.append(
        "A question that a traced value answers otherwise than a real one (`mask is None`, `isinstance`, a failure "
        "that a handler swallows) leads the trace another way than a normal run. What stands in the way there is "
        "reported too: as what comes up *once* that question *is mended*, with a note at its place, and as a warning "
        "at most, since torch.fx gets through as the code stands."
    )
    for prefix, (kind, text) in _GROUPS.items():
        rules = [RULES[code] for code in sorted(RULES) if code.startswith(prefix)]
        if not rules:
            continue
        parts.append(f"## {kind}\n\n{text}")
        rows = [f"| [{r.code}]({r.code}.md) | {r.title} | {_CHOICES[r.severity]} |" for r in rules]
        parts.append("\n".join(["| code | what | severity |", "|---|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"


def write(folder: Path) -> list[Path]:
    """Write every page and the index; the paths whose text changed. Pages of codes that are gone are deleted."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {f"{code}.md": page(rule) for code, rule in RULES.items()} | {"index.md": index()}
    changed = []
    for name, text in texts.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            changed.append(path)
    for path in folder.glob("FX*.md"):
        if path.name not in texts:
            path.unlink()
            changed.append(path)
    return changed


if __name__ == "__main__":
    for changed_path in write(Path(sys.argv[1])):
        print(changed_path)
