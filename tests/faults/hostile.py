"""Texts that try to break the reader of a file: Python's parser, our analysis of the text, positions."""

from __future__ import annotations

DEEP = {
    "parentheses": "(" * 5000 + ")" * 5000,
    "brackets in brackets": "x = " + "[" * 150 + "]" * 150,
    "unary minus": "x = " + "-" * 20000 + "1",
    "not": "x = " + "not " * 20000 + "1",
    "sum": "x = " + "1+" * 20000 + "1",
    "attributes": "x = a" + ".b" * 20000,
    "calls": "x = a" + "()" * 20000,
    "subscripts": "x = a" + "[0]" * 20000,
    "conditional": "x = " + "1 if 1 else " * 3000 + "1",
    "lambdas": "x = " + "lambda: " * 3000 + "1",
    "else if": "if 1: pass\n" + "elif 1: pass\n" * 3000,
    "indentation": "".join(" " * n + "if 1:\n" for n in range(99)) + " " * 99 + "pass",
    "too much indentation": "".join(" " * n + "if 1:\n" for n in range(500)),
    "f-strings": "x = " + "f'{" * 200,
    "long line": "x = '" + "a" * 1_000_000 + "'",
    "great number": "x = " + "9" * 100_000,
    "power": "x = 9**9**9**9",
    "null byte": "x = 1\0",
    "lone surrogate": "x = '\ud800'\nclass \udfff",
    "byte order mark": "\ufeffimport torch",
    "right to left": "x = '\u202e' # \u2066",
    "unknown encoding": "# -*- coding: no-such -*-\nx = 1",
    "wrong encoding": "# -*- coding: utf-16 -*-\nx = 'é'",
    "line ends": "x = 1\r\ry = (\x0c\u2028\x85\r\n",
    "names of many characters": "ﬁ = ª = 1\nclass " + "A" * 50_000 + ": pass",
}
