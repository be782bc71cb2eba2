"""Questions that torch.fx does not answer (bool, items or length of a traced value): they are reported, and
answered."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from torch import nn
from torch.distributions import Distribution

from fxlib.capture.proxy import Proxy
from fxlib.capture.tracer_base import _CONTROL_FLOW, _ITERATION, TraceError
from fxlib.diagnosis.engine.causes import Cause, cause_of
from fxlib.diagnosis.engine.choices import Choices
from fxlib.diagnosis.engine.errors import note_swallowed
from fxlib.diagnosis.engine.forms import called_name, form_of, surrounding_statement, wanted_truth
from fxlib.diagnosis.engine.frames import constant, users_frame
from fxlib.diagnosis.engine.inputs import signature_of
from fxlib.diagnosis.engine.place import Place
from fxlib.diagnosis.engine.probes import Probe
from fxlib.diagnosis.engine.reach import unregistered
from fxlib.diagnosis.engine.run import Run
from fxlib.diagnosis.engine.trees import span_of, text_of
from fxlib.diagnosis.engine.values import UNKNOWN, Unknown, show
from fxlib.diagnosis.report import Related
from fxlib.diagnosis.rules import RULES
from fxlib.ir.node import Node
from fxlib.ir.span import Span
from fxlib.shapes import TensorMeta

__all__ = ["Questions"]

_ITEMS = 256


class Questions:
    """Answers of one run, from the example values. If these do not decide, one run gets one answer and a later run the
    other. A question that raises in torch.fx within a user's handler raises here too, unless the run corrects
    misleading answers."""

    def __init__(self, run: Run, choices: Choices) -> None:
        self.run = run
        self.choices = choices
        self._given: dict[Span, bool] = {}
        self._counts: dict[Span, int] = {}
        self._iterated: tuple[Proxy, int] | None = None

    def truth(self, proxy: Proxy) -> bool:
        """The bool of a traced value."""
        place = self.run.place(proxy)
        value = self.run.value(proxy)
        if place is None or self._constructs(place):
            raise self._refusal(_CONTROL_FLOW)
        swallowed = self._swallowed(place, TraceError, _CONTROL_FLOW)
        if swallowed and self.run.course.corrections is None:
            raise self._refusal(_CONTROL_FLOW)
        cause = cause_of(proxy.node, self.run.values)
        form, owner = form_of(place.node)
        code = self._truth_code(form, place, cause)
        answer = None if type(value) in (TensorMeta, Unknown) else bool(value)
        related = () if answer is None else self._decisive(proxy.node, place)
        facts = {"form": form, "cause": cause.kind, "argument": cause.argument, "value": answer}
        if not cause.made_up and not swallowed:
            message, detail = self._texts_for_none(code, place, cause)
            detail = detail or RULES[code].advice or cause.explain(value)
            self.run.add(code, place, message, detail=detail, related=related, node=proxy.node.name, data=facts)
        if form == "assert" and any(self.run.values.known.get(each, 0) is None for each in proxy.node.all_input_nodes):
            # In a normal run the None would have been replaced by now; the trace has a value, so the check passes.
            self.run.guessed = True
            return wanted_truth(place.node, owner, True)
        return self._decide(place, form, owner) if answer is None else answer

    def _decisive(self, node: Node, place: Place) -> tuple[Related, ...]:
        """The plain values that decided an answer, each with its expression."""
        found = []
        for other in node.all_input_nodes or [node]:
            value = self.run.values.known.get(other, UNKNOWN)
            where = self.run.place_of_node(other)
            if type(value) in (TensorMeta, Unknown):
                continue
            if other.op == "placeholder":
                found.append(Related(f"the argument `{other.target}` is {show(value)}", place.span, "value"))
            elif where is not None:
                name, span = _named(other, where)
                found.append(Related(f"`{name}` is {show(value)} on the example inputs", span, "value"))
        return tuple(found)

    def _truth_code(self, form: str, place: Place, cause: Cause) -> str:
        name = called_name(place.node)
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
        """An answer if nothing decides: each branch once, the likelier first; loops end after one iteration."""
        self.run.guessed = True
        key = place.span
        count = self._counts[key] = self._counts.get(key, 0) + 1
        likely = True
        if form == "assert":
            self.choices.settle(key)
            return wanted_truth(place.node, owner, True)
        if form == "while":
            self.choices.settle(key)
            return wanted_truth(place.node, owner, count == 1)
        if form == "if":
            likely = wanted_truth(place.node, owner, True)
            if owner.body and isinstance(owner.body[-1], ast.Raise):
                # The path into the raise ends there; it counts as taken, since only data decides.
                self.choices.settle(key)
                if place.site is not None:
                    code = self.run.subject.instrumentation.original.get(place.site[0], place.site[0])
                    self.run.reached.add((code, id(owner), "body"))
                return wanted_truth(place.node, owner, False)
        first = self.run.course.answers.get(key, likely)
        # In a loop, the second iteration gets the opposite at once.
        answer = not first if count == 2 else first
        self.choices.note(key, answer, self._given)
        self._given.setdefault(key, answer)
        return answer

    def items(self, proxy: Proxy) -> Iterator[Any]:
        """The items of a traced value."""
        probe = self.run.probe_of(proxy)
        place = self.run.place(proxy)
        value = self.run.value(proxy)
        if place is None or self._constructs(place):
            raise self._refusal(_ITERATION)
        swallowed = self._swallowed(place, TraceError, _ITERATION)
        if swallowed and self.run.course.corrections is None:
            raise self._refusal(_ITERATION)
        code = self._iteration_code(proxy, probe, place)
        cause = cause_of(proxy.node, self.run.values)
        given = self._iterated_argument(place, proxy) if code == "FX110" else None
        if given is not None and isinstance(given.parent, ast.Starred):
            code, place, given = "FX112", place.widened(given), None
        if not cause.made_up and not swallowed:
            message, detail = self._texts_for_none(code, place, cause, given)
            if given is not None and not message:
                message = f"`{place.text}` needs the items of `{text_of(given)}`, a traced value of no known length"
            detail = detail or ("" if type(value) is Unknown else f"On the example inputs it is {show(value)}")
            facts = {"cause": cause.kind, "argument": cause.argument, "count": _count(value)}
            self.run.add(code, place, message, detail=detail, node=proxy.node.name, data=facts)
        if isinstance(value, dict):
            return iter(list(value))
        if code == "FX113" and isinstance(value, (list, tuple)):
            # Keys are plain values in a normal run; traced ones would cause further problems as keys of another dict.
            return iter([_with_key(proxy, index, each) for index, each in enumerate(value)])
        if type(value) is TensorMeta:
            count = value.shape[0] if value.shape else 0
        elif isinstance(value, (list, tuple)):
            count = len(value)
        else:
            self.run.guessed = True
            count = _wanted_items(place.node)
        item: Any = proxy
        items = [item[i] for i in range(min(count, _ITEMS))]
        self._iterated = (proxy, len(items))
        return iter(items)

    def _iterated_argument(self, place: Place, proxy: Proxy) -> Any:
        """The argument that a call such as ``zip(names, value)`` iterates; None for other calls."""
        if not isinstance(place.node, ast.Call):
            return None
        frame, made = users_frame(), self.run.place_of_node(proxy.node)
        for each in [*place.node.args, *(keyword.value for keyword in place.node.keywords)]:
            argument = each.value if isinstance(each, ast.Starred) else each
            if isinstance(argument, ast.Name):
                found = frame is not None and frame.f_locals.get(argument.id) is proxy
            else:
                found = made is not None and made.span == span_of(argument, place.span.file)
            if found:
                return argument
        return None

    def _texts_for_none(self, code: str, place: Place, cause: Cause, given: Any = None) -> tuple[str, str]:
        """Both sentences of a finding about ``key in argument``, or its items, if the argument is None; otherwise
        empty."""
        name = cause.argument
        if name is None or self.run.values.inputs.get(name, UNKNOWN) is not None:
            return "", ""
        iterated = place.node if given is None else given
        if code != "FX105" and not (code == "FX110" and isinstance(iterated, ast.Name) and iterated.id == name):
            return "", ""
        signature = signature_of(self.run.subject.root)
        parameter = None if signature is None else signature.parameters.get(name)
        known = "defaults to None" if parameter is not None and parameter.default is None else "is None in a normal run"
        what = f"`{place.text}` reads `{name}`" if code == "FX105" else f"The items of `{name}` are needed"
        message = f"{what}, which {known}, but tracing passes a Proxy"
        return message, f"Set `{name}=None` for the trace with concrete_args"

    def length(self, proxy: Proxy) -> int | None:
        """The length of a traced value, if the user's code requests it. Torch's C code does so too, to check its
        arguments: None stands for the error that it expects."""
        place = self.run.place(None)
        name = "" if place is None else called_name(place.node)
        if name != "len" and self._iterated is not None and self._iterated[0] is proxy:
            return self._iterated[1]
        value: Any = self.run.value(proxy) if name in ("len", "reversed") else UNKNOWN
        if place is None or type(value) is Unknown:
            return None
        swallowed = self._swallowed(place, RuntimeError, RULES["FX120"].torch_text)
        if swallowed and self.run.course.corrections is None:
            return None
        count = value.shape[0] if type(value) is TensorMeta and value.shape else len(value)
        error = RuntimeError(RULES["FX120"].torch_text)
        code = "FX120" if name == "len" else "FX121"
        if not swallowed:
            note = f"On the example inputs it is {count}"
            self.run.add(code, place, detail=note, error=error, node=proxy.node.name)
        self._iterated = (proxy, count)
        return count

    def _iteration_code(self, proxy: Proxy, probe: Probe | None, place: Place) -> str:
        kind = "" if probe is None else probe.kind
        if kind == "mapping":
            return "FX113"
        if kind == "star":
            spread = getattr(place.node, "parent", None)
            return "FX112" if isinstance(getattr(spread, "parent", None), ast.Call) else "FX110"
        if kind == "unpack":
            return "FX111"
        form, _ = form_of(place.node)
        if form == "in":
            return "FX113" if isinstance(place.node.left, ast.Constant) else "FX105"
        name = called_name(place.node)
        if name in ("sum", "max", "min", "sorted", "any", "all"):
            return "FX114"
        if name.rpartition(".")[2] in ("tensor", "Size", "as_tensor"):
            return "FX122"
        last = name.rpartition(".")[2]
        # `known.update(value)` calls `value.keys()`.
        updates = last == "update" and proxy.node.target == "keys"
        if last in ("items", "keys", "values") or updates or _iterates_mapping(place.node):
            return "FX113"
        return "FX110"

    def keys(self, proxy: Proxy) -> list[Any] | None:
        """The keys for ``**proxy``; None for an explicit ``proxy.keys()``, which is recorded."""
        probe = self.run.probe_of(proxy)
        if probe is None or probe.kind != "mapping":
            return None
        place = self.run.place(proxy)
        value = self.run.value(proxy)
        swallowed = place is not None and self._swallowed(place, TraceError, _ITERATION)
        if place is None or (swallowed and self.run.course.corrections is None):
            return None
        if not swallowed:
            self.run.add("FX113", place, node=proxy.node.name)
        return list(value) if isinstance(value, dict) else []

    def _constructs(self, place: Place) -> bool:
        """Whether torch's own constructor of a module or distribution tests its arguments: that is not the user's
        question, and the call fails as a whole."""
        if not isinstance(place.node, ast.Call):
            return False
        kind = constant(place.node.func, users_frame())
        return isinstance(kind, type) and issubclass(kind, nn.Module | Distribution)

    def stranger(self, module: nn.Module) -> bool:
        """Whether to trace into a module that is not in the root."""
        place = self.run.place()
        text = f"{RULES['FX170'].torch_text} ({type(module).__name__} called)"
        swallowed = place is not None and self._swallowed(place, NameError, text)
        if place is None or (swallowed and self.run.course.corrections is None):
            return False
        if not swallowed:
            self.run.add("FX170", place, unregistered(self.run.subject.root, module), error=NameError(text))
        return True

    def _refusal(self, text: str) -> TraceError:
        error = TraceError(text)
        self.run.refused.append(error)
        return error

    def _swallowed(self, place: Place, kind: type[BaseException], text: str) -> bool:
        """Whether a user's handler would hide a failure here, which is then the finding. The failure is still raised,
        except on the path of a normal run."""
        if self.run.catcher(place, kind) is None:
            return False
        note_swallowed(self.run, place, f"{kind.__name__}: {text}")
        return True


def _named(node: Node, place: Place) -> tuple[str, Span]:
    """The source's name for the value of ``node``, and its place: in ``b, t = x.shape``, the one name that it is
    assigned to."""
    names = place.node
    if isinstance(names, (ast.Tuple, ast.List)) and isinstance(names.ctx, ast.Store) and len(node.args) == 2:
        index = node.args[1]
        before = names.elts[: index + 1] if isinstance(index, int) and 0 <= index < len(names.elts) else []
        if before and not any(isinstance(item, ast.Starred) for item in before):
            return ast.unparse(before[-1]), span_of(before[-1], place.span.file)
    return place.text, place.span


def _iterates_mapping(node: Any) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("items", "keys")


def _count(value: Any) -> int | None:
    """The number of items of a value on the example inputs."""
    if type(value) is TensorMeta:
        return value.shape[0] if value.shape else None
    return len(value) if isinstance(value, (list, tuple, dict)) else None


def _with_key(proxy: Any, index: int, value: Any) -> Any:
    """One item of a mapping: the key as in a normal run, alone or with the traced value."""
    if isinstance(value, str):
        return value
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str):
        return value[0], proxy[index][1]
    return proxy[index]


def _wanted_items(node: Any) -> int:
    """The number of items that the statement around an iteration names; 1 if unknown."""
    statement = surrounding_statement(node)
    targets: list[Any] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    for target in targets:
        if isinstance(target, (ast.Tuple, ast.List)):
            return len(target.elts)
    return 1
