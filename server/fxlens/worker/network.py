"""No network for user code: checking a file must not download weights, send statistics or wait for a host."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import Any

OFF = "FXLENS_NETWORK"
"""Set to ``off`` in the environment of workers without network access (``host.launch``)."""
_LOCAL = ("localhost", "127.0.0.1", "::1", "", None)


refused: list[str] = []
"""The hosts that code of this process tried to reach."""


class NoNetwork(OSError):
    """User code tried to reach another machine."""

    def __init__(self, where: str) -> None:
        super().__init__(f"FX Lens runs code without network, so {where} cannot be reached")
        refused.append(where)


def turn_off() -> None:
    """Make connections to other machines raise NoNetwork, if the environment says so. Local sockets work, since event
    loops and process pools need them. Child programs are not covered."""
    if os.environ.get(OFF) != "off" or getattr(socket, "_fxlens_off", False):
        return
    socket._fxlens_off = True  # type: ignore[attr-defined]
    for name in ("connect", "connect_ex", "sendto"):
        setattr(socket.socket, name, _guarded(getattr(socket.socket, name), lambda args: _host(args[-1])))
    for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex"):
        setattr(socket, name, _guarded(getattr(socket, name), lambda args: args[0]))


def is_about(error: BaseException | None) -> bool:
    """Whether code failed because it tried to reach another machine."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        inner = getattr(error, "reason", None)
        if isinstance(error, NoNetwork) or isinstance(inner, NoNetwork):
            return True
        error = error.__cause__ or error.__context__
    return False


def _guarded(original: Callable[..., Any], host_of: Callable[[tuple[Any, ...]], Any]) -> Callable[..., Any]:
    def guarded(*args: Any, **kwargs: Any) -> Any:
        host = host_of(args) if args else kwargs.get("host")
        if isinstance(host, bytes):
            host = host.decode("ascii", "replace")
        if host not in _LOCAL and not str(host).startswith("127."):
            raise NoNetwork(str(host))
        return original(*args, **kwargs)

    guarded.__name__ = original.__name__
    return guarded


def _host(address: Any) -> Any:
    """The host of an address; None for a socket of this machine, whose address is a path."""
    return address[0] if isinstance(address, tuple) and address else None
