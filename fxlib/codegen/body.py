"""The body of a generated function: its statements in order, the values freed after each, comments, and the node that
each line came from.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._dtype_abbrs import dtype_abbrs

from fxlib.codegen.statements import Writer
from fxlib.ir.format import recorded_value, size_text, tensor_text
from fxlib.ir.node import Node
from fxlib.ir.views import last_users

__all__: list[str] = []

# --- what verbose code says about where an operation came from --------------------------------------------------------


@dataclass(frozen=True)
class _ParsedStackTrace:
    """The innermost frame of a stack trace kept as text."""

    file: str
    lineno: str
    name: str
    code: str

    def get_summary_str(self) -> str:
        return f"File: {self.file}:{self.lineno} in {self.name}, code: {self.code}"


# A frame's line, and the line of code after it.
_FRAME = re.compile(r'^[ \t]*File "(.+)", line (\d+), in (.+?)[ \t\r]*$(?=\n(.*))', re.MULTILINE)


def _parse_stack_trace(
    stack_trace: str, filter_fn: Callable[[str, str, str], bool] | None = None
) -> _ParsedStackTrace | None:
    """The innermost frame of ``stack_trace`` that ``filter_fn(file, name, code)`` lets through, if any."""
    frames = [_ParsedStackTrace(*map(str.strip, found)) for found in _FRAME.findall((stack_trace or "").strip())]
    wanted = (frame for frame in reversed(frames) if not filter_fn or filter_fn(frame.file, frame.name, frame.code))
    return next(wanted, None)


class Body:
    """Lines, and for each the index of the node it came from.

    Args:
        writer: writes the statements.
        nodes: the nodes in order.
        generate_output: gives the ``return`` statement for the argument of the output node.
    """

    def __init__(self, writer: Writer, nodes: list[Node], generate_output: Callable[[Any], str]) -> None:
        self.writer = writer
        self.nodes = nodes
        self.generate_output = generate_output
        self.lines: list[str] = []
        self.origins: list[int | None] = []

    def output(self, node: Node) -> str:
        writer = self.writer
        if node.type is not None:
            writer.return_annotation = f" -> {writer.type_text(node.type)}"
            writer.check_type(node.type)
        return self.generate_output(node._args[0])

    def freed(self, node: Node, last_uses: dict[Node, Node]) -> str:
        """The end of a statement, which frees what nothing uses after it."""
        freed = [used for used in node._input_nodes if last_uses[used] is node]
        if not node.users:
            freed.append(node)
        if not freed:
            return ""
        name = self.writer.name
        return f";  {self.writer.dim(' = '.join([*map(name, freed), 'None']))}"

    def write_plain(self) -> None:
        """Statements and nothing else: what is compiled."""
        writer = self.writer
        last_uses = last_users(self.nodes)
        add_line, add_origin = self.lines.append, self.origins.append
        own_names, direct, paths = writer._reserved is not None, writer._direct, writer._paths
        writers = {
            "call_function": writer.call_function,
            "call_module": writer.call_module,
            "call_method": writer.call_method,
            "get_attr": writer.get_attr,
        }
        for i, node in enumerate(self.nodes):
            op = node._op
            annotation = "" if node.type is None else writer.annotation(node)
            write = writers.get(op)
            if write is not None:
                args, inputs = node._args, node._input_nodes
                if direct and op == "call_module" and len(args) == len(inputs) == 1 and not node._kwargs:
                    # What the writer says as well, for the most frequent statement of all: a layer called with a value.
                    target, argument = node._target, args[0]
                    given = argument._name if type(argument) is Node else writer.value(argument)
                    line = f"{node._name}{annotation} = {paths.get(target) or writer.path(target)}({given})"
                else:
                    line = write(node, annotation)
                if not own_names:
                    line += self.freed(node, last_uses)
                else:
                    freed = ""
                    for used in inputs:
                        if last_uses[used] is node:
                            freed = f"{freed}{used._name} = "
                    if not node.users:
                        freed = f"{freed}{node._name} = "
                    if freed:
                        line = f"{line};  {freed}None"
            elif op == "placeholder":
                line = writer.placeholder(node, annotation)  # type: ignore[assignment]
                if line is None:
                    continue
            elif op == "output":
                line = self.output(node)
            else:
                raise NotImplementedError(f"node: {op} {node._target}")
            add_line(line)
            add_origin(i)
        if not self.nodes:
            add_line("pass")
            add_origin(None)
        if self.nodes and not self.lines:
            writer.deferrable = False
        add_line("")
        add_origin(len(self.nodes) - 1 if self.nodes else None)

    def write_annotated(self, transformer: Callable[[list[str]], list[str]] | None = None) -> None:
        """The same with comments, shapes, colours, or markers around each operation, in the pieces that a body
        transformer sees; ``split`` turns them into lines."""
        writer, options = self.writer, self.writer.options
        last_uses = last_users(self.nodes)
        pieces: list[str] = []
        trace_shown: str | None = None
        if options.record_func:
            pieces.append(_enter_record("_rf", "ENTER_GRAPH_PLACEHOLDER_KEY"))
        for i, node in enumerate(self.nodes):
            op = node._op
            computes = op not in ("placeholder", "output")
            if options.verbose and computes:
                trace_shown = self._announce(node, trace_shown, pieces)
            pieces.append(f"# COUNTER: {i}\n")
            annotation = writer.annotation(node)
            if options.verbose:
                annotation = _shape_annotation(node, writer) or annotation
            recorded = options.record_func and op.startswith("call_")
            if recorded:
                pieces.append(_enter_record(f"_rf_{writer.name(node)}", str(i)))
            if op == "output":
                pieces += [self.output(node), "\n"]
            elif op == "placeholder":
                line = writer.placeholder(node, annotation)
                if line is not None:
                    pieces.append(line + "\n")
            else:
                pieces += [self._statement(node, annotation), self.freed(node, last_uses) + "\n"]
            if recorded:
                pieces.append(f"_rf_{writer.name(node)}.__exit__(None, None, None)\n")
        if options.record_func:
            pieces.append("_rf.__exit__(None, None, None)\n")
        if not pieces:
            pieces.append("pass\n")
        if transformer is not None:
            pieces = transformer(pieces)
            writer.deferrable = False
        self._split(pieces)

    def _statement(self, node: Node, annotation: str) -> str:
        write = getattr(self.writer, node._op, None) if node._op in _STATEMENTS else None
        if write is None:
            raise NotImplementedError(f"node: {node._op} {node._target}")
        return write(node, annotation)

    def _announce(self, node: Node, shown: str | None, pieces: list[str]) -> str | None:
        """Write where the operation was recorded, unless the line above says the same. Gives what is said now."""
        trace = node.stack_trace or ""
        if trace == shown:
            return shown
        dim = self.writer.dim
        if not trace:
            pieces.append("\n" + dim("# No stacktrace found for following nodes") + "\n")
        else:
            parsed = _parse_stack_trace(trace)
            if parsed is not None:
                pieces.append("\n" + dim("# " + parsed.get_summary_str()) + "\n")
        return trace

    def _split(self, pieces: list[str]) -> None:
        origin: int | None = None
        for line in "".join(pieces).split("\n"):
            marker = _MARKER.search(line)
            if marker:
                origin = int(marker[1])
            else:
                self.lines.append(line)
                self.origins.append(origin)

    def text_and_origins(self) -> tuple[str, list[int | None]]:
        """The lines joined and indented, and the node each came from."""
        text = "\n    ".join(self.lines)
        origins = self.origins
        if text.count("\n") >= len(self.lines):
            origins = []
            for line, origin in zip(self.lines, self.origins, strict=True):
                origins += [origin] * (line.count("\n") + 1)
            text = "\n".join(self.lines).replace("\n", "\n    ")
        return text, origins


_STATEMENTS = frozenset({"call_function", "call_method", "call_module", "get_attr"})
_MARKER = re.compile(r"# COUNTER: (\d+)")


def _enter_record(variable: str, label: str) -> str:
    return f"{variable} = torch._C._profiler._RecordFunctionFast('## {label} ##'); {variable}.__enter__()\n"


def _shape_annotation(node: Node, writer: Writer) -> str:
    """Dtype and shape of the node's value as a quoted annotation, from what shape propagation left in ``meta``."""
    value, options, paint = recorded_value(node), writer.options, writer.paint
    if isinstance(value, torch.Tensor):
        with_stride = options.include_stride and value.layout is not torch.sparse_coo
        text = tensor_text(value, with_stride, options.sym_repr)
        parts = [paint["red"](text.dtype), paint["blue"](text.shape)]
        if text.stride:
            parts.append(paint["dim_blue"](text.stride))
        if options.include_device:
            parts.append(paint["dim_green"](text.device))
        return f': "{"".join(parts)}"'
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return f': "Sym({options.sym_repr(value)})"'
    if isinstance(value, tuple) and hasattr(value, "shape") and hasattr(value, "dtype"):
        return f': "{dtype_abbrs[value.dtype]}{size_text(value.shape, options.sym_repr)}"'
    return ""
