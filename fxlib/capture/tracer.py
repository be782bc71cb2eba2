"""Symbolic tracing: run a module's ``forward`` on proxies and record its operations as a graph.

`Tracer` handles modules: which are leaves, their paths in the root, and parameters as nodes. The rest of a tracer is in
`tracer_base`, inputs in `root_arguments`, patching in `wrapping`.
"""

from __future__ import annotations

import copy
import functools
import inspect
import math
import reprlib
import sys
import threading
from collections import defaultdict
from collections.abc import Callable
from types import FrameType, FunctionType, ModuleType
from typing import Any

from torch import nn

from fxlib.capture import hot_loop, module_hooks, wrapping
from fxlib.capture.arguments import IMMEDIATE
from fxlib.capture.hot_loop import collector_paused
from fxlib.capture.module_hooks import original_call, original_getattr
from fxlib.capture.proxies_with_values import ParameterProxy
from fxlib.capture.proxy import Attribute, Proxy
from fxlib.capture.proxyable import _proxyable_classes
from fxlib.capture.root import Root, constant_prefix, kind_of_attribute, owned_values
from fxlib.capture.root_arguments import create_root_arguments, create_root_placeholder
from fxlib.capture.scopes import ModuleCall
from fxlib.capture.sites import code_of_subclass
from fxlib.capture.tracer_base import TracerBase
from fxlib.codegen import pickling
from fxlib.ir import span as _span
from fxlib.ir.arguments import Argument, is_named_tuple
from fxlib.ir.graph import Graph

__all__ = ["Tracer"]

# Types whose values cannot become attributes of the root.
_NO_ATTRIBUTE = IMMEDIATE | {Proxy, Attribute, tuple, list, dict, slice}
# A trace changes torch's module classes until it ends: two that overlap would leave the changes of one behind. The same
# thread may trace within a trace.
_one_at_a_time = threading.RLock()


class Tracer(TracerBase):
    """Records the operations of a module or function on its inputs as a `Graph`.

    ``fxlib.symbolic_trace(m)`` is ``GraphModule(m, Tracer().trace(m))``. Subclass it to change what is recorded; every
    method below without a leading underscore can be overridden.

    Args:
        autowrap_modules: modules whose functions are leaf functions wherever traced code calls them.
        autowrap_functions: further leaf functions, wherever the globals of traced code name them.
        param_shapes_constant: return the real ``shape``, ``size`` and the like of parameters instead of recording the
            operation, so that control flow may depend on them.
    """

    _qualname_counter: dict[str, int] = defaultdict(int)

    def __init__(
        self,
        autowrap_modules: tuple[ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        super().__init__()
        self.param_shapes_constant = param_shapes_constant
        self._autowrap_search = list(autowrap_modules)
        self._autowrap_function_ids = wrapping.public_callables(autowrap_modules, autowrap_functions)
        # Caches for the root, while it is traced.
        self.root_module_name = ""
        self.submodule_paths: dict[nn.Module, str] | None = None
        self.tensor_attrs: dict[Any, str] = {}
        # Counters: calls by path, names by prefix.
        self.num_calls: dict[str, int] = {}
        self._qualname_counter = defaultdict(int)

    # --- override points ----------------------------------------------------------------------------------------------

    def get_fresh_qualname(self, prefix: str) -> str:
        """A name ``prefix0``, ``prefix1``, … that no attribute of the root has, for a new constant."""
        taken = functools.partial(hasattr, self.root)
        # The search continues after the last name given, but starts over for another root.
        number = self._qualname_counter[prefix] if taken(f"{prefix}0") else 0
        while taken(f"{prefix}{number}"):
            number += 1
        self._qualname_counter[prefix] = number
        return f"{prefix}{number}"

    def create_arg(self, a: Any) -> Argument:
        """Lower a value of the program into an argument; tensors become ``get_attr`` nodes.

        Parameters, buffers and submodules of the root are referred to by their path; other tensors are kept as new
        attributes of the root. Override it to let values of further types be arguments.

        Raises:
            NameError: a parameter that is not the root's.
            NotImplementedError: the value cannot be an argument.
        """
        kind = type(a)
        if kind in _NO_ATTRIBUTE:
            return super().create_arg(a)
        path = self._path_of_value(a)
        if path is None and not is_named_tuple(a):
            return super().create_arg(a)
        if path is None:
            return self.create_node("call_function", kind, tuple(map(self.create_arg, a)), {})
        return self.create_node("get_attr", path, (), {})

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Whether a call of ``m`` is recorded as one node rather than traced into.

        By default the modules of ``torch.nn`` are, containers excepted. Override it to keep modules of your own whole
        (to quantize or lower them as one), or to look inside torch's.
        """
        return m.__module__.startswith(("torch.nn", "torch.ao.nn")) and not isinstance(m, nn.Sequential)

    def path_of_module(self, mod: nn.Module) -> str:
        """The qualified name of ``mod`` in the root.

        Override it to use other names for modules, such as those in a larger model.

        Raises:
            NameError: the root has no such submodule.
        """
        paths = self.submodule_paths or {module: path for path, module in self.root.named_modules()}
        path = paths.get(mod)
        return self._path_of_stranger(mod) if path is None else path

    def call_module(
        self, m: nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Handle a submodule call in traced code: one node for a leaf; otherwise ``forward`` is traced.

        Override it to act at module boundaries, for example to trace each submodule into its own graph.

        Args:
            m: the module called.
            forward: calls it as usual, ``forward(*args, **kwargs)``.
        """
        path = self.path_of_module(m)
        with ModuleCall(self, path, type(m)):
            if not self.is_leaf_module(m, path):
                return forward(*args, **kwargs)
            return self.create_proxy("call_module", path, args, kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Proxy]) -> Any:
        """The result of reading a module's attribute in traced code: a proxy for a parameter, otherwise the value.

        Override it to return parameters themselves, or proxies for more kinds of attributes.

        Args:
            attr: the name looked up.
            attr_val: its value.
            parameter_proxy_cache: qualified name -> proxy, so that a parameter is read once per trace.
        """
        kind = kind_of_attribute(attr_val)
        if kind is None or (kind == "_buffers" and not self.proxy_buffer_attributes):
            return attr_val
        name = self._owned_name(kind, attr_val)
        if name is None:
            return attr_val
        constant = attr_val if kind == "_parameters" and self.param_shapes_constant else None
        return self._read(name, constant, parameter_proxy_cache)

    def create_args_for_root(
        self,
        root_fn: Callable[..., Any],
        is_module: bool,
        concrete_args: dict[str, Any] | tuple[Any, ...] | None = None,
    ) -> tuple[Any, list[Any]]:
        """Make the placeholders; returns the function to trace and its arguments.

        Override it to give the graph inputs other than those of the signature.
        """
        return create_root_arguments(self, root_fn, is_module, concrete_args)

    def trace(self, root: nn.Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None) -> Graph:
        """Run ``root`` on proxies and return the recorded graph.

        Afterwards ``self.root`` is the module that the graph's targets refer to: ``root``, or a new module that holds
        the constants when ``root`` is a function.

        Args:
            root: a module or a Python function.
            concrete_args: values of parameters that become constants; inside collections, `PH` marks inputs.

        Raises:
            TraceError: the program needed the truth value or the items of a traced value.
            NameError, NotImplementedError, …: as the override points say; and whatever ``root`` itself raises.
        """
        with _one_at_a_time, wrapping.tracing(), collector_paused():
            start = Root.of(root, self.traced_func_name)
            self.root, self.tensor_attrs, self.submodule_paths = start.module, start.constants, start.paths
            self.root_module_name = start.name or self.root_module_name
            self.graph = Graph(tracer_cls=type(self))
            self.graph._co_fields = start.place
            if not isinstance(start.function, FunctionType):
                hint = "; make an instance of the class" if isinstance(root, type) else ""
                raise AssertionError(
                    f"Expected FunctionType, got {type(start.function)}: "
                    f"a trace is of a torch.nn.Module or a function, not of {reprlib.repr(root)}{hint}"
                )
            # kind -> what `owned_values` found
            self._owned: dict[str, dict[int, tuple[dict[str, Any], str, str]]] = {}
            try:
                with self._taking_sites(code_of_subclass(type(self))):  # type: ignore[arg-type]
                    self._run(start.function, isinstance(root, nn.Module), concrete_args)
            except RuntimeError as error:
                self._add_partial_graph(error)
                raise
            finally:
                self.__dict__.pop("_emit", None)
                self._owned = {}
                self.submodule_paths = None
            return self.graph

    def _add_partial_graph(self, error: RuntimeError) -> None:
        """Attach the code recorded so far to an error about data-dependent values, as torch's tools expect."""
        if "data-dependent" in str(next(iter(error.args), "")):
            recorded = self.graph.python_code("self", verbose=True)
            error.partial_fx_graph = recorded.src  # type: ignore[attr-defined]

    def __deepcopy__(self, memo: dict[int, Any]) -> Tracer:
        # As in torch.fx, a subclass is copied as a plain tracer. Python modules cannot be copied.
        clone = memo[id(self)] = Tracer.__new__(Tracer)
        memo.update((id(module), module) for module in self._autowrap_search)
        clone.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return clone

    def _proxy_placeholder(
        self,
        name: str,
        concrete_args: dict[str, Any] | None,
        sig: inspect.Signature,
        fn_for_analysis: Callable[..., Any],
    ) -> Any:
        return create_root_placeholder(self, name, concrete_args, sig, fn_for_analysis)

    # --- names in the root --------------------------------------------------------------------------------------------

    def _path_of_value(self, a: Any) -> str | None:
        """The path of a value among the root's attributes, where it is added if needed; None if it is not kept as an
        attribute."""
        kind = kind_of_attribute(a)
        if kind is not None:
            known = self._owned_name(kind, a)
        else:
            known = self._known_module(a) if isinstance(a, nn.Module) else None
        if known is None and kind == "_parameters":
            raise NameError(
                self._explain(
                    "parameter is not a member of this module",
                    "Keep it as an attribute of the module, or in an nn.ParameterList or nn.ParameterDict.",
                )
            )
        return self._constant_name(a) if known is None else known

    def _known_module(self, wanted: nn.Module) -> str | None:
        return next((path for path, module in self.root.named_modules() if module is wanted), None)

    def _constant_name(self, value: Any) -> str | None:
        """The name of a constant in the root, where it is added if needed; None if it is not a constant."""
        kind = constant_prefix(value)
        if kind is not None:
            name = self.tensor_attrs.get(value)
            if name:
                return name
            name = self.tensor_attrs[value] = self.get_fresh_qualname(kind)
        elif type(value) in _proxyable_classes:
            name = self.get_fresh_qualname(f"_{value.__class__.__name__}_constant_")
        else:
            return None
        setattr(self.root, name, value)
        return name

    def _path_of_stranger(self, mod: nn.Module) -> str:
        """The path of a module that is not in the root: raises. A diagnosis overrides this with a made-up path, to
        continue."""
        raise NameError(
            self._explain(
                f"module is not installed as a submodule ({type(mod).__name__} called)",
                "Keep it as an attribute of the module, or in an nn.ModuleList or nn.ModuleDict.",
            )
        )

    def _owned_name(self, kind: str, value: Any) -> str | None:
        """The qualified name of a parameter or buffer of the root, or None.

        All names are collected on first use. A name is valid only while its module still holds the value; a value that
        is not found is searched for once more, since traced code may have registered it.
        """
        owned = self._owned.get(kind)
        for _ in range(2):
            if owned is None:
                owned = self._owned[kind] = owned_values(self.root, kind)
            known = owned.get(id(value))
            if known is not None and known[0].get(known[1]) is value:
                return known[2]
            owned = None
        return None

    def _read(self, name: str, constant: nn.Parameter | None, cache: dict[str, Proxy]) -> Proxy:
        """The proxy of the root's attribute of that name; with ``constant`` it returns the real shape."""
        if name in cache:
            return cache[name]
        record = functools.partial(self.create_proxy, "get_attr", name, (), {})
        # An override may be older than the parameter.
        if constant is not None and "proxy_factory_fn" in inspect.signature(record).parameters:
            record.keywords["proxy_factory_fn"] = lambda node: ParameterProxy(self, node, name, constant)
        return cache.setdefault(name, record())

    # --- one pass from operation to node ------------------------------------------------------------------------------

    def _nothing_overridden(self) -> bool:
        """Whether an operation may go from proxy to node in one pass, because no step between is overridden."""
        return (
            self._inherits("create_proxy", "create_node", "create_arg", "proxy")
            and not (self.check_mutable_operations or self.record_stack_traces)
            and type(self.graph) is Graph
        )

    def _inherits(self, *names: str) -> bool:
        """Whether these methods are the ones of this file, neither overridden nor replaced on the instance."""
        cls, own = type(self), self.__dict__
        return all(getattr(cls, name) is getattr(Tracer, name) and name not in own for name in names)

    # --- while the root runs ------------------------------------------------------------------------------------------

    def _run(self, function: FunctionType, is_module: bool, concrete_args: Any) -> None:
        """Call the function on proxies, with all hooks and patches installed."""
        direct, outer_code = self._nothing_overridden(), inspect.unwrap(function).__code__
        fn, args = _span.boundary(self.create_args_for_root, (function, is_module, concrete_args), {})
        self._site_base = None
        with wrapping.patch_scope() as patcher, module_hooks.installed(*self._hooks(patcher, direct)):
            wrapping.patch_registered(patcher)
            for namespace in (function.__globals__, *map(vars, self._autowrap_search)):
                patcher.autowrap(namespace, self._autowrap_function_ids)
            result = _span.boundary(fn, tuple(args), {})
            self._site_base = _span.return_site(outer_code)
            _span.boundary(self._return, (result, _annotation_of_result(fn)), {})

    def _return(self, result: Any, annotation: Any) -> None:
        self.create_node("output", "output", (self.create_arg(result),), {}, type_expr=annotation)

    def _hooks(self, patcher: wrapping.Patcher, direct: bool) -> tuple[Callable[..., Any], Callable[..., Any], bool]:
        """The hooks for module calls and attributes while the root runs, as arguments of `module_hooks`."""
        cache: dict[str, Proxy] = {}
        quick_call = direct and self._inherits("call_module", "path_of_module")
        if direct:
            self._emit = hot_loop.make_emit(self, share_stacks=quick_call)  # type: ignore[method-assign]
        call: Callable[..., Any] = functools.partial(self._module_called, patcher)
        if quick_call:
            call = hot_loop.make_call_hook(self, original_call, patcher)
        read: Callable[..., Any] = functools.partial(self._attribute_read, cache)
        usual_getattr = self._inherits("getattr")
        if usual_getattr and direct and not self.param_shapes_constant:
            read = hot_loop.make_getattr_hook(self, original_getattr, cache)
        return call, read, not usual_getattr

    def _attribute_read(self, cache: dict[str, Proxy], mod: nn.Module, attr: str) -> Any:
        return self.getattr(attr, original_getattr(mod, attr), cache)

    def _module_called(
        self, patcher: wrapping.Patcher, mod: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        caller = sys._getframe(2)
        namespace = getattr(getattr(mod, "forward", None), "__globals__", None)
        if namespace is not None:
            patcher.autowrap(namespace, self._autowrap_function_ids)
        return self.call_module(mod, functools.partial(self._forward, caller, mod), args, kwargs)

    def _forward(self, caller: FrameType, mod: nn.Module, /, *args: Any, **kwargs: Any) -> Any:
        """Run a submodule as usual."""
        return self._call_inside(self._take_site(caller), original_call, (mod, *args), kwargs)


def _annotation_of_result(fn: Callable[..., Any]) -> Any:
    return inspect.get_annotations(inspect.unwrap(fn)).get("return")


pickling.default_tracer = Tracer
