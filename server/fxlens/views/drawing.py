"""Draws one target of a record as Graphviz DOT: modules as clusters that collapse, repeated blocks as one box.

Plain functions on plain data. Graphviz does the layout elsewhere; the page's style sheet adds colours, by the ``id``
and ``class`` of each element.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from fxlens.answers import Group
from fxlens.record import Node, Target, tensor_text

from . import operators

#: A drawing with more elements than this starts with modules collapsed.
LIMIT = 120
#: This many equal siblings in a row become one box.
REPEATS = 3
#: A drawing with more boxes than this is not made; everything is collapsed instead.
MOST = 3000
#: A module with more entries than this shows them in parts of this size, each a box that can be expanded.
_WIDE, _PART = 1000, 500


@dataclass
class Drawing:
    """``dot``, and the mapping from the drawing to the graph.

    ``elements`` maps the id of each drawn box to the names of its nodes; ``groups`` maps the id of each module or run
    of modules that can be opened or closed to its title and state; ``expanded`` are the ids of the open ones.
    ``collapsed`` says that more was to be expanded than can be drawn.
    """

    dot: str
    expanded: list[str]
    elements: dict[str, list[str]]
    groups: dict[str, Group]
    collapsed: bool = False


@dataclass
class _Group:
    """A module, a run of equal sibling modules, or a part of a wide module's entries."""

    id: str
    title: str
    kind: str
    entries: list[Node | _Group] = field(default_factory=list)

    def nodes(self) -> Iterator[Node]:
        for entry in self.entries:
            if isinstance(entry, _Group):
                yield from entry.nodes()
            else:
                yield entry

    def groups(self) -> Iterator[_Group]:
        for entry in self.entries:
            if isinstance(entry, _Group):
                yield entry
                yield from entry.groups()


def draw(
    target: Target, expanded: Iterable[str] | None = None, *, parameters: bool = True, direction: str = "TB"
) -> Drawing:
    """The drawing of ``target``.

    ``expanded`` names the groups that are open; ``None`` opens, from the root down, as many as ``LIMIT`` elements
    allow. ``parameters`` false leaves out ``get_attr`` nodes. ``direction`` is Graphviz's ``rankdir``. If that would be
    more than ``MOST`` boxes, all groups are closed.
    """
    nodes = [node for node in target["nodes"] if parameters or node["op"] != "get_attr"]
    root = _tree(nodes, target["modules"])
    opened = _automatic(root) if expanded is None else {each.id for each in root.groups()} & set(expanded)
    collapsed = _boxes(root, opened) > MOST
    if collapsed:
        opened = set()
    marked = {
        mark: {each["node"] for each in found if each["node"]}
        for mark, found in (("problem", target["findings"]), ("pytorch", target["lowering"]))
    }
    drawing = _Writer(root, opened, marked, direction).write()
    return replace(drawing, collapsed=collapsed)


def _tree(nodes: list[Node], types: Mapping[str, str]) -> _Group:
    root = _Group("m:", "", types.get("", ""))
    modules = {"": root}

    def module(path: str) -> _Group:
        found = modules.get(path)
        if found is None:
            parent, _, name = path.rpartition(".")
            found = modules[path] = _Group(f"m:{path}", name, types.get(path, ""))
            module(parent).entries.append(found)
        return found

    for node in nodes:
        path = node["module_path"]
        # A module called as a whole is a box of its parent; nodes inside a module belong to that module.
        owner = path.rpartition(".")[0] if node["op"] == "call_module" else path
        module(owner if node["op"] not in ("placeholder", "output") else "").entries.append(node)
    users: dict[str, list[str]] = {}
    for node in nodes:
        for name in node["inputs"]:
            users.setdefault(name, []).append(node["name"])
    _fold_runs(root, users)
    _fold_sizes(root, operators.of_sizes(nodes))
    _fold_parts(root)
    return root


def _fold_parts(group: _Group) -> None:
    """Puts the entries of wide modules into groups, since they are too many to read side by side."""
    for entry in group.entries:
        if isinstance(entry, _Group):
            _fold_parts(entry)
    if len(group.entries) > _WIDE:
        parts = [group.entries[at : at + _PART] for at in range(0, len(group.entries), _PART)]
        group.entries = [
            _Group(f"p:{group.id[2:]}:{number}", f"{_name(part[0])} … {_name(part[-1])}", "", part)
            for number, part in enumerate(parts)
        ]


def _name(entry: Node | _Group) -> str:
    return entry.title if isinstance(entry, _Group) else entry["name"]


def _boxes(group: _Group, opened: Container[str]) -> int:
    """The number of drawn boxes."""
    return sum(
        _boxes(entry, opened) if isinstance(entry, _Group) and entry.id in opened else 1 for entry in group.entries
    )


def _fold_sizes(group: _Group, of_sizes: set[str]) -> None:
    """Puts each module's arithmetic on sizes into one small box."""
    sizes = [entry for entry in group.entries if not isinstance(entry, _Group) and entry["name"] in of_sizes]
    for entry in group.entries:
        if isinstance(entry, _Group):
            _fold_sizes(entry, of_sizes)
    if len(sizes) > 1:
        at = group.entries.index(sizes[0])
        folded = set(map(id, sizes))
        group.entries = [entry for entry in group.entries if id(entry) not in folded]
        group.entries.insert(at, _Group(f"s:{group.id[2:]}", "sizes", "", list(sizes)))


def _fold_runs(group: _Group, users: Mapping[str, list[str]]) -> None:
    """Puts consecutive sibling modules of equal content under one group, if they form a chain: a value that skips one
    of them, as in a U-Net, would otherwise be hidden."""
    for entry in group.entries:
        if isinstance(entry, _Group):
            _fold_runs(entry, users)
    folded: list[Node | _Group] = []
    run: list[_Group] = []
    before: tuple[object, ...] | None = None

    def close() -> None:
        if len(run) >= REPEATS and _is_chain(run, users):
            first, last = run[0].id[2:], run[-1].title
            title = f"{run[0].title} … {last}"
            folded.append(_Group(f"r:{first}…{last}", title, f"{run[0].kind} ×{len(run)}".strip(), list(run)))
        else:
            folded.extend(run)
        run.clear()

    for entry in group.entries:
        if not isinstance(entry, _Group):
            close()
            before = None
            folded.append(entry)
            continue
        signature = _signature(entry)
        if signature != before:
            close()
        run.append(entry)
        before = signature
    close()
    group.entries = folded


def _is_chain(run: list[_Group], users: Mapping[str, list[str]]) -> bool:
    """Whether values go from each module only to the next one, except values that all of them get."""
    names = [{node["name"] for node in each.nodes()} for each in run]
    from_outside = []
    for at, own in enumerate(names):
        before = names[at - 1] if at else set()
        given = {name for node in run[at].nodes() for name in node["inputs"]} - own - before
        from_outside.append(given)
        used = {user for name in own for user in users.get(name, ())} - own
        if at + 1 < len(run) and not used <= names[at + 1]:
            return False
    common = from_outside[1]
    return all(each == common for each in from_outside[1:]) and not any(common & each for each in names)


def _signature(group: _Group) -> tuple[object, ...]:
    prefix = group.id[2:] + "."
    return (
        group.kind,
        *((node["op"], node["module_type"], node["target"].removeprefix(prefix)) for node in group.nodes()),
    )


def _automatic(root: _Group) -> set[str]:
    """The groups to expand initially: level by level, while the drawing stays readable."""
    opened: set[str] = set()
    shown = len(root.entries)
    level = [entry for entry in root.entries if isinstance(entry, _Group)]
    total = sum(1 for _ in root.nodes())
    while level:
        following: list[_Group] = []
        for group in level:
            cost = len(group.entries) - 1
            # Repeated blocks are clearer as one box, unless the graph is small.
            if group.id.startswith("s:"):
                continue
            if shown + cost > LIMIT or (group.id.startswith("r:") and total > LIMIT // 2):
                continue
            shown += cost
            opened.add(group.id)
            following += [entry for entry in group.entries if isinstance(entry, _Group)]
        level = following
    return opened


class _Writer:
    """One pass over the tree: boxes and clusters, then the edges between drawn boxes."""

    def __init__(self, root: _Group, opened: set[str], marked: Mapping[str, set[str]], direction: str) -> None:
        self.root, self.opened, self.marked = root, opened, marked
        self.lines = [
            "digraph fxlens {",
            f"  rankdir={'LR' if direction == 'LR' else 'TB'}; ranksep=0.35; nodesep=0.25; compound=true;",
            # For alternating modules, such as the stages of two lists: each box is below its inputs, also across
            # modules.
            "  newrank=true;",
            '  node [shape=box, style="rounded,filled", margin="0.2,0.06", height=0.3];',
            '  node [fontname="Helvetica", fontsize=11];',
            '  graph [fontname="Helvetica", fontsize=10, style=rounded, labeljust=l];',
            "  edge [arrowsize=0.6];",
        ]
        self.elements: dict[str, list[str]] = {}
        self.home: dict[str, str] = {}
        self.groups: dict[str, Group] = {}

    def write(self) -> Drawing:
        self._entries(self.root, "  ")
        self._edges()
        self.lines.append("}")
        return Drawing("\n".join(self.lines) + "\n", sorted(self.opened), self.elements, self.groups)

    def _entries(self, group: _Group, indent: str) -> None:
        for entry in group.entries:
            if not isinstance(entry, _Group):
                self._node(entry, indent)
                continue
            opened = entry.id in self.opened
            members = [node["name"] for node in entry.nodes()]
            title = f"{entry.title}: {entry.kind}" if entry.kind else entry.title
            self.groups[entry.id] = {"title": title, "open": opened, "nodes": len(members)}
            if opened:
                self.lines.append(f"{indent}subgraph {_quote('cluster_' + entry.id)} {{")
                kind = "run" if entry.id.startswith(("r:", "p:")) else "module"
                self.lines.append(f"{indent}  id={_quote(entry.id)}; class={_quote(kind)}; label={_quote(title)};")
                # As an attribute of the whole graph this would be the page's margin in inches.
                self.lines.append(f"{indent}  margin=10;")
                self._entries(entry, indent + "  ")
                self.lines.append(f"{indent}}}")
            else:
                self._closed(entry, members, indent)

    def _closed(self, group: _Group, members: list[str], indent: str) -> None:
        last = list(group.nodes())[-1]
        count = f"{len(members)} {'node' if len(members) == 1 else 'nodes'}"
        label = [group.title, group.kind, " · ".join(part for part in (count, value_text(last)) if part)]
        if group.id.startswith("s:"):
            more = 'fontsize=9, margin="0.08,0.02", height=0.2'
            self._box(group.id, [group.title], f"group sizes{self._marks(members)}", members, indent, more)
            return
        self._box(group.id, label, f"group{self._marks(members)}", members, indent, "peripheries=2")

    def _node(self, node: Node, indent: str) -> None:
        kind = " ".join(filter(None, [node["op"], operators.kind(node)])) + self._marks([node["name"]])
        self._box(f"n:{node['name']}", node_label(node), kind, [node["name"]], indent)

    def _marks(self, members: list[str]) -> str:
        """`` problem`` if one of them has one, `` pytorch`` if one stays in PyTorch when the model is lowered."""
        return "".join(f" {mark}" for mark, names in self.marked.items() if names.intersection(members))

    def _box(self, id: str, label: list[str], kind: str, members: list[str], indent: str, more: str = "") -> None:
        text = _quote("\n".join(line for line in label if line))
        extra = f", {more}" if more else ""
        self.lines.append(f"{indent}{_quote(id)} [id={_quote(id)}, class={_quote(kind)}, label={text}{extra}];")
        self.elements[id] = members
        for name in members:
            self.home[name] = id

    def _edges(self) -> None:
        drawn: set[tuple[str, str]] = set()
        for node in self.root.nodes():
            for name in node["inputs"]:
                edge = (self.home.get(name, ""), self.home[node["name"]])
                if not edge[0] or edge[0] == edge[1] or edge in drawn:
                    continue
                drawn.add(edge)
                # An edge that only carries a size is not a flow of values.
                small = any(end.startswith("s:") for end in edge)
                kind = 'class="edge sizes", style=dashed' if small else 'class="edge"'
                self.lines.append(f"  {_quote(edge[0])} -> {_quote(edge[1])} [{kind}];")


def node_label(node: Node) -> list[str]:
    """The lines in a node's box: its callee, the path of a module, its settings, and its value."""
    if node["op"] == "call_module":
        return [operators.called(node), node["target"], operators.settings(node), value_text(node)]
    return [node["target"] if node["op"] == "get_attr" else operators.called(node), value_text(node)]


def value_text(node: Node) -> str:
    """``f32[1, 64, 56, 56]``, ``(f32[2, 8], i64[2, 8])``, or empty if it is not a tensor or unknown."""
    shape = node["symbolic"] or node["shape"]
    return node["structure"] if shape is None else tensor_text(shape, node["dtype"])


_CONTROL = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\ud800-\\udfff\\ufffe\\uffff]")


def _quote(text: str) -> str:
    """A DOT string of the literal text: Graphviz's escapes have no effect in it, except line breaks."""
    # Control characters cannot be in the picture, since XML cannot represent them.
    shown = _CONTROL.sub("\ufffd", text)
    escaped = shown.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
