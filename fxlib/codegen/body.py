"""The body of a generated function: its statements in order, the values freed after each, comments, and the node that
each line came from.
"""

import builtins
import io
import re
import tokenize
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._dtype_abbrs import dtype_abbrs

from fxlib.codegen.statements import Writer
from fxlib.ir.format import SYMBOLIC, recorded_value, size_text, tensor_text
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
        """Statements only: the form that is compiled."""
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
                    # The same as the writer's own code, inlined for the most frequent statement: a layer called with
                    # one value.
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
        pieces = [*self._pieces()]
        if self.writer.options.record_func:
            pieces = _recorded("_rf", "ENTER_GRAPH_PLACEHOLDER_KEY", pieces)
        pieces = pieces or ["pass\n"]
        if transformer is not None:
            pieces = transformer(pieces)
            self.writer.deferrable = False
        self._split(pieces)

    def _pieces(self) -> Iterator[str]:
        """For each node its origin comment, a marker with its number, and its statement."""
        writer, options = self.writer, self.writer.options
        last_uses = last_users(self.nodes)
        trace_shown: str | None = None
        for i, node in enumerate(self.nodes):
            if options.verbose and node._op not in ("placeholder", "output"):
                trace = node.stack_trace or ""
                yield from self._announced(trace) if trace != trace_shown else ()
                trace_shown = trace
            yield f"# COUNTER: {i}\n"
            statement = [*self._statement(node, last_uses)]
            if options.record_func and node._op.startswith("call_"):
                statement = _recorded(f"_rf_{writer.name(node)}", str(i), statement)
            yield from statement

    def _statement(self, node: Node, last_uses: dict[Node, Node]) -> Iterator[str]:
        writer, op = self.writer, node._op
        annotation = writer.annotation(node)
        if writer.options.verbose:
            annotation = _shape_annotation(node, writer) or annotation
        if op == "placeholder":
            line = writer.placeholder(node, annotation)
            yield from () if line is None else (f"{line}\n",)
        elif op == "output":
            yield from (self.output(node), "\n")
        elif op in _STATEMENTS:
            yield getattr(writer, op)(node, annotation)
            yield f"{self.freed(node, last_uses)}\n"
        else:
            raise NotImplementedError(f"node: {op} {node._target}")

    def _announced(self, trace: str) -> Iterator[str]:
        """A comment that says where the next operations were recorded."""
        if not trace:
            yield f"\n{self.writer.dim('# No stacktrace found for following nodes')}\n"
        elif parsed := _parse_stack_trace(trace):
            yield f"\n{self.writer.dim(f'# {parsed.get_summary_str()}')}\n"

    def _split(self, pieces: list[str]) -> None:
        origin: int | None = None
        for line in "".join(pieces).split("\n"):
            if marker := _MARKER.search(line):
                origin = int(marker[1])
            else:
                self.lines.append(line)
                self.origins.append(origin)

    def spell_out(self, parameters: set[str]) -> None:
        """Write globals and built-in functions in full where a parameter has the same name: ``torch.device(...)``."""
        hidden = _IN_FULL.keys() & parameters
        for i, origin in enumerate(self.origins if hidden else ()):
            if origin is not None and self.nodes[origin]._op != "placeholder":
                self.lines[i] = _spelled_out(self.lines[i], hidden)

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


# Built-in functions by way of torch, since `builtins` is not among the names that generated code always has.
_IN_FULL = {name: f"torch.builtins.{name}" for name in vars(builtins)}
_IN_FULL.update({name: f"torch.{name}" for name in ("device", "inf", "nan")})


def _spelled_out(line: str, hidden: Set[str]) -> str:
    """A line with these names in full, unless they are an attribute or a keyword."""
    try:
        tokens = [*tokenize.generate_tokens(io.StringIO(line).readline)]
    except (tokenize.TokenError, SyntaxError):  # with colours, or one of several lines of a statement
        return line
    for before, token, after in reversed([*zip([None, *tokens], tokens, tokens[1:], strict=False)]):
        read = token.type == tokenize.NAME and after.string != "=" and (before is None or before.string != ".")
        if read and token.string in hidden:
            line = line[: token.start[1]] + _IN_FULL[token.string] + line[token.end[1] :]
    return line


_STATEMENTS = frozenset({"call_function", "call_method", "call_module", "get_attr"})
_MARKER = re.compile(r"# COUNTER: (\d+)")


def _recorded(variable: str, label: str, inside: list[str]) -> list[str]:
    """The same pieces, wrapped in an event for the profiler."""
    event = f"{variable} = torch._C._profiler._RecordFunctionFast('## {label} ##'); {variable}.__enter__()\n"
    return [event, *inside, f"{variable}.__exit__(None, None, None)\n"]


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
    if isinstance(value, SYMBOLIC):
        return f': "Sym({options.sym_repr(value)})"'
    if isinstance(value, tuple) and hasattr(value, "shape") and hasattr(value, "dtype"):
        return f': "{dtype_abbrs[value.dtype]}{size_text(value.shape, options.sym_repr)}"'
    return ""
