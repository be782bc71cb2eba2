"""Symbolic tracing: run a module's ``forward`` on proxies and keep what it did as a graph.

`Tracer` knows modules: which are leaves, where they are in the root, how their parameters become nodes. The rest of a
tracer is in `fxlib.tracer_base`, inputs in `fxlib.root_arguments`, patching in `fxlib.wrapping`.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import gc
import inspect
import math
import sys
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import Any

import torch
from torch._library.fake_class_registry import FakeScriptObject
from torch._library.opaque_object import is_opaque_reference_type, is_opaque_type
from torch.utils import _pytree as pytree

from fxlib.capture import hot_loop as _one_pass
from fxlib.capture import module_hooks as _module_hooks
from fxlib.capture import wrapping
from fxlib.capture.module_hooks import original_call, original_getattr
from fxlib.capture.proxy import ParameterProxy, Proxy
from fxlib.capture.proxyable import _proxyable_classes
from fxlib.capture.root_arguments import create_root_arguments, create_root_placeholder
from fxlib.capture.tracer_base import Scope, ScopeContextManager, TracerBase
from fxlib.codegen import pickling
from fxlib.codegen.graph_module import GraphModule
from fxlib.interop import torch_side
from fxlib.ir import span as _span
from fxlib.ir.arguments import Argument
from fxlib.ir.graph import Graph

__all__ = ["Tracer", "symbolic_trace"]

_constant_attribute_types = (torch.Tensor, torch.ScriptObject, FakeScriptObject, pytree.TreeSpec)
_WHILE_TRACING = ("_tracing", "_own_code", "_site_base", "_site_frame", "_site_parent", "_site_inner")
# Types of module attributes that are surely no constants of a graph.
_NO_CONSTANT = frozenset(
    {bool, int, float, str, type(None), dict, OrderedDict, list, tuple, set, FunctionType, torch.Size, torch.dtype}
)


class Tracer(TracerBase):
    """Records what a module or function does with its inputs as a `Graph`.

    ``fxlib.symbolic_trace(m)`` is ``GraphModule(m, Tracer().trace(m))``. Subclass it to change what is recorded; every
    method below that has no leading underscore is called at its place in a trace, however it is overridden.

    Args:
        autowrap_modules: modules whose functions are leaf functions wherever traced code calls them.
        autowrap_functions: further leaf functions, wherever traced code's globals name them.
        param_shapes_constant: answer ``shape``, ``size`` and the like of parameters from the parameter rather than
            recording the question, so that control flow may depend on them.
    """

    _qualname_counter: dict[str, int] = defaultdict(int)

    def __init__(
        self,
        autowrap_modules: tuple[ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        super().__init__()
        self._autowrap_function_ids = wrapping.public_callables(autowrap_modules, autowrap_functions)
        self._autowrap_search: list[ModuleType] = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[torch.nn.Module, str] | None = None
        self.root_module_name: str = ""
        self.scope = Scope("", None)
        self.module_stack = OrderedDict()
        self.num_calls: dict[str, int] = {}
        self.node_name_to_scope = {}
        self._qualname_counter = defaultdict(int)

    # --- override points ----------------------------------------------------------------------------------------------

    def get_fresh_qualname(self, prefix: str) -> str:
        """A name ``prefix0``, ``prefix1``, … that no attribute of the root has, for a constant to be kept there."""
        number = self._qualname_counter[prefix] if hasattr(self.root, f"{prefix}0") else 0
        while hasattr(self.root, f"{prefix}{number}"):
            number += 1
        self._qualname_counter[prefix] = number
        return f"{prefix}{number}"

    def create_arg(self, a: Any) -> Argument:
        """Lower a value of the program into an argument; tensors become ``get_attr`` nodes.

        Parameters, buffers and submodules of the root are referred to by their path; other tensors are kept as new
        attributes of the root. Override it to let values of further types be arguments.

        Raises:
            NameError: a parameter that is not the root's.
            NotImplementedError: the value can be no argument.
        """
        if isinstance(a, Proxy):
            return a.node
        if isinstance(a, torch.nn.Parameter):
            name = self._owned_name("_parameters", a)
            if name is None:
                raise NameError(
                    self._explain(
                        "parameter is not a member of this module",
                        "Keep it as an attribute of the module, or in an nn.ParameterList or nn.ParameterDict.",
                    )
                )
            return self.create_node("get_attr", name, (), {})
        if isinstance(a, torch.Tensor):
            name = self._owned_name("_buffers", a)
            if name is not None:
                return self.create_node("get_attr", name, (), {})
        elif isinstance(a, torch.nn.Module):
            for name, module in self.root.named_modules():
                if a is module:
                    return self.create_node("get_attr", name, (), {})
        elif isinstance(a, tuple) and hasattr(a, "_fields"):
            return self.create_node("call_function", a.__class__, tuple(self.create_arg(item) for item in a), {})
        if isinstance(a, _constant_attribute_types) or is_opaque_reference_type(type(a)):
            return self.create_node("get_attr", self._constant_name(a), (), {})
        if type(a) in _proxyable_classes:
            qualname = self.get_fresh_qualname(f"_{a.__class__.__name__}_constant_")
            setattr(self.root, qualname, a)
            return self.create_node("get_attr", qualname, (), {})
        return super().create_arg(a)

    def is_leaf_module(self, m: torch.nn.Module, module_qualified_name: str) -> bool:
        """Whether a call of ``m`` is recorded as one node rather than traced into.

        By default the modules of ``torch.nn`` are, containers excepted. Override it to keep modules of your own whole
        (to quantize or lower them as one), or to look inside torch's.
        """
        return (m.__module__.startswith("torch.nn") or m.__module__.startswith("torch.ao.nn")) and not isinstance(
            m, torch.nn.Sequential
        )

    def path_of_module(self, mod: torch.nn.Module) -> str:
        """The qualified name of ``mod`` in the root.

        Override it when modules shall be found under other names, such as those of a larger model.

        Raises:
            NameError: the root has no such submodule.
        """
        if self.submodule_paths:
            path = self.submodule_paths.get(mod)
            return self._path_of_stranger(mod) if path is None else path
        for name, module in self.root.named_modules():
            if module is mod:
                return name
        return self._path_of_stranger(mod)

    def call_module(
        self, m: torch.nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """What happens when traced code calls a submodule: one node for a leaf, else ``forward`` is traced.

        Override it to do something else at module boundaries: to trace each submodule into a graph of its own, say.

        Args:
            m: the module called.
            forward: calls it as usual, ``forward(*args, **kwargs)``.
        """
        path = self.path_of_module(m)
        with ScopeContextManager(self.scope, Scope(path, type(m))) as scope:
            calls = self.num_calls.get(path, 0)
            key = f"{scope.module_path}@{calls}" if calls > 0 else scope.module_path
            self.module_stack[key] = (path, scope.module_type)
            self.num_calls[path] = calls + 1
            if self.is_leaf_module(m, path):
                result = self.create_proxy("call_module", path, args, kwargs)
            else:
                result = forward(*args, **kwargs)
            last, _ = self.module_stack.popitem(last=True)
            if last != key:
                raise AssertionError(f"Unexpected key {last}, expected {key}")
        return result

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Proxy]) -> Any:
        """What traced code gets for an attribute of a module: a proxy for a parameter, else the value.

        Override it to return parameters themselves, or proxies for more kinds of attributes.

        Args:
            attr: the name looked up.
            attr_val: its value.
            parameter_proxy_cache: qualified name -> proxy, so that a parameter is read once per trace.
        """
        if isinstance(attr_val, torch.nn.Parameter):
            name = self._owned_name("_parameters", attr_val)
            if name is not None:
                factory = self._parameter_proxy(name, attr_val) if self.param_shapes_constant else None
                return self._attribute_proxy(name, parameter_proxy_cache, factory)
        if self.proxy_buffer_attributes and isinstance(attr_val, torch.Tensor):
            name = self._owned_name("_buffers", attr_val)
            if name is not None:
                return self._attribute_proxy(name, parameter_proxy_cache, None)
        return attr_val

    def create_args_for_root(
        self,
        root_fn: Callable[..., Any],
        is_module: bool,
        concrete_args: dict[str, Any] | tuple[Any, ...] | None = None,
    ) -> tuple[Any, list[Any]]:
        """Make the placeholders; returns the function to trace and its arguments.

        Override it to give the graph other inputs than the signature says.
        """
        return create_root_arguments(self, root_fn, is_module, concrete_args)

    def trace(self, root: torch.nn.Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None) -> Graph:
        """Run ``root`` on proxies and return the graph of what it did.

        Afterwards ``self.root`` is the module that the graph's targets refer to: ``root``, or a new module that holds
        the constants when ``root`` is a function.

        Args:
            root: a module or a Python function.
            concrete_args: values of parameters that shall be constants; inside collections, `PH` marks inputs.

        Raises:
            TraceError: the program asked for the truth or the items of a traced value.
            NameError, NotImplementedError, …: as the override points say; and whatever ``root`` itself raises.
        """
        with wrapping.tracing(), _collector_paused():
            fn, constants = self._take_root(root)
            self.graph = Graph(tracer_cls=getattr(self, "__class__", None))
            if hasattr(fn, "__code__"):
                code = fn.__code__
                self.graph._co_fields = {
                    "co_name": code.co_name,
                    "co_filename": code.co_filename,
                    "co_firstlineno": code.co_firstlineno,
                }
            self.tensor_attrs: dict[Any, str] = constants if constants is not None else _constants(self.root)
            if not isinstance(fn, FunctionType):
                raise AssertionError(f"Expected FunctionType, got {type(fn)}")
            # kind -> what `_owned_values` found
            self._owned: dict[str, dict[int, Any]] = {}
            own_code = _code_of_subclass(type(self))  # type: ignore[arg-type]
            outside = {name: getattr(self, name) for name in _WHILE_TRACING}
            self._tracing, self._own_code = True, own_code
            self._site_base = self._site_frame = self._site_parent = self._site_inner = None
            direct = self._nothing_overridden()
            try:
                globals_of_root, outer_code = fn.__globals__, inspect.unwrap(fn).__code__
                is_module = isinstance(root, torch.nn.Module)
                fn, args = _span.boundary(self.create_args_for_root, (fn, is_module, concrete_args), {})
                self._site_base = None
                with wrapping.patch_scope() as patcher, _module_hooks.installed(*self._hooks(patcher, direct)):
                    self._patch(patcher, globals_of_root)
                    result = _span.boundary(fn, tuple(args), {})
                    self._site_base = _span.return_site(outer_code)
                    _span.boundary(self._finish, (fn, result), {})
            except RuntimeError as error:
                if error.args and isinstance(error.args[0], str) and "data-dependent" in error.args[0]:
                    source = self.graph.python_code(root_module="self", verbose=True).src
                    error.partial_fx_graph = source  # type: ignore[attr-defined]
                raise
            finally:
                self.__dict__.pop("_emit", None)
                self.__dict__.update(outside)
                self._owned = {}
                self.submodule_paths = None
            return self.graph

    def __deepcopy__(self, memo: dict[int, Any]) -> Tracer:
        # Modules cannot be copied.
        clone = Tracer.__new__(Tracer)
        for key, value in self.__dict__.items():
            clone.__dict__[key] = copy.copy(value) if key == "_autowrap_search" else copy.deepcopy(value, memo)
        return clone

    def _proxy_placeholder(
        self,
        name: str,
        concrete_args: dict[str, Any] | None,
        sig: inspect.Signature,
        fn_for_analysis: Callable[..., Any],
    ) -> Any:
        return create_root_placeholder(self, name, concrete_args, sig, fn_for_analysis)

    def _finish(self, fn: Callable[..., Any], result: Any) -> None:
        self.create_node(
            "output", "output", (self.create_arg(result),), {}, type_expr=_annotations(fn).get("return", None)
        )

    # --- the root -----------------------------------------------------------------------------------------------------

    def _take_root(self, root: Any) -> tuple[Any, dict[Any, str] | None]:
        """The function to trace and, where they are known already, the constants among the attributes."""
        if not isinstance(root, torch.nn.Module):
            self.root = torch.nn.Module()
            return root, {}
        torch_side.force_recompile(root)
        self.root = root
        if not hasattr(type(root), self.traced_func_name):
            raise AssertionError(f"traced_func_name={self.traced_func_name} doesn't exist in {type(root).__name__}")
        self.root_module_name = root._get_name()
        self.submodule_paths, constants = _survey(root)
        return getattr(type(root), self.traced_func_name), constants

    def _path_of_stranger(self, mod: torch.nn.Module) -> str:
        """The name of a module that is not the root's: there is none. A diagnosis makes one up, to go on."""
        raise NameError(
            self._explain(
                f"module is not installed as a submodule ({type(mod).__name__} called)",
                "Keep it as an attribute of the module, or in an nn.ModuleList or nn.ModuleDict.",
            )
        )

    def _owned_name(self, kind: str, value: Any) -> str | None:
        """The qualified name of a parameter or buffer of the root, or None.

        All names are collected at the first question. A name is believed only while its module still holds the value
        there; what is not found is looked for once more, since traced code may have registered it.
        """
        owned = self._owned.get(kind)
        for _ in range(2):
            if owned is None:
                owned = self._owned[kind] = _owned_values(self.root, kind)
            known = owned.get(id(value))
            if known is not None and known[0].get(known[1]) is value:
                return known[2]
            owned = None
        return None

    def _constant_name(self, value: Any) -> str:
        qualname = self.tensor_attrs.get(value)
        if not qualname:
            if isinstance(value, torch.Tensor):
                prefix = "_tensor_constant"
            elif isinstance(value, (FakeScriptObject, torch.ScriptObject)):
                prefix = "_torchbind_obj"
            elif isinstance(value, pytree.TreeSpec):
                prefix = "_tree_spec_constant"
            elif is_opaque_type(type(value)):
                prefix = "_opaque_obj"
            else:
                raise RuntimeError(f"cannot create constant arg for {value} of type {type(value)}.")
            qualname = self.get_fresh_qualname(prefix)
            self.tensor_attrs[value] = qualname
            setattr(self.root, qualname, value)
        return qualname

    def _parameter_proxy(self, name: str, parameter: Any) -> Callable[[Any], Proxy]:
        return lambda node: ParameterProxy(self, node, name, parameter)

    def _attribute_proxy(self, name: str, cache: dict[str, Proxy], factory: Callable[[Any], Proxy] | None) -> Proxy:
        known = cache.get(name)
        if known is None:
            options: dict[str, Any] = {}
            if "proxy_factory_fn" in inspect.signature(self.create_proxy).parameters:
                options["proxy_factory_fn"] = factory
            known = cache[name] = self.create_proxy("get_attr", name, (), {}, **options)
        return known

    # --- one pass from operation to node ------------------------------------------------------------------------------

    def _nothing_overridden(self) -> bool:
        """Whether an operation may go from proxy to node in one pass: nobody watches the steps between."""
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

    def _hooks(self, patcher: wrapping.Patcher, direct: bool) -> tuple[Callable[..., Any], Callable[..., Any], bool]:
        """What module calls and module attributes go through while the root runs, as `_module_hooks` takes it."""
        parameter_proxy_cache: dict[str, Proxy] = {}
        ids = self._autowrap_function_ids

        def module_getattr_wrapper(mod: Any, attr: Any) -> Any:
            return self.getattr(attr, original_getattr(mod, attr), parameter_proxy_cache)

        def module_call_wrapper(mod: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            caller = sys._getframe(2)

            def forward(*args: Any, **kwargs: Any) -> Any:
                return self._inside(caller, mod, args, kwargs)

            patcher.autowrap(getattr(getattr(mod, "forward", mod), "__globals__", {}), ids)
            return self.call_module(mod, forward, args, kwargs)

        quick_call = direct and self._inherits("call_module", "path_of_module")
        if direct:
            self._emit = _one_pass.make_emit(self, share_stacks=quick_call)  # type: ignore[method-assign]
        call = _one_pass.make_call_hook(self, original_call, patcher) if quick_call else module_call_wrapper
        if not self._inherits("getattr"):
            return call, module_getattr_wrapper, True
        if direct and not self.param_shapes_constant:
            return call, _one_pass.make_getattr_hook(self, original_getattr, parameter_proxy_cache), False
        return call, module_getattr_wrapper, False

    def _patch(self, patcher: wrapping.Patcher, globals_of_root: dict[str, Any]) -> None:
        wrapping.patch_registered(patcher)
        patcher.autowrap(globals_of_root, self._autowrap_function_ids)
        for module in self._autowrap_search:
            patcher.autowrap(module.__dict__, self._autowrap_function_ids)

    def _inside(self, caller: Any, mod: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a module's forward; sites taken inside continue at the call."""
        site = self._take_site(caller)
        outside = self._site_base, self._site_frame, self._site_parent, self._site_inner
        self._site_base, self._site_frame, self._site_parent, self._site_inner = site, None, None, None
        try:
            return _span.boundary(original_call, (mod, *args), kwargs)
        finally:
            self._site_base, self._site_frame, self._site_parent, self._site_inner = outside


def _survey(root: torch.nn.Module) -> tuple[dict[torch.nn.Module, str], dict[Any, str] | None]:
    """The path of every module, and the path of every constant, or None where that needs a closer look.

    One walk instead of ``named_modules()`` and another for the attributes: on a model of many small modules these two
    cost as much as the trace.
    """
    paths: dict[torch.nn.Module, str] = {}
    usual: set[type] = set()
    plain = True
    no_constant = _NO_CONSTANT

    def enter(module: torch.nn.Module, path: str) -> dict[str, Any] | None:
        """Note one module; gives its attributes, or None if its class walks its children in a way of its own."""
        nonlocal plain
        cls = type(module)
        if cls not in usual:
            if cls.named_modules is not _named_modules or cls.named_children is not _named_children:
                return None
            usual.add(cls)
        paths[module] = path
        values = module.__dict__
        if plain and not no_constant.issuperset(map(type, values.values())):
            plain = not any(isinstance(value, _constant_attribute_types) for value in values.values())
        return values

    def visit(children: dict[str, Any], prefix: str) -> bool:
        for name, child in children.items():
            if child is None or child in paths:
                continue
            path = prefix + name
            values = enter(child, path)
            if values is None:
                return False
            inner = values["_modules"]
            if inner and not visit(inner, f"{path}."):
                return False
        return True

    values = enter(root, "")
    if values is None or not visit(values["_modules"], ""):
        return {module: name for name, module in root.named_modules()}, None
    return paths, {} if plain else None


_named_modules = torch.nn.Module.named_modules
_named_children = torch.nn.Module.named_children


def _constants(root: torch.nn.Module) -> dict[Any, str]:
    """The path of every tensor, and its like, that the modules keep as a plain attribute."""
    found: dict[Any, str] = {}

    def visit(module: torch.nn.Module, path: tuple[str, ...]) -> None:
        for name, value in module.__dict__.items():
            if isinstance(value, _constant_attribute_types):
                found[value] = ".".join((*path, name))
        for name, child in module.named_children():
            visit(child, (*path, name))

    visit(root, ())
    return found


@contextlib.contextmanager
def _collector_paused() -> Iterator[None]:
    """No collections of cyclic garbage: a trace makes many objects and drops few, so each would be in vain."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _owned_values(root: torch.nn.Module, kind: str) -> dict[int, tuple[Any, str, str]]:
    """id of each parameter or buffer -> (the dict that holds it, its key there, its qualified name)."""
    found: dict[int, tuple[Any, str, str]] = {}
    for path, module in root.named_modules():
        holder = module.__dict__[kind]
        for key, value in holder.items():
            if value is not None and id(value) not in found:
                found[id(value)] = (holder, key, f"{path}.{key}" if path else key)
    return found


def _annotations(fn: Callable[..., Any]) -> dict[str, Any]:
    return inspect.get_annotations(inspect.unwrap(fn))


@functools.lru_cache(maxsize=128)
def _code_of_subclass(cls: type) -> frozenset[int]:
    """Ids of the code objects of a user's Tracer class: no span may point there."""
    found: set[int] = set()
    for base in cls.__mro__:
        if base.__module__.partition(".")[0] in ("fxlib", "builtins"):
            continue
        found.update(id(value.__code__) for value in vars(base).values() if isinstance(value, FunctionType))
    return frozenset(found)


def symbolic_trace(
    root: torch.nn.Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None
) -> GraphModule:
    """Trace a module or function and return a `GraphModule` that does what it did.

    ``concrete_args`` fixes arguments, to remove control flow that depends on them::

        def f(a, b):
            if b == True:
                return a
            return a * 2

        f = fxlib.symbolic_trace(f, concrete_args={"b": False})

    Other values of ``b`` are refused when the result is called. Collections may be given too, with `PH` in place of
    what shall stay an input: ``concrete_args={"x": {"a": PH, "b": PH}}``.

    Raises:
        TraceError and others: see `Tracer.trace`.
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = root.__class__.__name__ if isinstance(root, torch.nn.Module) else root.__name__
    return GraphModule(tracer.root, graph, class_name=name)


pickling.default_tracer = Tracer
