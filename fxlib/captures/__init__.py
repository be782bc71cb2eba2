"""What torch.export and torch.compile do with a model: `judge` runs both and reports exact places.

`fxlib.diagnose` does the same for torch.fx. ``import fxlib`` imports nothing of this.
"""

from fxlib.captures.judge import judge, specify
from fxlib.captures.specification import Specification
from fxlib.captures.verdict import CAPTURES, Judgement, Part, Verdict

__all__ = ["CAPTURES", "Judgement", "Part", "Specification", "Verdict", "judge", "specify"]
