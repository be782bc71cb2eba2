"""Intermediate values of one call: of a graph's nodes, of a model in parts, and of each module call in eager."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree

from fxlib.codegen.graph_module import GraphModule
from fxlib.ir.leaves import copied
from fxlib.ir.node import Node
from fxlib.lowering.engine import BuildOptions, Program
from fxlib.lowering.engines import DEFAULT, get
from fxlib.lowering.inputs import Inputs
from fxlib.lowering.onnx.context import ORIGIN
from fxlib.lowering.onnx.export import convert
from fxlib.lowering.part import EnginePart
from fxlib.lowering.prepare import VALUE, Prepared
from fxlib.transform.interpreter import Interpreter

Values = dict[str, Any]
Part = Callable[..., tuple[Any, Values]]
"""The engine part: from its arguments to its result and the values of its nodes by name."""
_WHOLE = "(model)"


class _Recording(Interpreter):
    """Keeps the value of each node as computed, since later nodes may write to it."""

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.values: Values = {}

    def run_node(self, n: Node) -> Any:
        value = super().run_node(n)
        if self.counts(n):
            self.values[n.name] = copied(value)
        return value

    def counts(self, n: Node) -> bool:
        return True


class _InParts(_Recording):
    def __init__(self, prepared: Prepared, parts: Mapping[str, Part]) -> None:
        super().__init__(prepared.cut.module)
        self.parts = parts

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target in self.parts:
            result, values = self.parts[target](*args)
        else:
            inner = _Recording(self.submodules[target])
            result = inner.run(*args)
            # Nodes have new names in a part. Its inputs have their value already, and may have been written to since.
            own = [node for node in inner.graph.nodes if node.op != "placeholder" and ORIGIN in node.meta]
            values = {node.meta[ORIGIN]: inner.values[node.name] for node in own}
        self.values.update(values)
        return result

    def counts(self, n: Node) -> bool:
        """Whether a node counts: those that unpack the results of parts may have the name of a node of the model."""
        return n.op in ("placeholder", "output")


def of_graph(gm: GraphModule, tensors: Sequence[torch.Tensor]) -> Values:
    """The value of each node."""
    recording = _Recording(gm)
    with torch.no_grad():
        recording.run(*copied(list(tensors)))
    return recording.values


def of_parts(prepared: Prepared, run: Callable[[str], Part]) -> Values:
    """The values of the nodes of a model in parts: of those in PyTorch, and of others as far as ``run`` returns
    them."""
    parts = {name: run(name) for name in prepared.exports}
    recording = _InParts(prepared, parts)
    with torch.no_grad():
        recording.run(*copied(prepared.captured.tensors))
    return recording.values


def of_onnx(prepared: Prepared) -> Callable[[str], Part]:
    """Runs a part as ONNX with all its values as outputs, so that nothing is fused."""

    def run(name: str) -> Part:
        part = prepared.cut.module.get_submodule(name)
        assert isinstance(part, GraphModule)
        known = {node: node.meta[VALUE] for node in part.graph.nodes if node.op != "output"}
        steps = [n for n, value in known.items() if n.op not in ("placeholder", "get_attr") and torch.is_tensor(value)]
        output = part.graph.output_node()
        returned, output.args = output.args, ((output.args[0], list(steps)),)
        part.recompile()
        exported, problems = convert(part, known, "stage")
        output.args = returned
        part.recompile()
        if exported is None:
            raise RuntimeError(next(iter(problems.values())).text)
        module = EnginePart(exported, get(DEFAULT).build(exported, BuildOptions()))

        def call(*args: Any) -> tuple[Any, Values]:
            result, values = module(*args)
            return result, {node.meta[ORIGIN]: value for node, value in zip(steps, values, strict=True)}

        return call

    return run


def of_programs(prepared: Prepared, programs: Mapping[str, Program]) -> Callable[[str], Part]:
    """Runs a part as built by an engine, with the intermediate values that it provides, and its results."""

    def run(name: str) -> Part:
        exported = prepared.exports[name]
        module = EnginePart(exported, programs[name])
        part: Any = prepared.cut.module.get_submodule(name)
        returned = [each for each in pytree.tree_leaves(part.graph.output_node().args[0]) if isinstance(each, Node)]

        def call(*args: Any) -> tuple[Any, Values]:
            values = module.values(*args)
            result = module(*args)
            given = result if isinstance(result, (tuple, list)) else [result]
            found = {node.meta[ORIGIN]: value for node, value in zip(returned, given, strict=False)}
            found.update((exported.ends[onnx], value) for onnx, value in values.items() if onnx in exported.ends)
            return result, found

        return call

    return run


def of_modules(model: torch.nn.Module, inputs: Inputs) -> Values:
    """The result of each module call in eager, by `call_of`."""
    found: Values = {}
    counts: dict[str, int] = {}
    hooks = []

    def kept(path: str) -> Callable[..., None]:
        def hook(module: Any, given: Any, result: Any) -> None:
            counts[path] = counts.get(path, -1) + 1
            found[f"{path}@{counts[path]}" if counts[path] else path] = copied(result)

        return hook

    try:
        hooks += [each.register_forward_hook(kept(path or _WHOLE)) for path, each in model.named_modules()]
        with torch.no_grad():
            inputs.call(model, copied(inputs.tensors))
    finally:
        for each in hooks:
            each.remove()
    return found


def call_of(node: Node) -> str:
    """The module call that returns a node's value, such as ``layer1.0.relu@1`` for the second call; empty if none
    does."""
    stack = node.meta.get("nn_module_stack") or {}
    if node.op == "output":
        return _WHOLE
    return str([*stack][-1]) if node.op == "call_module" and stack else ""
