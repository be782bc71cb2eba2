"""The shape of a rule, and the registry that every group of rules adds to."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["RULES", "Rule", "add"]


@dataclass(frozen=True)
class Rule:
    """One entry of the table of rules.

    ``torch_text`` is what torch.fx prints (empty for silent rules). ``explanation`` is Markdown for the page: what
    happens and why torch.fx does so. ``bad`` and ``good`` are complete snippets that define a class ``Net``; in
    ``bad`` the comment ``# <- here`` stands on the line of the finding. ``inputs`` is the expression of the example
    inputs of both. ``fixes`` name recipes, best first. ``options`` are keyword arguments of ``diagnose``.
    """

    code: str
    slug: str
    title: str
    severity: str
    explanation: str = ""
    torch_text: str = ""
    fixes: tuple[str, ...] = ()
    bad: str = ""
    good: str = ""
    inputs: str = "(torch.randn(2, 3),)"
    options: str = "{}"
    misleads: bool = False

    @property
    def loud(self) -> bool:
        """Whether torch.fx raises."""
        return self.code.startswith("FX1") or self.code == "FX310"

    @property
    def page(self) -> str:
        """Path of the rule's page in the project."""
        return f"docs/rules/{self.code}.md"


RULES: dict[str, Rule] = {}


def add(*rules: Rule) -> None:
    """Put rules into the table. A code is given once.

    Raises:
        ValueError: a code is already taken.
    """
    for rule in rules:
        if rule.code in RULES:
            owner = RULES[rule.code].slug
            raise ValueError(f"rule {rule.code} ({rule.slug}): the code belongs to {owner}; take a new one")
        RULES[rule.code] = rule
