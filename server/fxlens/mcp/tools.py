"""The tools, as the Model Context Protocol has them.  Needs its SDK: ``fxlens[mcp]``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import Field

from fxlens import __version__
from fxlens.checking.files import CannotCheck
from fxlens.host.outcome import Failed

from . import answers
from .asking import Asking, NotTrusted

_INSTRUCTIONS = """\
Says whether PyTorch models (nn.Module classes) can be captured as graphs, where they cannot, and what to change. \
Every answer is computed from the file as it is now, or from the text given, and names its version. \
Nothing is ever changed on disk. Lines count from 0, as in LSP."""

File = Annotated[str, Field(description="Path of a Python file, from the folder that the server was started in.")]
Text = Annotated[str | None, Field(description="The file's text, if it is not saved yet.")]
Model = Annotated[
    str | None, Field(description="Name of a class in the file. Without it, the last class that has a graph.")
]
Line = Annotated[int | None, Field(description="A line of the file, from 0.")]
Start = Annotated[int, Field(description="Skip this many entries: to read on where an answer says `omitted`.", ge=0)]
Bytes = Annotated[int, Field(description="Maximum size of the answer, in bytes.", ge=500, le=1_000_000)]


def serve(asking: Asking) -> MCPServer:
    """A server whose tools ask `asking`."""
    server = MCPServer("fxlens", version=__version__, instructions=_INSTRUCTIONS, log_level="WARNING")

    def tool(function: Callable[..., Awaitable[str]]) -> None:
        @wraps(function)
        async def answered(*args: Any, **kwargs: Any) -> str:
            try:
                return await function(*args, **kwargs)
            except (CannotCheck, NotTrusted, Failed) as error:
                raise ToolError(str(error)) from None

        hints = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
        server.tool(annotations=hints, structured_output=False)(answered)

    @tool
    async def diagnose(
        file: File,
        text: Text = None,
        model: Annotated[str | None, Field(description="Only this class.")] = None,
        start: Start = 0,
        max_bytes: Bytes = answers.MOST_BYTES,
    ) -> str:
        """All problems that keep the models of a file from being captured as graphs, or make the graph silently wrong,
        with exact ranges. Use it after every change of a model's forward, and before proposing torch.fx, quantization
        or ONNX export for a model. Takes about a second; unlike running the code it finds all problems at once."""
        checked, version = await asking.check(file, text, read_only=True)
        return answers.fitted(version.as_dict(), answers.diagnosis(checked, model, start), max_bytes)

    @tool
    async def fix(
        file: File,
        text: Text = None,
        line: Line = None,
        code: Annotated[str | None, Field(description="Only fixes of this code, such as FX101.")] = None,
        max_bytes: Bytes = answers.MOST_BYTES,
    ) -> str:
        """Changes of source that remove problems which `diagnose` reports. Without a line: one diff of all fixes that
        were proven by tracing again and comparing results with eager. With a line: its fixes as edits, `proven` or not.
        Use it before writing a fix by hand."""
        if line is None:
            checked, version = await asking.check(file, text, fix="diff", select=(code,) if code else ())
            return answers.fitted(version.as_dict(), answers.fixed(checked, max_bytes - 600), max_bytes)
        checked, version = await asking.check(file, text, verify=True)
        return answers.fitted(version.as_dict(), answers.fixes(checked, line, code), max_bytes)

    @tool
    async def capture(
        file: File,
        text: Text = None,
        model: Model = None,
        start: Start = 0,
        max_bytes: Bytes = answers.MOST_BYTES,
    ) -> str:
        """What torch.fx, torch.export and torch.compile each do with a model: captured, graph breaks, pinned sizes or
        failure, with the exact expression of each and the captures that it stops. Use it before proposing
        torch.export, torch.compile(fullgraph=True), ONNX export or dynamic shapes. Takes seconds: torch is asked."""
        checked, version = await asking.check(file, text, captures=("fx", "export", "compile"))
        return answers.fitted(version.as_dict(), answers.captures(checked, model, start), max_bytes)

    @tool
    async def graph(
        file: File,
        text: Text = None,
        model: Model = None,
        start: Start = 0,
        max_bytes: Bytes = answers.MOST_BYTES,
    ) -> str:
        """The torch.fx graph of a model: a line for each node with target, arguments, shape and source line. Use it to
        see what a model computes, or to write a pass or a pattern for it."""
        checked, version = await asking.check(file, text)
        return answers.fitted(version.as_dict(), answers.graph(checked, model, start), max_bytes)

    @tool
    async def shapes(
        file: File,
        text: Text = None,
        model: Model = None,
        line: Line = None,
        start: Start = 0,
        max_bytes: Bytes = answers.MOST_BYTES,
    ) -> str:
        """The shape and dtype of every intermediate value of a model's forward, by source line. Use it instead of
        adding print(x.shape), and to find where sizes do not fit."""
        checked, version = await asking.check(file, text)
        return answers.fitted(version.as_dict(), answers.shapes(checked, model, line, start), max_bytes)

    @tool
    async def cost(
        file: File,
        text: Text = None,
        model: Model = None,
        device: Annotated[
            str | None, Field(description="a100, h100, …: also the least time on this device; cpu is measured.")
        ] = None,
        start: Start = 0,
        max_bytes: Bytes = answers.MOST_BYTES,
    ) -> str:
        """Operations (FLOPs), bytes, parameters and peak memory of a model, and its most expensive nodes. Use it to
        compare two versions of a model, or to find what to make faster."""
        result, version = await asking.run("estimate", file, text, model, {"device": device})
        return answers.fitted(version.as_dict(), answers.cost(result, start), max_bytes)

    @tool
    async def lower(
        file: File,
        text: Text = None,
        model: Model = None,
        engine: Annotated[str | None, Field(description="onnxruntime, openvino, …; otherwise the default.")] = None,
        precision: Annotated[str, Field(description="fp32, fp16 or bf16.")] = "fp32",
        start: Start = 0,
        max_bytes: Bytes = answers.MOST_BYTES,
    ) -> str:
        """Lowers a model to an inference engine and says which nodes it takes, which stay in PyTorch and why, and how
        far the results are from eager. Takes seconds to minutes. Use it before promising a deployment."""
        options = {"engine": engine, "precision": precision}
        result, version = await asking.run("lower", file, text, model, options)
        return answers.fitted(version.as_dict(), answers.lowered(result, start), max_bytes)

    return server
