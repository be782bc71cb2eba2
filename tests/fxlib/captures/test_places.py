"""Places are looked up once for each text of a file, and anew for another text."""

import linecache

from fxlib.captures.places import Frame, expression_at, file_tree
from fxlib.ir.span import source_text

FILE = "/nowhere/model.py"


def write(text):
    linecache.cache[FILE] = (len(text), None, text.splitlines(keepends=True), FILE)


def test_places_follow_the_text():
    write("y = (x + 1) * 2\n")
    first, tree = expression_at(Frame(FILE, 1, 5, 10)), file_tree(FILE)
    assert source_text(first) == "x + 1"
    assert expression_at(Frame(FILE, 1, 5, 10)) is first and file_tree(FILE) is tree
    write("if not ready:\n    z = x\n")
    assert file_tree(FILE) is not tree
    assert source_text(expression_at(Frame(FILE, 1))) == "ready"


def test_a_statement_that_torch_gives_is_found_at_what_it_asks():
    write("for row in rows:\n    if row:\n        keep(row)\n")
    assert source_text(expression_at(Frame(FILE, 1, 0, 17))) == "rows"


def test_a_file_that_does_not_parse_has_places_too():
    write("y = (x\n")
    assert file_tree(FILE) is None
    assert expression_at(Frame(FILE, 1, 4, 6))[1:] == (1, 4, 1, 6)
