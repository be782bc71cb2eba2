"""From a graph to the source of a Python function.

``CodeGen`` writes the function's head, inputs and output, and is meant to be subclassed. ``body`` and ``statements``
write the lines between; ``compile`` compiles them.
"""

import contextlib
import functools
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from torch.utils import _pytree as pytree

from fxlib.codegen.body import Body
from fxlib.codegen.statements import NameClash, Options, Writer, is_plain
from fxlib.ir.leaves import as_sequence
from fxlib.ir.names import _custom_builtins, _Namespace
from fxlib.ir.node import Node

if TYPE_CHECKING:
    from fxlib.ir.arguments import Argument
    from fxlib.ir.graph import Graph

__all__ = ["CodeGen", "PythonCode", "surely_compiles"]

TransformCodeFunc = Callable[[list[str]], list[str]]


@dataclass
class PythonCode:
    """Generated source and what is needed to execute it.

    ``_lineno_map`` gives for a line of the function (its ``def`` being line 0) the index of the node it came from.
    """

    src: str
    globals: dict[str, Any]
    _lineno_map: dict[int, int | None] | None
    _prologue_start: int = 0
    # Whether the source is certain to compile, so that compiling can wait for the first call.
    _deferrable: bool = False


@contextlib.contextmanager
def _override_sym_repr(override: Callable[[Any], str]) -> Iterator[None]:
    """Replace how symbolic integers are written within a ``with`` statement."""
    previous = CodeGen._sym_repr
    try:
        CodeGen._sym_repr = staticmethod(override)  # type: ignore[method-assign]
        yield
    finally:
        CodeGen._sym_repr = staticmethod(previous)  # type: ignore[method-assign]


class CodeGen:
    """How a graph becomes a function: its head, its inputs and its output.

    Subclass it and hand the instance to ``Graph.set_codegen`` to give the function another signature than the
    placeholders and another result than the output node. What ``gen_fn_def`` unpacks in code, ``process_inputs`` must
    unpack in values, for interpreters; likewise ``generate_output`` and ``process_outputs``.
    """

    _sym_repr: Callable[[Any], str] = staticmethod(repr)

    def __init__(self) -> None:
        self._body_transformer: TransformCodeFunc | None = None
        self._func_name: str = "forward"

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False) -> str:
        """The head of the function.

        Args:
            free_vars: one text per placeholder: its name, annotation and default.
            maybe_return_annotation: empty, or `` -> `` and a type.
            expanded_def: one parameter per line.
        """
        if not free_vars or free_vars[0] != "self":
            free_vars.insert(0, "self")
        if expanded_def:
            return f"def {self._func_name}({self._format_multiline_args(free_vars)}){maybe_return_annotation}:"
        return f"def {self._func_name}({', '.join(free_vars)}){maybe_return_annotation}:"

    def generate_output(
        self,
        output_args: "Argument",
        *,
        descs: Sequence[str] | None = None,
        repr_fn: Callable[[object], str] | None = None,
    ) -> str:
        """The ``return`` statement.

        Args:
            output_args: the argument of the output node.
            descs: a comment for each returned value, for the one-per-line form.
            repr_fn: writes a value as source.
        """
        if descs is None or not isinstance(output_args, (list, tuple)):
            return f"return {(repr_fn or repr)(output_args)}"
        return self._format_multiline_container(output_args, descs, "return ", repr_fn)

    def process_inputs(self, *args: Any) -> Any:
        """The arguments of the function as the placeholders take them."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """The value of the output node as the function returns it."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """Names that the head or the output uses, and what they stand for."""
        return []

    def _format_multiline_args(self, args: list[str]) -> str:
        return "".join(["\n", *(self._format_single_arg(arg) for arg in args)])

    def _format_single_arg(self, arg: str) -> str:
        if "#" in arg:
            code, comment = arg.split("#", 1)
            return f"    {code.rstrip()},  # {comment.lstrip()}\n"
        return f"    {arg},\n"

    def _get_delimiters(self, container: Sequence[object]) -> tuple[str, str]:
        return ("(", ")") if isinstance(container, tuple) else ("[", "]")

    def _get_desc_trailers(self, items: Sequence[object], descs: Sequence[str] | None) -> list[str]:
        return [""] * len(items) if descs is None else [f"  # {desc}" for desc in descs]

    def _format_multiline_container(
        self,
        items: Sequence[object],
        descs: Sequence[str] | None = None,
        prefix: str = "",
        repr_fn: Callable[[object], str] | None = None,
    ) -> str:
        texts = map(repr_fn or repr, items)
        trailers = self._get_desc_trailers(items, descs)
        entries = [f"    {text},{trailer}" for text, trailer in zip(texts, trailers, strict=True)]
        opening, closing = self._get_delimiters(items)
        return "\n".join([prefix + opening, *entries, closing])

    def _gen_python_code(
        self, nodes: Iterable[Node], root_module: str, namespace: _Namespace, **options: Any
    ) -> PythonCode:
        chosen = Options(**options, sym_repr=CodeGen._sym_repr)
        node_list = list(nodes)
        graph = getattr(nodes, "graph", None)
        fresh = not namespace._used_names
        for reserve in (True, False) if fresh else (False,):
            writer = Writer(root_module, _Namespace() if reserve else namespace, chosen)
            try:
                return self._write(writer, node_list, graph, reserve)
            except NameClash:
                continue
        raise AssertionError("names were made twice and clashed twice")

    def _parameter_names(self, free_vars: list[str]) -> set[str]:
        return {_AFTER_NAME.split(declared)[0].strip(" *") for declared in free_vars}

    def _write(self, writer: Writer, nodes: list[Node], graph: "Graph | None", reserve: bool) -> PythonCode:
        for name, value in self.additional_globals():
            writer.add_global(name, value)
        for name, builtin in _custom_builtins.items():
            writer.add_global(name, builtin.obj)
        if reserve:
            writer.reserve(nodes)
        cls = type(self)
        returning = {"repr_fn": writer.value} if _takes(cls.generate_output, "repr_fn") else _NO_KEYWORDS
        body = Body(writer, nodes, lambda result: self.generate_output(result, **returning))
        options = writer.options
        if graph is not None:
            graph._naming = writer.name
        try:
            if options.verbose or options.colored or options.record_func or self._body_transformer is not None:
                body.write_annotated(self._body_transformer)
            else:
                body.write_plain()
        finally:
            if graph is not None:
                graph._naming = None
        body.spell_out(self._parameter_names(writer.free_vars))
        defining = {"expanded_def": options.expanded_def} if _takes(cls.gen_fn_def, "expanded_def") else _NO_KEYWORDS
        head = self.gen_fn_def(writer.free_vars, writer.return_annotation, **defining)
        text, origins = body.text_and_origins()
        wraps = "\n".join([f'torch.fx._symbolic_trace.wrap("{name}")' for name in writer.wrapped])
        before = f"\n{wraps}\n\n"
        first = head.count("\n") + 1
        return PythonCode(
            f"{before}{head}\n    {text.lstrip()}" if text.startswith("\n") else f"{before}{head}\n    {text}",
            writer.globals,
            dict(zip(range(first, first + len(origins)), origins, strict=True)),
            _prologue_start=before.count("\n") + 1,
            _deferrable=writer.deferrable and type(self) is CodeGen and not writer.wrapped,
        )


_NO_KEYWORDS: dict[str, Any] = {}


@functools.lru_cache(maxsize=64)
def _takes(function: Callable[..., str], keyword: str) -> bool:
    """Whether a method takes a keyword argument; overrides written before the keyword existed do not."""
    parameters = inspect.signature(function).parameters
    return keyword in parameters or any(given.kind is given.VAR_KEYWORD for given in parameters.values())


def surely_compiles(graph: "Graph") -> bool:
    """Whether the code of a graph is certain to compile, judged without writing it; False where unsure."""
    codegen = graph._codegen
    return type(codegen) is CodeGen and codegen._body_transformer is None and graph._len > 1 and is_plain(graph.nodes)


class _BoxedCodeGen(CodeGen):
    """A function of one list of arguments, which it empties, so that the caller keeps none of them alive."""

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False) -> str:
        names = [_AFTER_NAME.split(declared)[0].strip() for declared in free_vars if declared != "self"]
        taking = [f"{name} = next(args_iter)" for name in names]
        if taking:
            taking = ["args_iter = iter(args_list)", *taking, "args_list.clear()"]
        return "\n    ".join([f"def {self._func_name}(self, args_list){maybe_return_annotation}:", *taking])


# What may follow the name of a parameter.
_AFTER_NAME, _AFTER_UNTYPED = map(re.compile, ("[:#=]", "[:#]| ="))


class _PyTreeInfo(NamedTuple):
    """How nested inputs and outputs were flattened: the parameters' names, and the structures of both."""

    orig_args: list[str]
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec | None


class _PyTreeCodeGen(CodeGen):
    """A function over nested collections for a graph over their leaves."""

    def __init__(self, pytree_info: _PyTreeInfo) -> None:
        super().__init__()
        self.pytree_info = pytree_info

    def process_inputs(self, *inputs: Any) -> Any:
        return pytree.arg_tree_leaves(*inputs)

    def process_outputs(self, out: Any) -> Any:
        spec = self._out_spec()
        return out if spec is None else spec.unflatten(as_sequence(out))

    def _parameter_names(self, free_vars: list[str]) -> set[str]:
        return {*super()._parameter_names(free_vars), *getattr(self.pytree_info, "orig_args", ())}

    def flattened_result(self, result: Any) -> list[Any]:
        """The leaves of what the function returned, whose structure is kept for the generated code."""
        leaves, structure = pytree.tree_flatten(result)
        self.pytree_info = self.pytree_info._replace(out_spec=structure)
        return leaves

    def _out_spec(self) -> pytree.TreeSpec | None:
        # torch.export creates instances before it knows these.
        return getattr(self.pytree_info, "out_spec", None)

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False) -> str:
        flat = self.pytree_info is None
        parameters = free_vars if flat else self.pytree_info.orig_args
        # A method's `self` was flattened with the other arguments.
        bound = [*[name for name in parameters[:1] if name == "self"], *free_vars]
        declared = [*parameters] if flat else self._with_defaults(parameters, bound)
        head = super().gen_fn_def(declared, maybe_return_annotation, expanded_def=expanded_def)
        return head if flat or not bound else head + self.gen_var_bindings(parameters, bound, expanded_def)

    def _with_defaults(self, parameters: list[str], leaves: list[str]) -> list[str]:
        """The parameters with their defaults, which stand at their leaves. After one that has a default each has."""
        spec, rest = self.pytree_info.in_spec, iter(leaves)
        if _is_args_and_kwargs(spec) or spec.num_leaves != len(leaves):
            return [*parameters]
        counts = [child.num_leaves for child in spec.children()]
        own = [[next(rest) for _ in range(count)] for count in counts]
        defaults = [declared[0].partition(" = ")[2] if declared else "" for declared in own]
        last = max((index for index, default in enumerate(defaults) if not default), default=-1)
        return [f"{name} = {defaults[i]}" if last < i < len(defaults) else name for i, name in enumerate(parameters)]

    def gen_var_bindings(self, fn_args: list[str], free_vars: list[str], expanded_def: bool) -> str:
        """The lines that unpack the parameters into the placeholders."""
        names = [_AFTER_UNTYPED.split(declared)[0] for declared in free_vars]
        spec = self.pytree_info.in_spec
        given = f"[{', '.join(fn_args)}]"
        if _is_args_and_kwargs(spec):
            positional, named = spec.children()
            count = positional.num_children
            pairs = zip(named.context, fn_args[count:], strict=False)
            given = f"([{', '.join(fn_args[:count])}], {{{', '.join([f'{key!r}:{arg}' for key, arg in pairs])}}})"
        return (
            self._format_annotations(free_vars, expanded_def)
            + f"\n    {', '.join(names)}, = fx_pytree.tree_flatten_spec({given}, self._in_spec)"
        )

    def _format_annotations(self, free_vars: list[str], expanded_def: bool) -> str:
        annotated = [name for declared in free_vars if ":" in (name := declared.partition(" = ")[0])]
        text = "\n    ".join(annotated) if expanded_def else "; ".join([*annotated, "\n"])
        return f"\n    {text}" if annotated else ""

    def generate_output(
        self,
        output_args: "Argument",
        *,
        descs: Sequence[str] | None = None,
        repr_fn: Callable[[object], str] | None = None,
    ) -> str:
        returning = super().generate_output(output_args, descs=descs, repr_fn=repr_fn)
        if self._out_spec() is None:
            return returning
        return f"return pytree.tree_unflatten({returning.removeprefix('return ')}, self._out_spec)"


def _is_args_and_kwargs(spec: pytree.TreeSpec) -> bool:
    """Whether the structure is ``(args, kwargs)``, as ``torch.export`` records it."""
    if spec.type is not tuple or spec.num_children != 2:
        return False
    first, second = spec.children()
    return first.type is tuple and second.type is dict
