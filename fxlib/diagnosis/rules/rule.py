"""The shape of a rule, and the registry that every group of rules adds to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["FORMS", "RULES", "SEVERITIES", "Example", "Rule", "add"]

SEVERITIES = ("error", "warning", "info", "hint")
#: How a condition is used -> what a message calls it.
FORMS = {
    "if": "`if`",
    "while": "`while`",
    "ternary": "conditional expression",
    "assert": "`assert`",
    "filter": "`if` of a comprehension",
    "in": "membership test",
    "chain": "comparison",
    "boolean": "boolean expression",
    "call": "expression",
}


@dataclass(frozen=True)
class Example:
    """Files by name, ``net.py`` first among equals, for what `diagnose` alone cannot show. ``how`` says how to see the
    finding, where it takes more than `fxlens check`."""

    bad: Mapping[str, str]
    good: Mapping[str, str]
    how: str = ""


@dataclass(frozen=True)
class Rule:
    """One entry of the table of rules, with everything that is known of its problem.

    ``title`` names it. ``message`` is the first sentence of a finding, of a trace as of the analysis that only reads:
    ``{it}`` is the expression, ``{call}`` what it calls, ``{form}`` an entry of `FORMS`, ``{error}`` what was raised,
    ``{package}`` the installed package that contains it. ``advice`` is the second sentence, what to write instead,
    where there is nothing more special to say.

    ``torch_text`` is what torch.fx prints, or the capture that the rule is about (empty for silent rules).
    ``explanation`` is Markdown for the page: what happens and why the capture does so. ``bad`` and ``good`` are
    complete snippets that define a class ``Net``; in ``bad`` the comment ``# <- here`` stands on the line of the
    finding. ``inputs`` is the expression of the example inputs of both, ``options`` are keyword arguments of
    ``diagnose``. ``example`` stands in their place where whole files are needed. ``fixes`` name recipes, best first.

    ``misleads``: the expression gives another result than in a normal run, which may decide a branch. ``writes``: a
    change in place that the graph does not hold. ``question``: the bool or the items of the expression are not
    known, so moving the expression alone does not help. ``number``: in a normal run the expression gives a number.
    ``picks``: it takes an item out of a container. ``seen``: the function of fxlib that finds it.
    """

    code: str
    slug: str
    title: str
    message: str
    severity: str
    explanation: str = ""
    torch_text: str = ""
    fixes: tuple[str, ...] = ()
    bad: str = ""
    good: str = ""
    inputs: str = "(torch.randn(2, 3),)"
    options: str = "{}"
    example: Example | None = None
    advice: str = ""
    misleads: bool = False
    writes: bool = False
    question: bool = False
    number: bool = False
    picks: bool = False
    seen: str = "diagnose"

    @property
    def loud(self) -> bool:
        """Whether torch.fx raises."""
        return self.code < "FX5" and bool(self.torch_text)

    @property
    def page(self) -> str:
        """Path of the rule's page in the project."""
        return f"docs/rules/{self.code}.md"

    def says(self, it: str, form: str = "call", call: str = "", error: str = "", package: str = "") -> str:
        """The first sentence of a finding; see `Rule` for the arguments."""
        text = self.message.format(it=it, form=FORMS[form], call=call, error=error, package=package)
        # What torch calls itself stays as it is.
        return text if text.startswith("torch.") else text[0].upper() + text[1:]


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
