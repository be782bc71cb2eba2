"""The questions as tools of the Model Context Protocol.  Needs its SDK: ``fxlens[mcp]``."""

from __future__ import annotations

import io
import json
import os
from typing import Any

import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)

from fxlens import __version__

from .asking import Asking
from .questions import INSTRUCTIONS, NO_ANSWER, QUESTIONS, question


async def serve(asking: Asking) -> None:
    """Answers on standard input and output until it is closed."""
    hints = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
    tools = [
        Tool(name=each.name, description=each.description, input_schema=each.schema(), annotations=hints)
        for each in QUESTIONS.values()
    ]

    async def listed(context: Any, params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=tools)

    async def called(context: Any, params: CallToolRequestParams) -> CallToolResult:
        try:
            text, failed = await question(params.name).answer(asking, params.arguments or {}), False
        except NO_ANSWER as error:
            text, failed = str(error).encode("utf-8", "backslashreplace").decode(), True
        return CallToolResult(content=[TextContent(text=text)], is_error=failed)

    server = Server("fxlens", version=__version__, instructions=INSTRUCTIONS, on_list_tools=listed, on_call_tool=called)
    async with stdio_server(anyio.wrap_file(_taken_input())) as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


class _Lines(io.TextIOWrapper):
    """Messages with lone surrogates replaced, since the SDK would drop them."""

    def readline(self, size: int = -1) -> str:  # type: ignore[override]
        line = super().readline(size)
        if "\\ud" not in line.lower():
            return line
        try:
            message = json.dumps(json.loads(line), ensure_ascii=False)
        except (ValueError, RecursionError):
            return line
        return message.encode("utf-8", "replace").decode() + "\n"


def _taken_input() -> _Lines:
    """Standard input, taken over so that nothing else can read from it."""
    own = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return _Lines(open(own, "rb", closefd=False), encoding="utf-8", errors="replace")
