"""From a graph to the source of a Python function.

``CodeGen`` says what the head, the inputs and the output of the function look like; people subclass it. The lines
between are left to ``_body`` and ``_statements``, compiling to ``graph_module``.
"""

import contextlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from torch.utils import _pytree as pytree

# Names that programs import from here although other files define them.
from fxlib.codegen.body import Body, _parse_stack_trace, _ParsedStackTrace  # noqa: F401
from fxlib.codegen.statements import NameClash, Options, Writer, _format_target, _is_from_torch  # noqa: F401
from fxlib.ir.names import _custom_builtins, _Namespace
from fxlib.ir.node import Node

if TYPE_CHECKING:
    from fxlib.ir.arguments import Argument

__all__ = ["CodeGen", "PythonCode"]

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
    # Whether the source is certain to compile, so that compiling it can wait for the first call.
    _deferrable: bool = False


@contextlib.contextmanager
def _override_sym_repr(override: Callable[[Any], str]) -> Iterator[None]:
    """Write symbolic integers another way within a ``with`` statement."""
    previous = CodeGen._sym_repr
    try:
        CodeGen._sym_repr = staticmethod(override)  # type: ignore[method-assign]
        yield
    finally:
        CodeGen._sym_repr = staticmethod(previous)  # type: ignore[method-assign]


class CodeGen:
    """How a graph becomes a function: its head, its inputs and its output.

    Subclass it and hand the instance to ``Graph.set_codegen`` to give the function another signature than the
    placeholders and another result than the output node. What ``gen_fn_def`` takes apart in code, ``process_inputs``
    must take apart in values, for interpreters; likewise ``generate_output`` and ``process_outputs``.
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
        write = repr_fn or repr
        if descs is not None and isinstance(output_args, (list, tuple)):
            return self._format_multiline_container(output_args, descs, "return ", write)
        return f"return {write(output_args)}"

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
        write = repr_fn or repr
        opening, closing = self._get_delimiters(items)
        trailers = self._get_desc_trailers(items, descs)
        lines = "".join([f"    {write(item)},{trailer}\n" for item, trailer in zip(items, trailers, strict=True)])
        return f"{prefix}{opening}\n{lines}{closing}"

    def _call_method_with_signature_check(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call an override with those keywords only that it takes: older subclasses know none."""
        if type(self) in (CodeGen, _PyTreeCodeGen):
            return method(*args, **kwargs)
        parameters = inspect.signature(method).parameters
        if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            kwargs = {name: value for name, value in kwargs.items() if name in parameters}
        return method(*args, **kwargs)

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

    def _write(self, writer: Writer, nodes: list[Node], graph: Any, reserve: bool) -> PythonCode:
        for name, value in self.additional_globals():
            writer.add_global(name, value)
        for name, builtin in _custom_builtins.items():
            writer.add_global(name, builtin.obj)
        if reserve:
            writer.reserve(nodes)
        check = self._call_method_with_signature_check
        body = Body(writer, nodes, lambda result: check(self.generate_output, result, repr_fn=writer.value))
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
        head = check(self.gen_fn_def, writer.free_vars, writer.return_annotation, expanded_def=options.expanded_def)
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


class _BoxedCodeGen(CodeGen):
    """A function of one list of arguments, which it empties, so that the caller keeps none of them alive."""

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False) -> str:
        names = [var.split(":")[0].split("#")[0].split("=")[0].strip() for var in free_vars if var != "self"]
        lines = [f"def {self._func_name}(self, args_list){maybe_return_annotation}:"]
        if names:
            lines += ["args_iter = iter(args_list)", *(f"{name} = next(args_iter)" for name in names)]
            lines.append("args_list.clear()")
        return "\n    ".join(lines)


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
        if self.pytree_info is None or self.pytree_info.out_spec is None:
            return out
        if not isinstance(out, (list, tuple)):
            out = [out]
        return pytree.tree_unflatten(out, self.pytree_info.out_spec)

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False) -> str:
        if self.pytree_info is None:
            return super().gen_fn_def(free_vars, maybe_return_annotation, expanded_def=expanded_def)
        parameters = list(self.pytree_info.orig_args)
        if parameters and parameters[0] == "self":
            free_vars.insert(0, "self")
        head = super().gen_fn_def(list(parameters), maybe_return_annotation, expanded_def=expanded_def)
        if free_vars:
            head += self.gen_var_bindings(parameters, free_vars, expanded_def)
        return head

    def gen_var_bindings(self, fn_args: list[str], free_vars: list[str], expanded_def: bool) -> str:
        """The lines that take the parameters apart into the placeholders."""
        names = [var.split(":")[0].split("#")[0] for var in free_vars]
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
        annotated = [var for var in free_vars if ":" in var]
        if not annotated:
            return ""
        if expanded_def:
            return "".join([f"\n    {var}" for var in annotated])
        return "\n    " + "".join([var + "; " for var in annotated]) + "\n"

    def generate_output(
        self,
        output_args: "Argument",
        *,
        descs: Sequence[str] | None = None,
        repr_fn: Callable[[object], str] | None = None,
    ) -> str:
        if self.pytree_info is None or self.pytree_info.out_spec is None:
            return super().generate_output(output_args, descs=descs, repr_fn=repr_fn)
        write = repr_fn or repr
        if descs is not None and isinstance(output_args, (list, tuple)):
            lines = self._format_multiline_container(output_args, descs, "return pytree.tree_unflatten(", write)
            return f"{lines}, self._out_spec)"
        return f"return pytree.tree_unflatten({write(output_args)}, self._out_spec)"


def _is_args_and_kwargs(spec: pytree.TreeSpec) -> bool:
    """Whether the structure is ``(args, kwargs)``, as ``torch.export`` records it."""
    if spec.type is not tuple or spec.num_children != 2:
        return False
    first, second = spec.children()
    return first.type is tuple and second.type is dict
