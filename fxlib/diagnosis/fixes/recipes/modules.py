"""Recipes that change how a module is built: registered layers instead of plain lists, layers made in `__init__`."""

from __future__ import annotations

import ast
import re

from fxlib.diagnosis.fixes.edits import Edit
from fxlib.diagnosis.fixes.fix import Draft, Site, recipe
from fxlib.diagnosis.fixes.members import self_name
from fxlib.diagnosis.fixes.names import local_names

_LAYER_NAMES = re.compile(
    r"^(Conv|Linear|Lazy|BatchNorm|LayerNorm|GroupNorm|Embedding|Dropout|ReLU|Sequential|Module|LSTM|GRU|RNN|Transformer|"
    r"Multihead|MaxPool|AvgPool|Adaptive|Upsample|Identity|Bilinear|GELU|SiLU|Sigmoid|Tanh)"
)


_STAYS = "nobody assigns a list to the attribute later, and checkpoints and optimizers may hold what it contains"


def _initialiser(owner: ast.ClassDef | None) -> ast.FunctionDef | None:
    if owner is None:
        return None
    return next((s for s in owner.body if isinstance(s, ast.FunctionDef) and s.name == "__init__"), None)


@recipe("module-list", kind="module", assumes=_STAYS)
def module_list(site: Site) -> Draft | None:
    """Replace the list of `self.layers = [nn.Linear(..), ..]` with `nn.ModuleList`, a dict with `nn.ModuleDict`."""
    return _container(site, "torch.nn.ModuleList", "torch.nn.ModuleDict", _makes_module)


@recipe("parameter-list", kind="module", assumes=_STAYS)
def parameter_list(site: Site) -> Draft | None:
    """Replace the list of `self.scales = [nn.Parameter(..)]` with `nn.ParameterList([..])`."""
    return _container(site, "torch.nn.ParameterList", "torch.nn.ParameterDict", _makes_parameter)


def _container(site: Site, list_class: str, dict_class: str, holds) -> Draft | None:
    owner = site.source.class_of(site.node)
    start = _initialiser(owner)
    if start is None or owner is None or not start.args.args:
        return None
    me = start.args.args[0].arg
    used = {
        n.attr
        for n in ast.walk(owner)
        if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id == me
    }
    read_here = {
        n.attr
        for n in ast.walk(site.function or owner)
        if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)
    } & used
    appended = {
        n.func.value.attr
        for n in ast.walk(start)
        if isinstance(n, ast.Call)
        and isinstance(n.func, ast.Attribute)
        and n.func.attr in ("append", "extend", "insert")
        and isinstance(n.func.value, ast.Attribute)
        and any(holds(site, a) for a in n.args)
    }
    edits: list[Edit] = []
    names = []
    for statement in ast.walk(start):
        target = statement.targets[0] if isinstance(statement, ast.Assign) else getattr(statement, "target", None)
        value = getattr(statement, "value", None)
        if (
            not isinstance(statement, ast.Assign | ast.AnnAssign)
            or not isinstance(target, ast.Attribute)
            or value is None
        ):
            continue
        if target.attr not in read_here:
            continue
        wanted = None
        if isinstance(value, ast.List | ast.ListComp | ast.Tuple):
            items = [value.elt] if isinstance(value, ast.ListComp) else value.elts
            if any(holds(site, item) for item in items) or (not items and target.attr in appended):
                wanted = list_class
        elif isinstance(value, ast.Dict | ast.DictComp):
            items = [value.value] if isinstance(value, ast.DictComp) else value.values
            if any(holds(site, item) for item in items):
                wanted = dict_class
        if wanted is None or _asks_for_list(site, target.attr):
            continue
        expression, more = site.need(wanted)
        text = site.text(value)
        if isinstance(value, ast.Tuple) and not text.startswith("("):
            text = f"({text})"
        inside = "" if isinstance(value, ast.List) and not value.elts else text
        edits += [*more, site.source.replace(value, f"{expression}({inside})")]
        names.append(f"self.{target.attr}")
    if not edits:
        return None
    title = f"Register {' and '.join(names)} with {list_class.replace('torch.nn', 'nn')}"
    note = "its parameters then belong to the module: state_dict, optimizers and .to() include them"
    return Draft(title, edits, note)


_OF_LISTS = {"remove", "index", "count", "copy", "sort", "reverse", "clear", "setdefault", "popitem", "get", "fromkeys"}


def _asks_for_list(site: Site, attribute: str) -> bool:
    """Whether the file calls a method of the attribute that only lists and dicts have, or adds it to a list."""
    for each in site.source.nodes:
        if isinstance(each, ast.Attribute) and each.attr == attribute and isinstance(each.ctx, ast.Load):
            above = site.source.parents[each]
            if isinstance(above, ast.BinOp | ast.Compare) or (
                isinstance(above, ast.Attribute) and above.attr in _OF_LISTS
            ):
                return True
    return False


def _makes_module(site: Site, node: ast.expr) -> bool:
    """Whether an expression constructs a module: `nn.Linear(..)`, or a class of the file that derives from a module."""
    if isinstance(node, ast.Starred):
        node = node.value
    if isinstance(node, ast.List | ast.ListComp):
        inner = [node.elt] if isinstance(node, ast.ListComp) else node.elts
        return any(_makes_module(site, item) for item in inner)
    if not isinstance(node, ast.Call):
        return False
    dotted = site.bindings.resolve(node.func) or ""
    name = dotted.rpartition(".")[2]
    if dotted.startswith("torch.nn.") and name not in ("Parameter", "Buffer"):
        return True
    return any(isinstance(s, ast.ClassDef) and s.name == name for s in site.source.tree.body) or bool(
        _LAYER_NAMES.match(name)
    )


def _makes_parameter(site: Site, node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and (site.bindings.resolve(node.func) or "").endswith("nn.Parameter")


def _append_to_init(site: Site, owner: ast.ClassDef, line: str) -> Edit | None:
    """Insert a statement at the end of `__init__`, or write one where there is none and the base is nn.Module."""
    start = _initialiser(owner)
    source = site.source
    if owner.decorator_list:
        return None  # such as a dataclass, whose constructor is made for it
    if start is not None:
        if any(isinstance(each, ast.Return) for each in ast.walk(start)):
            return None  # the end is not always reached
        last = start.body[-1]
        if last.lineno == start.lineno or not source.starts_line(last):
            return None
        return source.insert_line(source.line_below(last), source.indent_of(last) + line)
    bases = [site.bindings.resolve(b) for b in owner.bases]
    if bases != ["torch.nn.Module"] and bases != ["torch.nn.modules.Module"]:
        return None
    first = next((s for s in owner.body if isinstance(s, ast.FunctionDef)), None)
    if first is None or not source.starts_line(first):
        return None
    indent, unit = source.indent_of(first), source.indent_unit
    text = f"{indent}def __init__(self):\n{indent}{unit}super().__init__()\n{indent}{unit}{line}\n"
    return source.insert_line(source.line_above(first), text)


def _is_module_name(node: ast.expr) -> bool:
    """Whether the base of an attribute is a module by convention: `F`, `nn`, `torch`, `nn.functional`."""
    return ast.unparse(node) in ("F", "nn", "torch", "nn.functional", "torch.nn", "torch.nn.functional")


def _fresh_attribute(owner: ast.ClassDef, wanted: str) -> str:
    """An attribute name that no method of the class uses on a plain name such as `self`, and no member of it has."""
    taken = {n.attr for n in ast.walk(owner) if isinstance(n, ast.Attribute) and not _is_module_name(n.value)}
    taken |= {s.name for s in owner.body if isinstance(s, ast.FunctionDef)}
    name, count = wanted, 2
    while name in taken:
        name, count = f"{wanted}{count}", count + 1
    return name


_DROPOUTS = {
    "dropout": "Dropout", "dropout1d": "Dropout1d", "dropout2d": "Dropout2d", "dropout3d": "Dropout3d",
    "alpha_dropout": "AlphaDropout", "feature_alpha_dropout": "FeatureAlphaDropout",
}  # fmt: skip


@recipe(
    "dropout-module",
    kind="module",
    assumes="only train() and eval() change the mode, and the rate stays as it is constructed",
)
def dropout_module(site: Site) -> Draft | None:
    """Replace `F.dropout(x, p, training=self.training)` with an `nn.Dropout` that `__init__` creates."""
    owner, function = site.source.class_of(site.node), site.function
    if owner is None or function is None:
        return None
    me = self_name(site.source, function)
    for call in site.nearest(ast.Call):
        name = (site.call_name(call) or "").removeprefix("torch.nn.functional.").removeprefix("torch.")
        if name not in _DROPOUTS or not call.args or any(isinstance(a, ast.Starred) for a in call.args):
            continue
        given = dict(zip(("input", "p", "training", "inplace"), call.args, strict=False))
        given |= {k.arg: k.value for k in call.keywords if k.arg}
        training = given.get("training")
        if training is None or site.text(training) != f"{me}.training":
            return None
        settings = [site.text(given["p"])] if "p" in given else []
        named = list(ast.walk(given.get("p") or ast.Constant(0)))
        if any(isinstance(n, ast.Name) and n.id != me and isinstance(n.ctx, ast.Load) for n in named):
            return None
        if _written_later(site, owner, {n.attr for n in named if isinstance(n, ast.Attribute)}):
            return None
        if "inplace" in given:
            settings.append(f"inplace={site.text(given['inplace'])}")
        attribute = _fresh_attribute(owner, name)
        layer, edits = site.need(f"torch.nn.{_DROPOUTS[name]}")
        made = f"{layer}({', '.join(settings)})"
        insertion = _append_to_init(site, owner, f"self.{attribute} = {made}")
        if insertion is None:
            return None
        use = site.source.replace(call, f"{me}.{attribute}({site.text(given['input'])})")
        title = f"Use nn.{_DROPOUTS[name]}, which follows train() and eval()"
        return Draft(title, [*edits, insertion, use])
    return None


def _written_later(site: Site, owner: ast.ClassDef, attributes: set[str]) -> bool:
    """Whether the file gives one of the attributes another value outside of the constructor: the layer would keep the
    first one."""
    start = _initialiser(owner)
    made = set() if start is None else set(ast.walk(start))
    return any(
        isinstance(each, ast.Attribute) and each.attr in attributes and isinstance(each.ctx, ast.Store)
        for each in ast.walk(site.source.tree)
        if each not in made
    )


@recipe("instance-forward", kind="module", assumes="nobody calls forward without an instance")
def instance_forward(site: Site) -> Draft | None:
    """Make a static or class method `forward` an ordinary method: remove the decorator and add `self`."""
    owner, function = site.source.class_of(site.node), site.node
    if owner is None or not isinstance(function, ast.FunctionDef) or len(function.decorator_list) != 1:
        return None
    decorator, arguments = function.decorator_list[0], function.args.posonlyargs + function.args.args
    if not isinstance(decorator, ast.Name) or not arguments or any(each.arg == "self" for each in arguments):
        return None
    if f"{owner.name}.{function.name}" in map(ast.unparse, ast.walk(site.source.tree)):
        return None  # something calls it without an instance
    start = (decorator.lineno, decorator.col_offset - 1)
    edits = [site.source.replace_range(start, (function.lineno, function.col_offset), "")]
    if decorator.id == "staticmethod":
        first = arguments[0].lineno, arguments[0].col_offset
        edits.append(site.source.replace_range(first, first, "self, "))
    return Draft("Make forward a method", edits)


@recipe(
    "module-in-init", kind="module", assumes="every call may use the same layer, with the settings of the constructor"
)
def module_in_init(site: Site) -> Draft | None:
    """Create a layer that forward creates, such as `nn.ReLU()(x)`, in `__init__` instead."""
    owner, function = site.source.class_of(site.node), site.function
    if owner is None or function is None or function.name == "__init__":
        return None
    me = self_name(site.source, function)
    for call in site.nearest(ast.Call):
        made = call.func if isinstance(call.func, ast.Call) else call
        dotted = site.bindings.resolve(made.func) or ""
        if not dotted.startswith("torch.nn.") or dotted.startswith("torch.nn.functional."):
            continue
        if any(
            isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n.id in local_names(function) - {me}
            for n in ast.walk(made)
        ):
            return None
        if any(k in dotted for k in (".Parameter", ".init.")):
            return None
        attribute = _fresh_attribute(owner, dotted.rpartition(".")[2].lower())
        insertion = _append_to_init(site, owner, f"self.{attribute} = {site.text(made)}")
        if insertion is None:
            return None
        settings = [*made.args, *(keyword.value for keyword in made.keywords)]
        read = {n.attr for each in settings for n in ast.walk(each) if isinstance(n, ast.Attribute)}
        if _written_later(site, owner, read):
            return None
        note = "the layer is created once instead of in every call"
        edits = [insertion, site.source.replace(made, f"{me}.{attribute}")]
        return Draft("Create the layer in __init__", edits, note)
    return None
