"""The kind of value that a parameter takes, from all evidence."""

from __future__ import annotations

from . import annotated, gym_spaces
from .names import habit
from .places import NOTHING, View

_WEIGHTS = {
    "call": ("callable", 6.0), "callable": ("callable", 3.0), "key": ("mapping", 5.0), "get": ("mapping", 5.0),
    "mapping": ("mapping", 3.0), "contains": ("mapping", 2.0), "iterate": ("list", 5.0), "unpack": ("list", 5.0),
    "index": ("list", 5.0), "item": ("list", 3.0), "slice": ("list", 4.0), "length": ("list", 3.0),
    "star": ("list", 4.0), "same_length": ("list", 3.0), "int": ("int", 5.0), "number": ("number", 3.0),
    "arithmetic": ("number", 2.0), "order": ("number", 2.0), "string": ("str", 5.0), "format": ("str", 1.0),
    "name_in": ("str", 6.0), "module": ("module", 5.0), "tensor": ("tensor", 2.0), "truth": ("bool", 0.7),
    "invert": ("bool", 1.0), "argument": ("number", 0.3), "row": ("list", 6.0),
}  # fmt: skip
_OF_CONSTANT = {bool: ("bool", 3.0), int: ("int", 3.0), str: ("str", 6.0), float: ("float", 3.0)}
_OF_TYPE = {
    bool: "bool", int: "int", float: "float", str: "str", list: "list", tuple: "list", dict: "mapping",
}  # fmt: skip
_OF_HABIT = {"norm": "callable", "act": "callable", "class": "callable", "device": "device", "path": "path"}
MODULE_ATTRIBUTES = {
    "out_channels", "in_channels", "in_features", "out_features", "weight", "bias", "embed_dim", "num_features",
    "num_channels", "training", "out_dim", "hidden_size", "output_dim", "encoder", "fc", "layers", "expansion",
}  # fmt: skip


def ranked(view: View, annotation: object = NOTHING, default: object = NOTHING) -> list[tuple[str, str]]:
    """Kinds with the type of evidence for each (annotation, use, name, default), the most likely first."""
    scores: dict[str, float] = {}
    best: dict[str, tuple[float, str]] = {}

    def vote(kind: str, weight: float, how: str) -> None:
        scores[kind] = scores.get(kind, 0.0) + weight
        if weight > best.get(kind, (0.0, ""))[0]:
            best[kind] = (weight, how)

    for arm in annotated.members(annotation):
        kind = annotated.kind(arm)
        if kind and kind != "any":
            vote(kind, 2.0 if kind == "none" else 30.0, "annotation")
    if default is not NOTHING and default is not None:
        kind = of_value(default)
        if kind:
            vote(kind, 12.0, "default")
    _by_use(view, vote)
    for name, far in view.names():
        guess = habit(name)
        if guess is not None:
            kind = _OF_HABIT.get(guess.kind, guess.kind)
            vote(kind, 1.8 / (1 + far), "name")
    if gym_spaces.package() is not None and any(gym_spaces.is_named(name) for name, _ in view.names()):
        vote("space", 20.0, "name")
    _settle_numbers(scores, best, view)
    if scores.get("module", 0.0) >= 4 and "config" in scores:
        # A module has attributes too.
        scores["module"] += scores.pop("config")
    order = sorted(scores, key=lambda kind: -scores[kind])
    return [(kind, best[kind][1]) for kind in order]


def _by_use(view: View, vote) -> None:  # type: ignore[no-untyped-def]
    seen: dict[str, int] = {}
    for place in view.places:
        near = 1.0 if view.distance[id(place)] < 2 else 0.7
        if place.annotation is not NOTHING and view.distance[id(place)]:
            for arm in annotated.members(place.annotation):
                kind = annotated.kind(arm)
                if kind not in ("", "any", "none"):
                    vote(kind, 4.0 * near, "use")
        elif place.default is not NOTHING and place.default is not None and view.distance[id(place)]:
            vote(of_value(place.default) or "any", 1.5 * near, "use")
        for kind, detail in place.uses:
            if kind in ("compare", "given"):
                known = _OF_CONSTANT.get(type(detail))
                if known:
                    vote(known[0], known[1], "use")
            elif kind == "key_of":
                vote("str" if isinstance(detail[0], str) else "int", 6.0, "use")
            elif kind == "documented":
                vote(detail, 4.0 * near, "use")
            elif kind == "isinstance":
                kind = _OF_TYPE.get(detail, "")
                # A generic helper checks this for all of its arguments.
                vote(kind or annotated.kind(detail), 1.0 if kind else 4.0 if near == 1.0 else 1.4, "use")
            elif kind == "attribute":
                if detail in MODULE_ATTRIBUTES and (place.uses.keys() & {("call", None)} or view.has("call", "module")):
                    vote("module", 2.0, "use")
                else:
                    vote("config", 3.0 if seen.get("attribute", 0) < 3 else 0.5, "use")
                seen["attribute"] = seen.get("attribute", 0) + 1
            elif kind in _WEIGHTS:
                seen[kind] = seen.get(kind, 0) + 1
                if seen[kind] < 4:
                    vote(_WEIGHTS[kind][0], _WEIGHTS[kind][1] * near, "use")


def _settle_numbers(scores: dict[str, float], best: dict[str, tuple[float, str]], view: View) -> None:
    """A number that could be either is an int, unless its name, or a float next to it, implies float."""
    number = scores.pop("number", 0.0)
    if not number:
        return
    into = "float" if scores.get("float", 0.0) > scores.get("int", 0.0) else "int"
    scores[into] = scores.get(into, 0.0) + number
    best.setdefault(into, best.get("number", (number, "use")))


def of_value(value: object) -> str:
    """The kind of a value that exists."""
    import torch

    if value is None:
        return "none"
    if isinstance(value, bool):
        return "bool"
    for known, kind in (
        (int, "int"),
        (float, "float"),
        (str, "str"),
        (list, "list"),
        (tuple, "tuple"),
        (dict, "mapping"),
    ):
        if isinstance(value, known):
            return kind
    if isinstance(value, torch.nn.Module):
        return "module"
    if isinstance(value, type):
        return "class"
    return "callable" if callable(value) else ""
