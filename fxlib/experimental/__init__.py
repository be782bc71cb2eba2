"""Names that torch.fx keeps under ``torch.fx.experimental``."""
