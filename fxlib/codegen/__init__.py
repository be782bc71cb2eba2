"""From a graph to Python source, and from source to a module that runs."""

from fxlib.codegen.function import CodeGen, PythonCode
from fxlib.ir.graph import Graph

__all__ = ["CodeGen", "PythonCode"]

Graph._new_codegen = CodeGen
