"""The text of a view: request ``fxlens/code`` ``{uri, target, view, now?}`` with ``view`` one of ``texts.VIEWS``.

The answer is ``{text, lines, places, version}``, where ``lines`` maps a node to its first and last line (from 0) of the
text, or ``{reason}``. With ``now`` it is made from the existing record, without waiting for a running trace.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from fxlens.answers import CodeAnswer, Refusal
from fxlens.record import Target
from fxlens.views import texts
from fxlens.views.verdicts import named

from . import params as parameters
from .large import Encoded, encoded
from .places import places

if TYPE_CHECKING:
    from fxlens.server import FxLensServer
    from fxlens.workspace.document import Document


def register(server: FxLensServer) -> None:
    @server.feature("fxlens/code")
    async def code(ls: FxLensServer, params: Any) -> Encoded | Refusal:
        asked = parameters.of(params)
        uri, name, view = (parameters.text(asked, each) for each in ("uri", "target", "view"))
        if view not in texts.VIEWS:
            return {"reason": f"There is no view {view!r}. The views are {', '.join(texts.VIEWS)}."}
        record = await ls.session.record(uri, now=asked.get("now") is True)
        document = ls.session.documents.get(uri)
        if document is None or record is None:
            return {"reason": "FX Lens has no trace of this file."}
        target = named(record, name)
        if target is None:
            return {"reason": f"This file has no model {name}."}
        return await encoded(partial(_answer, ls, document, target, view, document.record_version))


def _answer(
    ls: FxLensServer, document: Document, target: Target, view: str, version: int | None
) -> CodeAnswer | Refusal:
    text, lines = texts.text_of(target, view)
    if not text:
        return {"reason": f"{target['name']} has no graph: {target['reason'] or 'its problems say why'}."}
    return {"text": text, "lines": lines, "places": places(ls, document, target["nodes"]), "version": version}
