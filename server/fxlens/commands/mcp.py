"""``fxlens mcp``: a server of the Model Context Protocol on standard input and output."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys

from fxlens.host.launch import Launch, find_python
from fxlens.host.pool import Pool

from . import ending, options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--folder", default=".", metavar="DIR", help="the workspace (default: the current folder)")
    parser.add_argument(
        "--trust",
        action="store_true",
        help="run the models of the folder; without it files are only read, and findings come from the text alone",
    )
    options.add_worker_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    try:
        from fxlens.mcp import tools
    except ImportError as error:
        print(f"fxlens: the MCP SDK is missing ({error}): pip install 'fxlens[mcp]'", file=sys.stderr)
        return 2
    from fxlens.mcp.asking import Asking, Folder

    folder = os.path.abspath(arguments.folder)
    if not os.path.isdir(folder):
        print(f"fxlens: {arguments.folder}: no such folder", file=sys.stderr)
        return 2

    async def serve() -> None:
        pool = Pool(Launch(find_python(arguments.python, folder), folder, arguments.worker))
        to_trust = "Start fxlens mcp with --trust."
        known = Folder(folder)
        asking = Asking(known, pool, arguments.trust, to_trust, options.limits(arguments))
        warming = asyncio.create_task(asking.warm())
        try:
            await tools.serve(asking)
        finally:
            warming.cancel()
            await known.close()
            await pool.close()

    ending.at_once()
    asyncio.run(serve())
    return 0
