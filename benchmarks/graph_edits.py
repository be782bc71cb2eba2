"""Cost of making, editing and copying graphs: fxlib against torch.fx, in one process, interleaved, medians.

python benchmarks/graph_edits.py            # the table, then growth from 1,000 to 64,000 nodes
python benchmarks/graph_edits.py --quick    # fewer rounds, growth to 16,000

Times are the thread's own processor time, so that other load is not counted. The ratios are measured without garbage
collection; growth is shown both ways, since a collection walks every object of the process, however an operation
creates objects.
"""

import argparse
import copy
import gc
import statistics
import sys
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
import torch.fx

import fxlib

# The minimum ratio torch.fx / fxlib for each operation.
AIMS = {"create": 2.0, "deepcopy": 2.0}
EDIT_AIM = 0.5
# The limit of cost per node at the largest size over the smallest: above 1, since large graphs do not fit the caches.
GROWTH_LIMIT = 3.0


def chain(library: ModuleType, length: int) -> Any:
    """A graph of ``length`` additions in a row."""
    graph = library.Graph()
    node = graph.placeholder("x")
    for i in range(length):
        node = graph.call_function(torch.add, (node, i))
    graph.output(node)
    return graph


def create(library: ModuleType, graph: Any, length: int) -> Callable[[], Any]:
    return lambda: chain(library, length)


def deepcopy(library: ModuleType, graph: Any, length: int) -> Callable[[], Any]:
    return lambda: copy.deepcopy(graph)


def iterate(library: ModuleType, graph: Any, length: int) -> Callable[[], Any]:
    return lambda: [node.op for node in graph.nodes]


def erase_backwards(library: ModuleType, graph: Any, length: int) -> Callable[[], Any]:
    def run() -> None:
        output = next(iter(reversed(graph.nodes)))
        output.args = (None,)
        for node in reversed(graph.nodes):
            if node.op == "call_function":
                graph.erase_node(node)

    return run


def replace_uses(library: ModuleType, graph: Any, length: int) -> Callable[[], Any]:
    x = next(iter(graph.nodes))
    calls = [node for node in graph.nodes if node.op == "call_function"]

    def run() -> None:
        for node in calls:
            node.replace_all_uses_with(x)

    return run


def insert_at_one_spot(library: ModuleType, graph: Any, length: int) -> Callable[[], Any]:
    x = next(iter(graph.nodes))
    middle = [node for node in graph.nodes if node.op == "call_function"][length // 2]

    def run() -> None:
        with graph.inserting_before(middle):
            for _ in range(length):
                graph.call_function(torch.neg, (x,))

    return run


def update_arguments(library: ModuleType, graph: Any, length: int) -> Callable[[], Any]:
    calls = [node for node in graph.nodes if node.op == "call_function"]

    def run() -> None:
        for node in calls:
            node.args = (node.args[0], 1)

    return run


def update_one_argument(library: ModuleType, graph: Any, length: int) -> Callable[[], Any]:
    calls = [node for node in graph.nodes if node.op == "call_function"]

    def run() -> None:
        for node in calls:
            node.update_arg(1, 7)

    return run


def move(library: ModuleType, graph: Any, length: int) -> Callable[[], Any]:
    x, *calls = [node for node in graph.nodes if node.op != "output"]

    def run() -> None:
        for node in calls:
            x.append(node)

    return run


def compare_order(library: ModuleType, graph: Any, length: int) -> Callable[[], Any]:
    calls = [node for node in graph.nodes if node.op == "call_function"]
    return lambda: sorted(reversed(calls))


def find(library: ModuleType, graph: Any, length: int) -> Callable[[], Any]:
    graph.find_nodes(op="call_function", target=torch.add)  # fxlib builds its table on first use
    return lambda: graph.find_nodes(op="call_function", target=torch.add)


def lint(library: ModuleType, graph: Any, length: int) -> Callable[[], Any]:
    return graph.lint


def dead_code(library: ModuleType, graph: Any, length: int) -> Callable[[], Any]:
    next(iter(reversed(graph.nodes))).args = (None,)
    return graph.eliminate_dead_code


def delete_unused_submodules(library: ModuleType, graph: Any, length: int) -> Callable[[], Any]:
    root = torch.nn.Module()
    calls = library.Graph()
    node = calls.placeholder("x")
    for i in range(length // 4):
        root.add_module(f"layer{i}", torch.nn.Identity())
        node = calls.call_module(f"layer{i}", (node,))
    calls.output(node)
    module = library.GraphModule(root, calls)
    for i in range(length // 4):
        module.add_submodule(f"unused{i}", torch.nn.Identity())
    return module.delete_all_unused_submodules


OPERATIONS = (
    create, deepcopy, iterate, erase_backwards, replace_uses, insert_at_one_spot, update_arguments, update_one_argument,
    move, compare_order, find, lint, dead_code, delete_unused_submodules,
)  # fmt: skip


def seconds(operation: Callable[..., Any], library: ModuleType, length: int, collector: bool = False) -> float:
    run = operation(library, chain(library, length), length)
    gc.collect()
    if not collector:
        gc.disable()
    start = time.thread_time()
    result = run()
    elapsed = time.thread_time() - start
    gc.enable()
    del result
    return elapsed


def compare(length: int, rounds: int) -> bool:
    print(f"{length:,} nodes, microseconds per node, medians of {rounds}")
    print(f"{'operation':26} {'torch.fx':>9} {'fxlib':>9} {'ratio':>7}  aim")
    met = True
    for operation in OPERATIONS:
        theirs, ours = [], []
        for _ in range(rounds):
            theirs.append(seconds(operation, torch.fx, length))
            ours.append(seconds(operation, fxlib, length))
        name = operation.__name__
        a, b = statistics.median(theirs), statistics.median(ours)
        aim = AIMS.get(name, EDIT_AIM)
        met = met and a / b >= aim
        per_node = 1e6 / length
        verdict = "" if a / b >= aim else "  MISSED"
        print(f"{name:26} {a * per_node:9.2f} {b * per_node:9.2f} {a / b:6.2f}x  {aim}x{verdict}")
    return met


def growth(sizes: list[int], rounds: int) -> bool:
    """Prints what one node costs at each size, with the collector off and on; returns whether it grows linearly."""
    shown = ", ".join(f"{size:,}" for size in sizes)
    print(f"\nfxlib, microseconds per node at {shown} nodes, best of {rounds}; growth is last over first")
    width = 9 * len(sizes) + 8
    print(f"{'':26} {'collector off':^{width}} {'on':^{width}}")
    met = True
    for operation in OPERATIONS:
        cells = []
        for collector in (False, True):
            costs = [
                min(seconds(operation, fxlib, size, collector) for _ in range(rounds)) / size * 1e6 for size in sizes
            ]
            cells.append(" ".join(f"{cost:8.2f}" for cost in costs) + f" {costs[-1] / costs[0]:6.1f}x")
            if not collector:
                linear = costs[-1] < GROWTH_LIMIT * costs[0]
        met = met and linear
        print(f"{operation.__name__:26} {cells[0]}  {cells[1]}{'' if linear else '  NOT LINEAR'}")
    return met


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds, smaller graphs")
    quick = parser.parse_args().quick
    met = compare(2000, 5 if quick else 15)
    met = growth([1000, 16000] if quick else [1000, 8000, 64000], 2 if quick else 3) and met
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
