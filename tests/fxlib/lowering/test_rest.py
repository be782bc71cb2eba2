"""Samples of a benchmark are taken when the threads of the variant before sleep."""

from __future__ import annotations

import hashlib
import threading

from fxlib.benchmark import rest


def test_waits_until_other_threads_sleep():
    stop, begun = threading.Event(), threading.Event()
    data = bytes(32 << 20)

    def work() -> None:  # as a thread that spins does: at work, without the interpreter's lock
        while not stop.is_set():
            begun.set()
            hashlib.sha256(data).digest()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert begun.wait(60)
        assert not rest(0.2)
    finally:
        stop.set()
        thread.join()
    assert rest(60)
