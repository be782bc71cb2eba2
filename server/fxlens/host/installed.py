"""What is installed for an interpreter: its folders of packages, and a state that changes with what is in them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

from fxlens.ipc import processes

_ASK_SECONDS = 5.0
_FOLDERS = (
    "lib/python*/site-packages", "Lib/site-packages", "lib/python*/dist-packages", "local/lib/python*/dist-packages",
)  # fmt: skip
_SYSTEM = re.compile(r"^include-system-site-packages\s*=\s*true\s*$", re.MULTILINE | re.IGNORECASE)
_HOME = re.compile(r"^home\s*=\s*(.+?)\s*$", re.MULTILINE)
_DESCRIPTIONS = (".dist-info", ".egg-info", ".egg-link", ".pth")
State = tuple[object, ...]


class Installed:
    """What is installed for an interpreter, with the ``state`` in which it was when this was made.  Making it may wait
    for a script that starts the interpreter."""

    def __init__(self, python: str) -> None:
        self._python, self._roots = python, roots_of(python)
        self._read: dict[Path, tuple[object, State]] = {}
        self.state: State = ()
        self.state = self.look()

    def look(self) -> State:
        """The present state: another one if the interpreter was created or replaced, or has got, lost or changed a
        package; not while it is gone, when its running processes can still serve."""
        stamp = _stamp(self._python)
        if stamp is None and self.state:
            return self.state
        folders = dict.fromkeys(each for root in self._roots for each in packages_of(root))
        return (stamp, *((str(folder), self._names_in(folder)) for folder in folders))

    def _names_in(self, folder: Path) -> State:
        stamp = _stamp(folder)
        if (before := self._read.get(folder)) is not None and before[0] == stamp:
            return before[1]
        names: State = ()
        with suppress(OSError), os.scandir(folder) as entries:
            names = tuple(sorted(_named(each) for each in entries if not each.name.startswith(("_", "~", "."))))
        self._read[folder] = stamp, names
        return names


def _named(entry: os.DirEntry[str]) -> tuple[str, int]:
    """A name with a time: that of the description of a package, which is made anew by each installation."""
    with suppress(OSError):
        if entry.name.endswith(_DESCRIPTIONS):
            return entry.name, entry.stat().st_mtime_ns
    return entry.name, 0


def _stamp(path: str | Path) -> object:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_ino


def roots_of(python: str) -> list[Path]:
    """The folders of an interpreter: its own, and that to which a link leads.  A script, such as pyenv's, is asked
    which one it starts in this folder."""
    try:
        own, real = Path(python).absolute().parent.parent, os.path.realpath(python)
    except ValueError:  # no file can have this name
        return []
    if (own / "pyvenv.cfg").exists():
        return [own]
    with suppress(OSError, subprocess.SubprocessError, UnicodeDecodeError):
        with open(real, "rb") as file:
            script = file.read(2) == b"#!"
        if script:
            ask = [python, "-I", "-c", "import sys; print(sys.prefix)"]
            asked = subprocess.run(
                ask,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_ASK_SECONDS,
                check=True,
                preexec_fn=partial(processes.die_with_parent, os.getpid()) if sys.platform == "linux" else None,
            )
            return [Path(os.fsdecode(asked.stdout).strip())]
    return list(dict.fromkeys([own, Path(real).parent.parent]))


def packages_of(root: Path) -> list[Path]:
    """The folders of packages that an interpreter may use: its own, Debian's, and the user's."""
    roots = [root]
    with suppress(OSError, UnicodeDecodeError):
        if _SYSTEM.search(text := (root / "pyvenv.cfg").read_text()) and (home := _HOME.search(text)) is not None:
            roots.append(Path(home[1]).parent)
    own = [packages for each in roots for name in _FOLDERS for packages in sorted(each.glob(name))]
    users = sorted(Path(os.path.expanduser("~")).glob(".local/lib/python*/site-packages"))
    return own if len(roots) == 1 and (root / "pyvenv.cfg").exists() else [*own, *users]
