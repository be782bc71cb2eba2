"""The costs of nodes, as numbers and text."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

from fxlens.record import Node


def parameters(nodes: Iterable[Node]) -> int:
    """Parameters of the modules that these nodes call; each module counts once."""
    return sum({node["target"]: node["params"] for node in nodes if node["op"] == "call_module"}.values())


def flops(nodes: Iterable[Node]) -> int | None:
    """Floating-point operations of these nodes, or None if none is known."""
    known = [node["flops"] for node in nodes if node["flops"] is not None]
    return sum(known) if known else None


def traffic(node: Node, nodes: Mapping[str, Node]) -> int | None:
    """Bytes that a node reads and writes: its tensors, and its parameters as if they had its dtype."""
    sizes = [_bytes(each) for each in (node, *(nodes[name] for name in node["inputs"] if name in nodes))]
    if sizes[0] is None:
        return None
    return sum(size for size in sizes if size is not None) + node["params"] * _itemsize(node)


def _bytes(node: Node) -> int | None:
    sizes = [size for size in node["shape"] or () if isinstance(size, int)]
    if node["shape"] is None or len(sizes) < len(node["shape"]):
        return None
    return math.prod(sizes) * _itemsize(node)


def _itemsize(node: Node) -> int:
    bits = re.search(r"\d+", node["dtype"] or "")
    return max(int(bits[0]) // 8, 1) if bits else 1


def predicted(nodes: Sequence[Node]) -> str:
    """``about 12.3 µs on A100``: the minimum by its data sheet plus kernel launches; empty if no device is set."""
    known = [each["predicted"] for each in nodes if each["predicted"] is not None]
    if not known:
        return ""
    seconds = sum(each["seconds"] for each in known)
    time = f"{1000 * seconds:.3g} ms" if seconds >= 1e-3 else f"{1e6 * seconds:.3g} µs"
    return f"about {time} on {known[0]['device']}"


def amount(value: int, unit: str) -> str:
    """``236 MFLOPs``: four significant digits at most, with the prefix of the SI."""
    for power, prefix in ((12, "T"), (9, "G"), (6, "M"), (3, "k")):
        if abs(value) >= 10**power:
            return f"{value / 10**power:.4g} {prefix}{unit}"
    return f"{value} {unit}"
