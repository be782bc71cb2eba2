"""Diagnosis: every reason why a model cannot be traced, and everything that a trace would silently get wrong.

`fxlib.diagnose` is the entry. `report` is what it returns, `rules` the table of what it knows, `session` how it goes on
past a problem, `instrument` how it sees what Python answers by itself, `detectors` the silent problems, `fixes` the way
out.
"""

from fxlib.diagnosis.diagnose import diagnose
from fxlib.diagnosis.report import Baked, Finding, Mutation, MutationError, Related, Report, Untaken
from fxlib.diagnosis.rules import RULES, Rule

__all__ = [
    "RULES",
    "Baked",
    "Finding",
    "Mutation",
    "MutationError",
    "Related",
    "Report",
    "Rule",
    "Untaken",
    "diagnose",
]
