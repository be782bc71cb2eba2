"""What torch.export and torch.compile do with a model: `judge` asks torch itself, and says it with exact places.

torch.fx is judged by `fxlib.diagnose`. Nothing of this is imported by ``import fxlib``.
"""

from fxlib.captures.judge import judge
from fxlib.captures.verdict import CAPTURES, Judgement, Part, Verdict

__all__ = ["CAPTURES", "Judgement", "Part", "Verdict", "judge"]
