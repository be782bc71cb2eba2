"""Names that torch.fx keeps under ``torch.fx.experimental``."""

from fxlib.compat.submodules import submodule


def __getattr__(name: str) -> object:
    return submodule(__name__, name)
