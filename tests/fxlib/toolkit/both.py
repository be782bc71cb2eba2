"""Running one scenario on torch.fx and on fxlib: what it reports has to be the same."""

import importlib
import re
from collections.abc import Callable
from typing import Any

# Addresses and identities differ from run to run; so does the order in which a set is printed.
_VOLATILE = re.compile(r"0x[0-9a-f]+|graph_id=\d+|<eval_with_key>\.(fxlib_)?\d+|op types of [a-z_, ]+")


class Side:
    """One of the two libraries: ``side()`` is the package, ``side("graph")`` a module of it."""

    def __init__(self, package: str) -> None:
        self.package = package
        self.reports: list[str] = []

    def __call__(self, module: str = "") -> Any:
        return importlib.import_module(f"{self.package}.{module}" if module else self.package)

    def adopt(self, gm: Any) -> Any:
        """A module of torch.fx as one of this library."""
        return gm if self.package == "torch.fx" else self("interop").from_torch_fx(gm)

    def report(self, *values: Any) -> None:
        """Something that both have to agree upon, as it prints."""
        text = " ".join(map(str, values)).replace("fxlib", "torch.fx")
        self.reports.append(_VOLATILE.sub("", text))

    def attempt(self, function: Callable[[], Any]) -> None:
        """Reports what a call gives, or the error's class and message."""
        try:
            self.report(function())
        except Exception as error:
            self.report("raises", type(error).__name__, error)


def assert_same(scenario: Callable[[Side], None], *, at_least: int = 1) -> None:
    """Fails where the two libraries report different things, or fewer than ``at_least``."""
    theirs, ours = Side("torch.fx"), Side("fxlib")
    for side in (theirs, ours):
        scenario(side)
    for number, (expected, found) in enumerate(zip(theirs.reports, ours.reports, strict=False)):
        assert found == expected, f"report {number}"
    assert len(ours.reports) == len(theirs.reports) >= at_least
