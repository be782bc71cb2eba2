"""What torch.export and torch.compile do with a model: `judge` runs both and reports exact places.

torch.fx is judged by `fxlib.diagnose`. Nothing of this is imported by ``import fxlib``.
"""

from fxlib.captures.judge import judge, specify
from fxlib.captures.specification import Specification
from fxlib.captures.verdict import CAPTURES, Judgement, Part, Verdict

__all__ = ["CAPTURES", "Judgement", "Part", "Specification", "Verdict", "judge", "specify"]
