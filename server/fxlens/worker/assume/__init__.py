"""Constructs any module class from what its code says, and finds inputs for it, without a word of configuration.

    Assumer(namespace).assume(UNet)   # UNet(n_channels=3, n_classes=10) <- torch.randn(2, 3, 64, 64)

Runs in the user's interpreter: standard library and torch. A class is read (`reading`, `calls`: what the code does with
its parameters), options are made for each of them (`options`, from hints, annotations, uses and names), tried on meta
(`construct`), and changed by what the exceptions say (`blame`, `remedies`). The same happens for the arguments of its
forward (`feeding`, `inputs`, `demands`). Trials have no effect outside (`sandbox`).
"""

from .assumer import Argument, Assumer, Assumption

__all__ = ["Argument", "Assumer", "Assumption"]
