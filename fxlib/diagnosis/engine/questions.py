"""The questions that torch.fx refuses: each is recorded, and answered so that the trace can go on."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from torch import nn

from fxlib.capture.proxy import Proxy
from fxlib.capture.tracer import Tracer
from fxlib.capture.tracer_base import _CONTROL_FLOW, _ITERATION, TraceError
from fxlib.diagnosis.engine import place as places
from fxlib.diagnosis.engine.causes import Cause, cause_of
from fxlib.diagnosis.engine.instrument import Probe
from fxlib.diagnosis.engine.place import Place
from fxlib.diagnosis.engine.source import span_of
from fxlib.diagnosis.engine.values import UNKNOWN, Unknown, show
from fxlib.diagnosis.report import Related
from fxlib.diagnosis.rules import RULES
from fxlib.ir.node import Node
from fxlib.ir.span import Span
from fxlib.shapes import TensorMeta

if TYPE_CHECKING:
    from fxlib.diagnosis.engine.session import Session

__all__ = ["Questions"]

_ITEMS = 256
_ATTEMPTS = 2


class Questions:
    """Answers from the example values; where only data could tell, one way in one run and the other in a later one.

    A run that fails is repeated with the same answers until it ends, so that all is found on its way; `turn` then
    chooses others. ``outcomes`` holds, by expression, which answers were tried; ``noted`` the errors that were raised
    because the user's code swallows them, and which are findings already.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.outcomes: dict[Span, set[bool]] = {}
        self.noted: list[BaseException] = []
        self._chosen: dict[Span, bool] = {}
        self._given: dict[Span, bool] = {}
        self._ways: dict[Span, dict[Span, bool]] = {}
        self._attempts: dict[Span, int] = {}
        self._counts: dict[Span, int] = {}
        self._iterated: tuple[Proxy, int] | None = None

    def begin(self) -> None:
        """A new run starts."""
        self._counts = {}
        self._given = {}
        self._iterated = None
        self.noted = []

    def forget_choices(self) -> None:
        """The likelier answer again, to questions that both were given to."""
        self._chosen = {}

    def turn(self) -> bool:
        """Choose the other answer to every question that was answered one way only, as far as one run can. False when
        nothing is left to choose."""
        left = [key for key, seen in self.outcomes.items() if len(seen) < 2 and self._attempts.get(key, 0) < _ATTEMPTS]
        self._chosen = {}
        for key in sorted(left, key=lambda key: -self._attempts.get(key, 0)):
            # The answers that led here; at first without those that shall change too, which may have been no condition.
            again = self._attempts.get(key, 0) > 0
            way = {other: answer for other, answer in self._ways[key].items() if again or other not in left}
            wanted = {**way, key: not next(iter(self.outcomes[key]))}
            if all(self._chosen.get(other, answer) == answer for other, answer in wanted.items()):
                self._chosen.update(wanted)
                self._attempts[key] = self._attempts.get(key, 0) + 1
        return bool(left)

    def truth(self, proxy: Proxy) -> bool:
        """The truth of a traced value."""
        place = self.session.place(proxy)
        value = self.session.value(proxy)
        if place is None or self._constructs(place):
            raise self._refusal(_CONTROL_FLOW)
        swallowed = self._swallowed(place, TraceError, _CONTROL_FLOW)
        if swallowed and self.session.behind is None:
            raise self._refusal(_CONTROL_FLOW)
        cause = cause_of(proxy.node, self.session.values)
        form, owner = places.form_of(place.node)
        code = self._truth_code(form, place, cause)
        if type(value) in (TensorMeta, Unknown):
            answer: bool | None = None
            note = cause.explain(value)
        else:
            answer = bool(value)
            note = cause.explain(value)
        related = () if answer is None else self._decisive(proxy.node, place)
        facts = {"form": form, "cause": cause.kind, "argument": cause.argument, "value": answer}
        if cause.kind != "number" and not swallowed:
            self.session.add(code, place, note, related=related, node=proxy.node.name, data=facts)
        return self._decide(place, form, owner) if answer is None else answer

    def _decisive(self, node: Node, place: Place) -> tuple[Related, ...]:
        """The plain values that an answer was worked out from, each with the expression it comes from."""
        found = []
        for other in node.all_input_nodes or [node]:
            value = self.session.values.known.get(other, UNKNOWN)
            where = places.place_of(other._site, self.session.instrumentation.original)
            if type(value) in (TensorMeta, Unknown):
                continue
            if other.op == "placeholder":
                found.append(Related(f"the argument `{other.target}` is {show(value)}", place.span, "value"))
            elif where is not None:
                name, span = _named(other, where)
                found.append(Related(f"`{name}` is {show(value)} on the example inputs", span, "value"))
        return tuple(found)

    def _truth_code(self, form: str, place: Place, cause: Cause) -> str:
        name = places.called_name(place.node)
        if name in ("min", "max", "sorted"):
            return "FX106"
        if form == "assert":
            return "FX104"
        if form == "in":
            return "FX105"
        if form == "chain":
            return "FX107"
        return {"argument": "FX103", "shape": "FX102"}.get(cause.kind, "FX101")

    def _decide(self, place: Place, form: str, owner: Any) -> bool:
        """An answer where nobody knows: every way once, the likelier first, and loops end after one turn."""
        self.session.guessed = True
        key = place.span
        count = self._counts[key] = self._counts.get(key, 0) + 1
        seen = self.outcomes.setdefault(key, set())
        likely = True
        if form == "assert":
            seen.update((True, False))
            return places.wanted_truth(place.node, owner, True)
        if form == "while":
            seen.update((True, False))
            return places.wanted_truth(place.node, owner, count == 1)
        if form == "if":
            likely = places.wanted_truth(place.node, owner, True)
            if owner.body and isinstance(owner.body[-1], ast.Raise):
                # The way into the raise ends there; it counts as taken, since nothing but data decides.
                seen.update((True, False))
                if place.site is not None:
                    code = self.session.instrumentation.original.get(place.site[0], place.site[0])
                    self.session.reached.add((code, id(owner), "body"))
                return places.wanted_truth(place.node, owner, False)
        first = self._chosen.get(key, likely)
        # In a loop, the second turn sees the other way at once.
        answer = not first if count == 2 else first
        self._ways.setdefault(key, dict(self._given))
        self._given.setdefault(key, answer)
        seen.add(answer)
        return answer

    def items(self, proxy: Proxy) -> Iterator[Any]:
        """The items of a traced value."""
        probe = self.session.probe_of(proxy)
        place = self.session.place(proxy)
        value = self.session.value(proxy)
        if place is None or self._constructs(place):
            raise self._refusal(_ITERATION)
        swallowed = self._swallowed(place, TraceError, _ITERATION)
        if swallowed and self.session.behind is None:
            raise self._refusal(_ITERATION)
        code = self._iteration_code(probe, place)
        cause = cause_of(proxy.node, self.session.values)
        note = "" if type(value) is Unknown else f"on the example inputs it is {show(value)}"
        if cause.kind != "number" and not swallowed:
            self.session.add(code, place, note, node=proxy.node.name, data={"cause": cause.kind})
        if isinstance(value, dict):
            return iter(list(value))
        if type(value) is TensorMeta:
            count = value.shape[0] if value.shape else 0
        elif isinstance(value, (list, tuple)):
            count = len(value)
        else:
            self.session.guessed = True
            count = _wanted_items(place.node)
        item: Any = proxy
        items = [item[i] for i in range(min(count, _ITEMS))]
        self._iterated = (proxy, len(items))
        return iter(items)

    def length(self, proxy: Proxy, plain: Callable[[Proxy], int]) -> int:
        """The length of a traced value, where the user's code asks for it. Torch's C code asks too, to find out what
        it was given: it gets the error that it expects."""
        place = self.session.place(None)
        name = "" if place is None else places.called_name(place.node)
        if name != "len" and self._iterated is not None and self._iterated[0] is proxy:
            return self._iterated[1]
        value: Any = self.session.value(proxy) if name in ("len", "reversed") else UNKNOWN
        if place is None or type(value) is Unknown:
            return plain(proxy)
        swallowed = self._swallowed(place, RuntimeError, RULES["FX120"].torch_text)
        if swallowed and self.session.behind is None:
            return plain(proxy)
        count = value.shape[0] if type(value) is TensorMeta and value.shape else len(value)
        error = RuntimeError(RULES["FX120"].torch_text)
        code = "FX120" if name == "len" else "FX121"
        if not swallowed:
            self.session.add(code, place, f"on the example inputs it is {count}", error=error, node=proxy.node.name)
        self._iterated = (proxy, count)
        return count

    def _iteration_code(self, probe: Probe | None, place: Place) -> str:
        kind = "" if probe is None else probe.kind
        if kind == "mapping":
            return "FX113"
        if kind == "star":
            spread = getattr(place.node, "parent", None)
            return "FX112" if isinstance(getattr(spread, "parent", None), ast.Call) else "FX110"
        if kind == "unpack":
            return "FX111"
        form, _ = places.form_of(place.node)
        if form == "in":
            return "FX113" if isinstance(place.node.left, ast.Constant) else "FX105"
        name = places.called_name(place.node)
        if name in ("sum", "max", "min", "sorted", "any", "all"):
            return "FX114"
        if name.rpartition(".")[2] in ("tensor", "Size", "as_tensor"):
            return "FX122"
        if name.rpartition(".")[2] in ("items", "keys", "values") or _iterates_mapping(place.node):
            return "FX113"
        return "FX110"

    def keys(self, proxy: Proxy) -> Any:
        """What ``**proxy`` gets; an explicit ``proxy.keys()`` is recorded as ever."""
        probe = self.session.probe_of(proxy)
        if probe is None or probe.kind != "mapping":
            return Tracer.keys(self.session.tracer, proxy)
        place = self.session.place(proxy)
        value = self.session.value(proxy)
        swallowed = place is not None and self._swallowed(place, TraceError, _ITERATION)
        if place is None or (swallowed and self.session.behind is None):
            return Tracer.keys(self.session.tracer, proxy)
        if not swallowed:
            self.session.add("FX113", place, "the keys are not known while tracing", node=proxy.node.name)
        return list(value) if isinstance(value, dict) else []

    def _constructs(self, place: Place) -> bool:
        """Whether torch's own constructor of a module asks, about a size that it was given: that is no question of the
        user's, and the call fails as a whole."""
        if not isinstance(place.node, ast.Call):
            return False
        kind = self.session.constant(place.node.func, self.session.frame())
        return isinstance(kind, type) and issubclass(kind, nn.Module)

    def stranger(self, module: nn.Module) -> bool:
        """Whether the trace goes on into a module that is not the root's."""
        place = self.session.place()
        text = f"{RULES['FX170'].torch_text} ({type(module).__name__} called)"
        swallowed = place is not None and self._swallowed(place, NameError, text)
        if place is None or (swallowed and self.session.behind is None):
            return False
        if not swallowed:
            self.session.add("FX170", place, f"NameError: {text}", error=NameError(text))
        return True

    def _refusal(self, text: str) -> TraceError:
        error = TraceError(text)
        self.noted.append(error)
        return error

    def _swallowed(self, place: Place, kind: type[BaseException], text: str) -> bool:
        """Whether a handler of the user's own would hide a failure here, which is then the finding. The failure is
        raised all the same, except on the way of a normal run."""
        if places.catcher(place, kind, self.session.instrumentation.original) is None:
            return False
        self.note_swallowed(place, f"{kind.__name__}: {text}")
        return True

    def note_swallowed(self, place: Place, text: str, rule: str | None = None) -> None:
        """A failure of the trace that the user's own handler hides; ``rule`` is its code where it was no question."""
        note = Related(f"the handler hides: {text}", place.span, "torch")
        data = {} if rule is None else {"rule": rule}
        self.session.add("FX215", place, "torch.fx records what the handler does instead", related=(note,), data=data)


def _named(node: Node, place: Place) -> tuple[str, Span]:
    """What the source calls the value of ``node``, and where: of ``b, t = x.shape`` the one name that it goes to."""
    names = place.node
    if isinstance(names, (ast.Tuple, ast.List)) and isinstance(names.ctx, ast.Store) and len(node.args) == 2:
        index = node.args[1]
        before = names.elts[: index + 1] if isinstance(index, int) and 0 <= index < len(names.elts) else []
        if before and not any(isinstance(item, ast.Starred) for item in before):
            return ast.unparse(before[-1]), span_of(before[-1], place.span.file)
    return place.text, place.span


def _iterates_mapping(node: Any) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("items", "keys")


def _wanted_items(node: Any) -> int:
    """How many items the statement around an iteration names; 1 where it does not say."""
    statement = places.surrounding_statement(node)
    targets: list[Any] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    for target in targets:
        if isinstance(target, (ast.Tuple, ast.List)):
            return len(target.elts)
    return 1
