"""Runs one job in its process, from the first message to the end of the process."""

from __future__ import annotations

import gc
import os

from fxlens.ipc import temporary
from fxlens.ipc.protocol import Json

from . import isolation, job, kept, warmup


def run_job(
    read_fd: int,
    write_fd: int,
    output_fd: int,
    stacks_fd: int,
    *,
    warm: bool = False,
    hello: Json | None = None,
    folder: str = "",
    guarded: bool = False,
) -> None:
    """Takes one job from the channel, runs it in this process, and ends the process.

    ``folder`` has its temporary files, if the process itself must remove them when the server ends. During a job, that
    is the case only if it is not ``guarded``."""

    channel = isolation.Channel(read_fd, write_fd, stacks_fd)
    isolation.redirect_standard_streams(output_fd)
    for fd in {read_fd, write_fd, output_fd, stacks_fd} - {0, 1, 2}:
        os.close(fd)
    isolation.no_core_files()
    if hello is not None:
        channel.send({"hello": hello})
    if warm:
        warmup.run()
    message = channel.receive()
    while message is not None and "before" in message:
        kept.get_ready(message["before"])
        message = channel.receive()
    if message is None:
        temporary.remove(temporary.ours(folder))
        isolation.finish()
        return
    temporary.renew()
    if hello is not None and not guarded:
        channel.watch_for_end(lambda: temporary.remove(temporary.ours(folder)))
    isolation.report_faults(channel.dump_fd)
    # A job is short and its process ends with it, so garbage collection would be wasted.
    gc.set_threshold(100_000, 20, 20)
    job.run(message, channel)
    isolation.finish()
