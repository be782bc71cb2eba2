"""Output for a client that reads late, or not at all."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest
from fxlens.outbox import Outbox

LARGE = b"x" * (1 << 20)  # more than a pipe holds


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for fd in ends:
        try:
            os.close(fd)
        except OSError:
            continue


def read(fd: int, count: int) -> bytes:
    parts = []
    while count:
        parts.append(os.read(fd, count))
        count -= len(parts[-1])
    return b"".join(parts)


def test_all_arrives_in_order(pipe: tuple[int, int]):
    box = Outbox(pipe[1], 1 << 30, lambda: False)
    for n in range(100):
        assert box.write(b"%03d" % n) == 3
    box.write("é\ud800")
    box.flush()
    assert read(pipe[0], 300) == b"".join(b"%03d" % n for n in range(100))
    assert read(pipe[0], 8) == "é\\ud800".encode()
    box.close()


def test_writing_does_not_wait_for_the_reader(pipe: tuple[int, int]):
    box = Outbox(pipe[1], 1 << 30, lambda: False)
    for n in range(20):
        box.write(LARGE + b"%02d" % n)
    for n in range(20):
        assert read(pipe[0], len(LARGE) + 2)[-2:] == b"%02d" % n


def test_what_waits_is_bounded_and_one_large_message_is_not_refused(pipe: tuple[int, int]):
    asked = []

    def overflow() -> bool:
        asked.append(1)
        return False

    box = Outbox(pipe[1], 1 << 16, overflow)
    box.write(LARGE)
    assert not asked
    for _ in range(5):
        box.write(b"left out")
    assert len(asked) == 5
    read(pipe[0], len(LARGE))
    box.close(60)
    box.write(b"again")
    assert read(pipe[0], 5) == b"again"


def test_the_other_end_is_gone(pipe: tuple[int, int]):
    box = Outbox(pipe[1], 1 << 30, lambda: False)
    os.close(pipe[0])
    box.write(LARGE)
    box.close(60)  # there is nothing to wait for
    with pytest.raises(BrokenPipeError):
        box.write(b"x")


def test_closing_waits_for_the_reader_but_not_for_ever(pipe: tuple[int, int]):
    box = Outbox(pipe[1], 1 << 30, lambda: False)
    box.write(LARGE)
    box.close(0.01)
    reader = threading.Thread(target=read, args=(pipe[0], len(LARGE)))
    reader.start()
    box.close(60)
    reader.join()
