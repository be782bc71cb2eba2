"""What torch.fx gets wrong without a word: fxlib traces it to the same graph, and a diagnosis tells.

Each way of being wrong has a rule; the rule's own example is traced by both libraries.
"""

from __future__ import annotations

import re

import pytest
import torch.fx

import fxlib
from fxlib.diagnosis import RULES

from .snippets import diagnose, load

SILENT = {
    "is None on an argument": "FX201",
    "isinstance, is_tensor, type(x) is": "FX202",
    "hasattr, callable": "FX203",
    "a size looked up in a set": "FX204",
    "text of a proxy": "FX205",
    "random numbers drawn once": "FX206",
    "self.training fixed": "FX207",
    "self.counter += 1": "FX208",
    "a proxy left on the module": "FX209",
    "a buffer's update lost": "FX210",
    ".data =": "FX211",
    "no_grad gone": "FX212",
    "autocast gone": "FX213",
    "checkpointing gone": "FX214",
    "try/except around a branch": "FX215",
    "except AttributeError that never fires": "FX216",
    "a misspelt method": "FX217",
    "hash(x)": "FX218",
    "an unknown name in concrete_args": "FX219",
    "a concrete argument renames its placeholder": "FX220",
    "a custom backward lost": "FX221",
    "a constant changed in forward": "FX222",
    "OrderedDict turned into dict": "FX223",
    "a wrapped helper whose result is unused": "FX224",
    "the device of the trace": "FX225",
    "a convolution used twice and fused once": "FX226",
    "an identity test": "FX231",
}


@pytest.mark.parametrize("code", SILENT.values(), ids=SILENT.keys())
def test_strict_copies_the_verdict_and_diagnose_tells(code, tmp_path):
    rule = RULES[code]
    assert not rule.loud

    def graph(library):
        module = load(rule.bad, tmp_path)
        concrete = eval(rule.options, {"torch": torch, **vars(module)}).get("concrete_args")
        text = str(library.Tracer().trace(module.Net(), concrete))
        return re.sub(r"0x[0-9a-f]+", "", text.replace(module.__name__, ""))

    assert graph(fxlib) == graph(torch.fx)
    assert code in diagnose(rule.bad, tmp_path, rule.inputs, rule.options).codes()
