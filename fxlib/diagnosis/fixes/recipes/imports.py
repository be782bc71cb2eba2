"""Recipes for names that are used and not imported."""

from __future__ import annotations

import sys

from fxlib.diagnosis.fixes.fix import Draft, Site, recipe
from fxlib.diagnosis.fixes.imports import add_import, add_line

# The usual meaning of a name in PyTorch code.
_USUAL = {
    "nn": "from torch import nn",
    "F": "import torch.nn.functional as F",
    "np": "import numpy as np",
    "partial": "from functools import partial",
    "rearrange": "from einops import rearrange",
    "repeat": "from einops import repeat",
}
_PACKAGES = ("torch", "torchvision", "einops", "timm")


@recipe("import-name", kind="import")
def import_name(site: Site) -> Draft | None:
    """Import the module of an undefined name: ``math``, ``torch``, ``nn``, ``F``, ``np``."""
    name = site.finding.data.get("name")
    if site.finding.data.get("raises") != "NameError" or not name:
        return None
    if line := _USUAL.get(name):
        return Draft(f"Add `{line}`", [add_line(site.source, line)])
    if name in _PACKAGES or name in sys.stdlib_module_names:
        return Draft(f"Add `import {name}`", [add_import(site.source, name)])
    return None
