"""Views as files, for editors that cannot show documents of a server: in a folder that is removed with the server."""

from __future__ import annotations

import contextlib
import os

from pygls import uris

from fxlens.ipc import temporary
from fxlens.record import Target
from fxlens.sources import files
from fxlens.sources.paths import key
from fxlens.views import texts
from fxlens.views.verdicts import named

from .session import Session


class ViewFiles:
    """The views of one server, by either address: ``fxlens:/Net.forward.py?…``, or the file that was written."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._folder = ""
        self._files: dict[str, texts.Subject] = {}

    def subject(self, uri: str) -> texts.Subject | None:
        """The subject of the view at an address; None if it is not a view."""
        if uri.startswith("file:"):
            with contextlib.suppress(ValueError):  # it is not an address
                path = uris.to_fs_path(uri)
                return self._files.get(key(path)) if path and self._files else None
            return None
        return texts.subject_of(uri)

    def target(self, subject: texts.Subject) -> Target | None:
        """The target of a view in the current record."""
        document = self._session.documents.get(subject.source)
        record = document.record if document else None
        return named(record, subject.target) if record else None

    def write(self, subject: texts.Subject) -> str | None:
        """Writes a view and returns the address of its file; None if there is nothing to show."""
        target = self.target(subject)
        text = texts.text_of(target, subject.view)[0] if target else ""
        if not text:
            return None
        return uris.from_fs_path(self._file(subject, text))

    def refresh(self, source: str) -> None:
        """Rewrites those that show this document."""
        for subject in list(self._files.values()):
            if subject.source == source:
                with contextlib.suppress(OSError):  # on a full disk the earlier text stays
                    self.write(subject)

    def close(self) -> None:
        if self._folder:
            temporary.remove(self._folder)
            self._folder = ""
            self._files.clear()

    def _file(self, subject: texts.Subject, text: str) -> str:
        if not os.path.isdir(self._folder):  # there is none yet, or a cleaner of temporary files has removed it
            self.close()
            self._folder = temporary.create(temporary.VIEWS)
        path = next((path for path, other in self._files.items() if other == subject), None)
        if path is None:
            # Two documents may have models of the same name, so each has its own folder.
            sources = list(dict.fromkeys([*(each.source for each in self._files.values()), subject.source]))
            inner = os.path.join(self._folder, str(sources.index(subject.source)))
            path = key(os.path.join(inner, subject.file_name()))
            self._files[path] = subject
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if files.read_text(path) != text:
            files.write_whole(path, text.encode("utf-8", "backslashreplace"))
        return path
