"""Reading and replacing the files of a workspace: only regular ones, and never overwriting a concurrent save.

Standard library only: the worker runs it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import stat
import tempfile
import time
import tokenize
from collections.abc import Iterator

__all__ = [
    "ERRORS",
    "FOREIGN",
    "LONG",
    "MOST_BYTES",
    "MOST_BYTES_OF_NOTEBOOK",
    "READ_AT_ONCE",
    "Changed",
    "began_now",
    "changed_since",
    "encoded",
    "is_only_names",
    "kind_of",
    "names_in",
    "only_names",
    "only_there",
    "read_bytes",
    "read_shown",
    "read_source",
    "read_text",
    "seen_at",
    "state_of",
    "without_content",
    "write_source",
    "write_whole",
]

MOST_BYTES = 10 << 20
"""Of a source file: larger ones are generated code or data."""
MOST_BYTES_OF_NOTEBOOK = 200 << 20
"""With the pictures that its cells have shown."""
LONG = 150_000
"""Characters above which the server does not parse a text in the event loop: it takes most of a second on a busy
machine. The jobs that run a file have no such limit."""
READ_AT_ONCE = 60_000
"""Characters of a text that is parsed within some ten milliseconds."""

FOREIGN = frozenset({
    "node_modules", "__pycache__", "__pypackages__", "site-packages", "dist-packages", "venv", "build", "dist",
    "wandb", "lightning_logs",
})  # fmt: skip
"""Folders with installed, built or logged files. These, and folders whose name starts with a dot, are not the user's
sources."""
ERRORS = (SyntaxError, ValueError, RecursionError, MemoryError)
"""What ``ast.parse`` may raise for a text."""
_COARSE = 50_000_000
"""Nanoseconds by which a file system's clock may lag."""
_THERE = os.sep + os.curdir
_UNSEEN = (".", "__pycache__")
_MADE = ("~", ".pyc", ".tmp")
_MOST_NAMES = 2000
_names: dict[str, tuple[int, str]] = {}


class Changed(Exception):
    """A file was saved after it was read."""


def read_bytes(path: str, most: int = MOST_BYTES) -> bytes:
    """The content of a regular file.

    A pipe, socket or device is rejected before reading, which could wait forever.

    Raises:
        OSError: it cannot be read, is not a regular file, or is larger than ``most`` bytes.
    """
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)  # a folder's handle cannot be opened as a file
        raise OSError(errno.EINVAL, "not an ordinary file", path)
    with open(handle, "rb") as file:
        data = file.read(most + 1)
        if data is None:  # /proc/kmsg claims to be a regular file
            raise OSError(errno.EAGAIN, "not an ordinary file", path)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"larger than {most >> 20} MiB", path)
    return data


def read_text(path: str) -> str | None:
    """A file's text in UTF-8 with its line ends; None if it cannot be read."""
    try:
        return read_bytes(path).decode("utf-8")
    except (OSError, ValueError):
        return None


def read_shown(path: str) -> str:
    """The text for places in it, which count characters as Python decodes them; where Python cannot, what an editor
    shows.  Empty if it cannot be read."""
    with contextlib.suppress(OSError):
        try:
            return read_source(path)
        except (SyntaxError, UnicodeDecodeError):
            return read_bytes(path).decode("utf-8", "replace")
    return ""


def read_source(path: str) -> str:
    """The text as Python would decode it, or that of a notebook: byte-order mark and coding comment honoured, line ends
    kept.

    Raises:
        OSError: as `read_bytes`.
        SyntaxError, UnicodeDecodeError: the encoding is unknown, or the bytes are not in it.
    """
    return _decoded(read_bytes(path, MOST_BYTES_OF_NOTEBOOK if path.endswith(".ipynb") else MOST_BYTES))[0]


def began_now(coarse: int = _COARSE) -> int:
    """The time for `changed_since`; ``coarse``: the tolerance in nanoseconds."""
    return time.time_ns() - coarse


def changed_since(path: str, began: int) -> bool:
    """Whether a file was written, removed, or put in place of another, since then. Programs can set the modification
    time, even to the future; Windows has no other time."""
    try:
        state = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        # Removing it would have changed its folder.
        folder = os.path.dirname(path)
        return folder == path or changed_since(folder, began)
    except OSError:
        return True
    return (state.st_mtime_ns if os.name == "nt" else state.st_ctime_ns) >= began


def write_source(path: str, before: str, text: str) -> None:
    """Replaces the text ``before`` of a file by ``text``, in the encoding that it has, all at once.

    A link stays a link: the file that it names is replaced. Owner, mode and extended attributes stay; a file with
    other hard links, or whose owner cannot be kept, is overwritten in place.

    Raises:
        Changed: the file no longer has the text ``before``.
        OSError: it cannot be read or written, is protected against writing, or its encoding does not round-trip the
            rest of it.
        UnicodeEncodeError: its encoding cannot express the new text.
    """
    path = os.path.realpath(path)
    _, data = encoded(path, before, text)
    if not os.access(path, os.W_OK):  # only its folder's permissions protect it from replacement
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    state = os.stat(path)
    made = None if state.st_nlink > 1 else _beside(path)
    if made is None:
        _overwrite(path, before, data)
        return
    handle, temporary = made
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(handle)
            kept = _take_over(handle, path, state)
        if kept:
            _expect(path, before)
        if not kept or not _replaced(temporary, path):
            os.unlink(temporary)
            _overwrite(path, before, data)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _beside(path: str) -> tuple[int, str] | None:
    """A new file in the same folder; None where nobody may create one there."""
    try:
        return tempfile.mkstemp(dir=os.path.dirname(path), prefix=".fxlens-")
    except PermissionError:
        return None


def _replaced(made: str, path: str) -> bool:
    """Puts a file in the place of another; False if that is a mount point."""
    try:
        os.replace(made, path)
    except OSError as error:
        if error.errno == errno.EBUSY:
            return False
        raise
    return True


def write_after(path: str, before: bytes | None, data: bytes) -> None:
    """Replaces the known content of our own file; creates the file if the content is None and it did not exist.

    Raises:
        Changed: it was written or created by someone else meanwhile.
        OSError: it cannot be read or written.
    """
    path = os.path.realpath(path)
    with _about(path):
        write_whole(made := f"{path}.{os.getpid()}.made", data)
    try:
        if before is not None and _bytes(path, len(before)) != before:
            raise Changed(path)
        if before is not None or not _linked(made, path):
            os.replace(made, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(made)


def _linked(made: str, path: str) -> bool:
    """Links a file under a new name; False if the file system has no hard links."""
    try:
        os.link(made, path)
    except FileExistsError:
        raise Changed(path) from None
    except OSError:
        return False
    return True


def _bytes(path: str, most: int) -> bytes | None:
    try:
        return read_bytes(path, most)
    except OSError:  # deleted, or too large
        return None


def write_whole(path: str, data: bytes, mode: int = 0o666) -> None:
    """Creates or replaces a file atomically: if the disk is full, the old content stays.

    Raises:
        OSError: it cannot be written.
    """
    new = f"{path}.{os.getpid()}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    try:
        with _about(path):
            with os.fdopen(os.open(new, flags, mode), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(new)
        raise


@contextlib.contextmanager
def _about(path: str) -> Iterator[None]:
    """Report a write error for this file, not for the temporary one."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None


def _decoded(data: bytes) -> tuple[str, str]:
    """The text of a source, and its encoding.  Raises SyntaxError, UnicodeDecodeError."""
    encoding = tokenize.detect_encoding(io.BytesIO(data).readline)[0]
    try:
        return data.decode(encoding), encoding
    except UnicodeDecodeError:
        raise
    except (LookupError, UnicodeError) as error:  # a codec that is not for text, or for host names
        raise SyntaxError(str(error)) from None


def encoded(path: str, before: str, text: str) -> tuple[bytes, bytes]:
    """The bytes of a file, and those that it would have with a new text. Some encodings do not round-trip: an edit of
    one line would then change all of them.

    Raises:
        Changed: the file no longer has the text ``before``.
        OSError: it cannot be read, or its encoding does not round-trip.
        UnicodeEncodeError: its encoding cannot express the new text.
    """
    data = read_bytes(path)
    try:
        now, encoding = _decoded(data)
    except (SyntaxError, UnicodeDecodeError):
        raise Changed(path) from None  # `before` was read
    if now != before:
        raise Changed(path)
    try:
        again = before.encode(encoding)
    except UnicodeError:
        again = b""
    if again != data:
        raise OSError(errno.EILSEQ, f"in its encoding, {encoding}, the lines beside the fix would change, too", path)
    return data, text.encode(encoding)


def _expect(path: str, before: str) -> None:
    try:
        unchanged = read_source(path) == before
    except (SyntaxError, UnicodeDecodeError):
        unchanged = False
    if not unchanged:
        raise Changed(path)


def _overwrite(path: str, before: str, data: bytes) -> None:
    with open(path, "r+b", buffering=0) as file:
        _expect(path, before)
        old = file.read()
        try:
            _put(file, data)
        except BaseException:
            _put(file, old)  # its space is still allocated, even on a full disk
            raise


def _put(file: io.FileIO, data: bytes) -> None:
    file.seek(0)
    left = memoryview(data)
    while left:
        left = left[file.write(left) :]
    file.truncate()
    os.fsync(file.fileno())


def _take_over(handle: int, path: str, state: os.stat_result) -> bool:
    """Gives a new file the owner, mode and attributes of the one that it replaces; False if that is not permitted."""
    if not hasattr(os, "fchown"):
        return True
    try:
        mine = os.fstat(handle)
        if (mine.st_uid, mine.st_gid) != (state.st_uid, state.st_gid):
            os.fchown(handle, state.st_uid, state.st_gid)
        os.fchmod(handle, stat.S_IMODE(state.st_mode))
        if hasattr(os, "listxattr"):
            for name in os.listxattr(path):
                os.setxattr(handle, name, os.getxattr(path, name))
    except OSError:
        return False
    return True


def only_names(path: str) -> str:
    """A path of which only counts whether it is there, and for a folder the names in it: it ends with a separator."""
    return os.path.join(path, "")


def is_only_names(path: str) -> bool:
    return path.endswith(os.sep)


def only_there(path: str) -> str:
    """A path of which only counts what is there, if anything: it ends with a separator and a dot."""
    return os.path.join(path, os.curdir)


def without_content(path: str) -> bool:
    """Whether it is `only_names` or `only_there`: what the file contains does not count."""
    return path.endswith((os.sep, _THERE))


def seen_at(path: str) -> str | None:
    """The state of a path `without_content`; None if nothing is there."""
    return names_in(path) if is_only_names(path) else kind_of(path)


def kind_of(path: str) -> str | None:
    """A state of `only_there`, also of the path itself: ``file`` or ``folder``, of a link with what it names."""
    path = path.removesuffix(_THERE)
    try:
        kind = "folder" if stat.S_ISDIR(os.stat(path).st_mode) else "file"
    except (OSError, ValueError):
        kind = None
    with contextlib.suppress(OSError, ValueError):
        return f"{kind} by a link to {os.readlink(path)}"
    return kind


def names_in(path: str) -> str | None:
    """A state of `only_names`, which says what are folders; None if it does not exist. Hidden files and backups, which
    editors make, do not count; nor do the names in a folder of very many, which is data."""
    try:
        time_of = os.stat(path.rstrip(os.sep) or path).st_mtime_ns
    except OSError:
        return None
    before = _names.get(path)
    if before is not None and before[0] == time_of:
        return before[1]
    try:
        with os.scandir(path) as found:
            seen = [each for each in found if not each.name.startswith(_UNSEEN) and not each.name.endswith(_MADE)]
            names = sorted(each.name + os.sep * each.is_dir(follow_symlinks=False) for each in seen)
    except OSError:
        names = []
    state = hashlib.sha256("\0".join(names).encode("utf-8", "surrogatepass")).hexdigest()
    state = state if len(names) <= _MOST_NAMES else ""
    if time.time_ns() - time_of > _COARSE:  # a later change gives it another time
        _names[path] = time_of, state
    return state


def state_of(path: str) -> object:
    """A state that changes when a file is written, or a folder's entries change; None if it does not exist."""
    if without_content(path):
        return seen_at(path)
    try:
        found = os.stat(path)
    except OSError:
        return None
    # Programs that copy set the first, others keep the size: the last changes with each write.
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_ctime_ns
