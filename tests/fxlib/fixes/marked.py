"""Sources with a marked expression: `«` and `»` stand around what a finding would point at."""

from __future__ import annotations

from dataclasses import dataclass, field

from fxlib.diagnosis.fixes import Fix, apply_fix, propose

HEAD = "import torch\nimport torch.fx\nfrom torch import nn\n"


@dataclass(frozen=True)
class Place:
    file: str
    line: int
    column: int
    end_line: int
    end_column: int


@dataclass
class Marked:
    """What recipes read of a finding."""

    span: Place
    call_path: tuple[Place, ...] = ()
    code: str = "FX199"
    related: tuple = ()
    data: dict = field(default_factory=dict)


def net(
    body: str, head: str = HEAD, init: str = "", signature: str = "self, x: torch.Tensor", indent: str = "    "
) -> str:
    """A file with one module, `Net`; `body` and `init` are the indented-by-nothing lines of its methods."""

    def block(text: str) -> str:
        return "".join(indent * 2 + line if line.strip() else line for line in text.splitlines(keepends=True))

    start = f"{indent}def __init__(self):\n{indent * 2}super().__init__()\n{block(init)}\n" if init else ""
    return f"{head}\n\nclass Net(nn.Module):\n{start}{indent}def forward({signature}):\n{block(body)}"


def unmark(text: str, file: str) -> tuple[str, list[Place]]:
    """The text without markers, and the places that they enclosed, in order of appearance."""
    clean, stack, places = [], [], []
    line, column = 1, 0
    for i, char in enumerate(text):
        if char == "«":
            stack.append((line, column))
        elif char == "»":
            start = stack.pop()
            places.append(Place(file, *start, line, column))
        else:
            clean.append(char)
            if char == "\n" or (char == "\r" and text[i + 1 : i + 2] != "\n"):
                line, column = line + 1, 0
            else:
                column += len(char.encode())
    return "".join(clean), places


def fixes_of(
    recipe: str, text: str, file: str = "net.py", more: dict[str, str] | None = None
) -> tuple[list[Fix], dict[str, str]]:
    """The fixes that one recipe proposes for the first marked place, further places being the call path outwards."""
    files = dict(more or {})
    clean, places = unmark(text, file)
    files[file] = clean
    finding = Marked(places[0], tuple(reversed(places)))
    return propose(finding, files.get, [recipe]), files


def applied(fix: Fix, files: dict[str, str]) -> dict[str, str]:
    return {**files, **apply_fix(fix, files.get)}
