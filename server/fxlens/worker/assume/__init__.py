"""Constructs any module class by reading its code, and finds inputs for it, without configuration.

    Assumer(namespace).assume(UNet)   # UNet(n_channels=3, n_classes=10) <- torch.randn(2, 3, 64, 64)

Runs in the user's interpreter: standard library and torch. A class is read (`reading`, `calls`: the uses of its
parameters), options are made for each parameter (`options`, from hints, annotations, uses and names), tried on meta
(`construct`), and changed after exceptions (`blame`, `remedies`). The same happens for the arguments of its forward
(`feeding`, `inputs`, `demands`). Trials have no outside effects (`sandbox`).
"""

from .assumer import Argument, Assumer, Assumption

__all__ = ["Argument", "Assumer", "Assumption"]
