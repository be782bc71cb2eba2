"""One file per command of ``fxlens``."""
