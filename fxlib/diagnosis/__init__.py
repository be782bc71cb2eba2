"""Diagnosis: every reason why a model cannot be traced, and every way in which its trace would be silently wrong.

`fxlib.diagnose` is the entry, `report` what it returns, `rules` the table of problems. `engine` runs forward on proxies
as often as needed, `detectors` find the silent problems, `comparison` runs a model and its graph side by side, `fixes`
propose and verify changes of the source.
"""

from fxlib.diagnosis.comparison.compare import compare
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
    "compare",
    "diagnose",
]
