"""What a pass makes of a model: request ``fxlens/pass`` ``{uri, target, name, out?}``.

The answer is ``{target, before, after, error, nodes, refused}``, or ``{reason}``;
``vscode-extension/src/protocol/code.ts`` describes both. With ``out`` the changed model is saved as a module folder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fxlens import model_job

if TYPE_CHECKING:
    from fxlens.server import FxLensServer


def register(server: FxLensServer) -> None:
    @server.feature("fxlens/pass")
    async def preview(ls: FxLensServer, params: Any) -> dict[str, Any]:
        uri, target, name, out = (str(getattr(params, each, None) or "") for each in ("uri", "target", "name", "out"))
        document = ls.session.documents.get(uri)
        if document is None:
            return {"reason": "FX Lens has not seen this file yet."}
        if not ls.session.trusted:
            return {"reason": "The workspace is not trusted: its models are not run."}
        launch, request = ls.session.whole(document)
        options = {"pass": name, "out": out or None}
        try:
            return await model_job.run(launch, "pass", request, target or None, options, lambda text, fraction: None)
        except model_job.Failed as error:
            return {"reason": str(error)}
