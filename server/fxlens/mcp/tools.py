"""The questions as tools of the Model Context Protocol.  Needs its SDK: ``fxlens[mcp]``."""

from __future__ import annotations

from typing import Any

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
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())
