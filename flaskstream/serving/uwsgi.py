"""What uWSGI tells in a module of its own and not in the environ: the client's connection, and how it serves."""

from __future__ import annotations

import os
import socket
from contextlib import closing
from typing import Any, Mapping


class UwsgiConnection:
    """As much of a socket as is needed. It is uWSGI's, which closes it when the response has been closed."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        """The descriptor."""
        return self._descriptor

    def setsockopt(self, level: int, option: int, value: int | bytes) -> None:
        """Set an option of the connection. Raises `OSError`."""
        # Through a copy: a socket closes what it was made of. The option stays.
        with closing(socket.socket(fileno=os.dup(self._descriptor))) as copy:
            copy.setsockopt(level, option, value)

    def close(self) -> None:
        """Leave it to uWSGI."""


def uwsgi_connection(environ: Mapping[str, Any]) -> UwsgiConnection | None:
    """Return the connection of the request that this thread serves; `None` under other servers."""
    if not is_uwsgi(environ):
        return None
    import uwsgi  # only its own processes have it

    descriptor = uwsgi.connection_fd()
    return UwsgiConnection(descriptor) if descriptor >= 0 else None


def is_uwsgi(environ: Mapping[str, Any]) -> bool:
    """Tell whether uWSGI serves this request."""
    return "uwsgi.version" in environ


def has_router(environ: Mapping[str, Any]) -> bool:
    """Tell whether uWSGI's own HTTP router stands before this process: it keeps to itself that a client has gone."""
    return is_uwsgi(environ) and _has_option("http", "https")


def has_greenlets(environ: Mapping[str, Any]) -> bool:
    """Tell whether uWSGI serves each request in a greenlet, which its `wsgi.multithread` does not tell."""
    return is_uwsgi(environ) and _has_option("gevent")


def _has_option(*names: str) -> bool:
    import uwsgi

    return not set(names).isdisjoint(uwsgi.opt)
