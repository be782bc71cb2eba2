"""The YAML that configurations are written in, as plain data: block and flow collections, quoted and block texts,
anchors and merge keys.  Numbers as PyTorch's users mean them: ``1e-4`` is one.

A reader of our own, since the usual one is compiled and cannot travel in the editor's extension.  Tags are passed over
(``!new:models.Net`` becomes a ``_target_``); of several documents the first is read.  Complex keys (``? …``) are not
known.
"""

from __future__ import annotations

import re
from typing import Any

_INT = re.compile(r"[-+]?(0|[1-9][\d_]*)$")
_HEX = re.compile(r"[-+]?0x[\da-fA-F_]+$")
_OCTAL = re.compile(r"[-+]?0o?[0-7_]+$")
_FLOAT = re.compile(r"[-+]?(\d[\d_]*\.[\d_]*|\.\d[\d_]*|\d[\d_]*(?=[eE]))([eE][-+]?\d+)?$")
_SPECIAL = {"~": None, "null": None, "Null": None, "NULL": None, "": None}
_SPECIAL.update({".inf": float("inf"), "-.inf": float("-inf"), "+.inf": float("inf"), ".nan": float("nan")})
for _word, _truth in (("true", True), ("yes", True), ("on", True), ("false", False), ("no", False), ("off", False)):
    _SPECIAL.update({_word: _truth, _word.capitalize(): _truth, _word.upper(): _truth})
_PROPERTY = re.compile(r"(?:&(?P<anchor>[^\s,\[\]{}]+)|!(?P<tag>[^\s,\[\]{}]*))(?:\s+|$)")
_BLOCK = re.compile(r"([|>])([-+]?)(\d?)([-+]?)\s*(#.*)?$")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\", '"': '"', "/": "/", " ": " ", "e": "\x1b", "b": "\b"}
_MOST_DEPTH = 60


class CannotRead(ValueError):
    """The text is no YAML, or of a kind that is not known here."""


def read(text: str) -> Any:
    """The data of the first document.  Raises CannotRead."""
    lines = []
    for line in text.replace("\t", "    ").splitlines():
        if line.startswith(("---", "...")) and line[3:4] in ("", " "):
            if any(each.strip() and not each.lstrip().startswith(("#", "%")) for each in lines):
                break
            lines = [f"   {line[3:]}"]
            continue
        lines.append("" if line.startswith("%") else line)
    reader = _Reader(lines)
    try:
        found = reader.node(0, 0)
    except (IndexError, RecursionError) as error:
        raise CannotRead(str(error)) from error
    if reader.indent() is not None:
        raise CannotRead(f"line {reader.at + 1}")
    return found


class _Reader:
    """Reads lines from ``at`` on."""

    def __init__(self, lines: list[str]) -> None:
        self.lines, self.at = lines, 0
        self.anchors: dict[str, Any] = {}

    def indent(self) -> int | None:
        """How far the next line with something on it is indented; None at the end."""
        while self.at < len(self.lines):
            line = self.lines[self.at]
            bare = line.lstrip(" ")
            if bare and bare[0] != "#":
                return len(line) - len(bare)
            self.at += 1
        return None

    def node(self, least: int, depth: int) -> Any:
        """The collection or scalar that begins on the next line, indented by ``least`` at least."""
        indent = self.indent()
        if indent is None or indent < least:
            return None
        if depth > _MOST_DEPTH:
            raise CannotRead("too deep")
        text = self.lines[self.at][indent:]
        if text == "-" or text.startswith("- "):
            return self._sequence(indent, depth)
        if _split(text) is not None:
            return self._mapping(indent, depth)
        self.at += 1
        return self._value(text, least - 1, depth)

    def _sequence(self, indent: int, depth: int) -> list[Any]:
        found = []
        while self.indent() == indent:
            line = self.lines[self.at]
            text = line[indent:]
            if text != "-" and not text.startswith("- "):
                break
            rest = text[1:].lstrip(" ")
            start = len(line) - len(rest)
            if not rest or rest.startswith("#"):
                self.at += 1
                found.append(self.node(indent + 1, depth + 1))
            elif rest == "-" or rest.startswith("- ") or _split(rest) is not None:
                # The item is a collection that begins behind the dash.
                self.lines[self.at] = " " * start + rest
                found.append(self.node(start, depth + 1))
            else:
                self.at += 1
                found.append(self._value(rest, indent, depth))
        return found

    def _mapping(self, indent: int, depth: int) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        merged: list[Any] = []
        while self.indent() == indent:
            pair = _split(self.lines[self.at][indent:])
            if pair is None:
                raise CannotRead(f"line {self.at + 1}")
            self.at += 1
            key = _scalar(pair[0]) if pair[0][:1] not in "'\"" else self._quoted(pair[0])[0]
            value = self._value(pair[1], indent, depth, in_mapping=True)
            if key == "<<":
                merged += value if isinstance(value, list) else [value]
                continue
            found[key] = value
        if (after := self.indent()) is not None and after > indent:
            raise CannotRead(f"line {self.at + 1}")
        for each in merged:
            if isinstance(each, dict):
                found = {**each, **found}
        return found

    def _value(self, text: str, indent: int, depth: int, in_mapping: bool = False) -> Any:
        """The value that begins with ``text`` at the end of a line, in a collection that is indented by ``indent``."""
        anchor = tag = None
        while match := _PROPERTY.match(text):
            anchor, tag = match["anchor"] or anchor, match["tag"] if match["tag"] is not None else tag
            text = text[match.end() :]
        if not text or text.startswith("#"):
            found = self._below(indent, depth, in_mapping)
        elif text[0] == "*":
            found = self.anchors.get(_uncommented(text)[1:])
        elif match := _BLOCK.match(text):
            found = self._block(match, indent)
        elif text[0] in "[{":
            found = self._flow(text)
        elif text[0] in "'\"":
            found = self._quoted(text)[0]
        else:
            found = _scalar(self._plain(text, indent))
        if tag is not None and tag.startswith("new:"):
            found = {"_target_": tag[4:], **(found if isinstance(found, dict) else {})}
        elif tag == "!str":
            found = "" if found is None else str(found)
        elif tag == "!float" and isinstance(found, int):
            found = float(found)
        if anchor is not None:
            self.anchors[anchor] = found
        return found

    def _below(self, indent: int, depth: int, in_mapping: bool) -> Any:
        after = self.indent()
        if after is None or after < indent:
            return None
        if after == indent:
            # The items of a list may stand under its key.
            text = self.lines[self.at][after:]
            is_list = in_mapping and (text == "-" or text.startswith("- "))
            return self._sequence(indent, depth + 1) if is_list else None
        return self.node(indent + 1, depth + 1)

    # ---- scalars

    def _plain(self, text: str, indent: int) -> str:
        parts = [_uncommented(text)]
        commented = len(parts[0]) != len(text.rstrip())
        while not commented and (after := self.indent()) is not None and after > indent:
            line = self.lines[self.at][after:]
            if _split(line) is not None:
                raise CannotRead(f"line {self.at + 1}")
            parts.append(_uncommented(line))
            self.at += 1
        return " ".join(parts)

    def _block(self, match: re.Match[str], indent: int) -> str:
        fold, chomp = match[1] == ">", match[2] or match[4]
        raw: list[str] = []
        inner = indent + int(match[3]) if match[3] else None
        while self.at < len(self.lines):
            line = self.lines[self.at]
            bare = line.lstrip(" ")
            if bare:
                at = len(line) - len(bare)
                inner = at if inner is None and at > indent else inner
                if inner is None or at < inner:
                    break
            raw.append(line[inner or 0 :] if bare else "")
            self.at += 1
        while raw and not raw[-1]:
            raw.pop()
        text = _folded(raw) if fold else "\n".join(raw)
        return text if chomp == "-" or not text else text + "\n"

    def _quoted(self, text: str) -> tuple[str, str]:
        """A quoted text, which may go on over lines, and what follows it."""
        quote, made, at = text[0], [], 1
        while True:
            if at >= len(text):
                text = text.rstrip() + " " + self.lines[self.at].strip()
                self.at += 1
                continue
            char = text[at]
            if char == "\\" and quote == '"' and at + 1 < len(text):
                code = text[at + 1]
                width = {"x": 2, "u": 4, "U": 8}.get(code)
                if width:
                    made.append(chr(int(text[at + 2 : at + 2 + width], 16)))
                    at += 2 + width
                else:
                    made.append(_ESCAPES.get(code, code))
                    at += 2
            elif char == quote == "'" and text[at + 1 : at + 2] == "'":
                made.append("'")
                at += 2
            elif char == quote:
                return "".join(made), text[at + 1 :]
            else:
                made.append(char)
                at += 1

    # ---- flow collections

    def _flow(self, text: str) -> Any:
        self.rest = _uncommented(text)
        found = self._flow_node(0)
        if self.rest.strip() and not self.rest.lstrip().startswith("#"):
            raise CannotRead(f"line {self.at}")
        return found

    def _skip(self) -> str:
        """The next character of a flow collection, which may be on a later line."""
        self.rest = self.rest.lstrip()
        while not self.rest:
            self.rest = _uncommented(self.lines[self.at].strip())
            self.at += 1
        return self.rest[0]

    def _flow_node(self, depth: int) -> Any:
        if depth > _MOST_DEPTH:
            raise CannotRead("too deep")
        char = self._skip()
        while match := _PROPERTY.match(self.rest):
            self.rest = self.rest[match.end() :]
            char = self._skip()
        if char == "[":
            return self._flow_items("]", depth)
        if char == "{":
            return dict(self._flow_items("}", depth))
        if char in "'\"":
            text, self.rest = self._quoted(self.rest)
            return text
        end = re.search(r",|\]|\}|:(?=\s|$|[\[{,\]}])", self.rest)
        text = self.rest[: end.start()] if end else self.rest
        self.rest = self.rest[len(text) :]
        text = text.strip()
        return self.anchors.get(text[1:]) if text.startswith("*") else _scalar(text)

    def _flow_items(self, closing: str, depth: int) -> list[Any]:
        self.rest = self.rest[1:]
        found: list[Any] = []
        while self._skip() != closing:
            item = self._flow_node(depth + 1)
            if self._skip() == ":":
                self.rest = self.rest[1:]
                value = None if self._skip() in ",}]" else self._flow_node(depth + 1)
                if isinstance(item, (dict, list)):
                    raise CannotRead("a collection as a key")
                found.append((item, value) if closing == "}" else {item: value})
            else:
                found.append((item, None) if closing == "}" else item)
            if self._skip() == ",":
                self.rest = self.rest[1:]
            elif self.rest[0] != closing:
                raise CannotRead(f"line {self.at}")
        self.rest = self.rest[1:]
        return found


def _split(text: str) -> tuple[str, str] | None:
    """``key: value`` as its two parts; None where the line is no item of a mapping."""
    if text[:1] in "'\"":
        match = re.match(r"""("(?:[^"\\]|\\.)*"|'(?:[^']|'')*')\s*:(?:\s+|$)""", text)
        return (match[1], text[match.end() :].strip()) if match else None
    if text[:1] in "[{#&*!|>%@`" and not re.match(r"(?:&\S+\s+)?\*?[\w.]+\s*:\s", text):
        return None
    at = 0
    while (at := text.find(":", at)) >= 0:
        before, after = text[:at], text[at + 1 : at + 2]
        if " #" in before:
            return None
        if after in ("", " "):
            return before.strip(), text[at + 1 :].strip()
        at += 1
    return None


def _uncommented(text: str) -> str:
    """The text without a comment at its end; ``#`` in quotes is none."""
    if "#" not in text:
        return text.rstrip()
    quote = ""
    for at, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"" and (at == 0 or text[at - 1] in " ,[{:"):
            quote = char
        elif char == "#" and (at == 0 or text[at - 1] == " "):
            return text[:at].rstrip()
    return text.rstrip()


def _folded(lines: list[str]) -> str:
    made = ""
    for at, line in enumerate(lines):
        if at == 0:
            made = line
        elif not line:
            made += "\n"
        elif lines[at - 1] and not line.startswith(" ") and not lines[at - 1].startswith(" "):
            made += " " + line
        else:
            made += line if made.endswith("\n") and not line.startswith(" ") else "\n" + line
    return made


def _scalar(text: str) -> Any:
    if text in _SPECIAL:
        return _SPECIAL[text]
    first = text[0]
    if first.isdigit() or first in "+-.":
        if _INT.match(text):
            return int(text.replace("_", ""))
        if _FLOAT.match(text):
            return float(text.replace("_", ""))
        if _HEX.match(text):
            return int(text.replace("_", ""), 16)
        if _OCTAL.match(text):
            return int(text.replace("_", "").replace("o", ""), 8)
    return text
