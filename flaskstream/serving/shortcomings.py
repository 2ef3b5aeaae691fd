"""What the WSGI server is, and what a stream cannot have under it: said in the log, once.

A row of the table is a fact about a server and the sentence that follows from it. gunicorn with gevent and the kit's
settings has none of them.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
from dataclasses import dataclass
from typing import Any, Callable, Mapping

from flaskstream.native import is_patched
from flaskstream.serving.client import client_socket
from flaskstream.serving.deploy import is_watched
from flaskstream.serving.uwsgi import has_greenlets, has_router, is_uwsgi

log = logging.getLogger(__name__)

GUNICORN, UWSGI, WERKZEUG, WSGIREF = "gunicorn", "uWSGI", "Werkzeug", "WSGIServer"
"""Servers as they call themselves; the last is that of the standard library's wsgiref."""

_CHUNKS_SINCE = (2, 1)
"""The version of Werkzeug whose server came to speak HTTP/1.1."""


@dataclass(frozen=True)
class Server:
    """What is known of the server of a request.

    Attributes:
        name: as it calls itself; empty: it is none, but a test client.
        version: what there is of it in numbers.
        is_concurrent: it serves more than one request at a time in one process.
        has_greenlets: gevent has patched: a thread costs next to nothing.
        tells_of_going: it is known at once that a client has gone.
        has_socket: it shows the client's connection, or as much of it as is needed to reset it.
        drains: a worker that is stopped ends its streams with a word.
    """

    name: str
    version: tuple[int, ...] = ()
    is_concurrent: bool = True
    has_greenlets: bool = False
    tells_of_going: bool = True
    has_socket: bool = True
    drains: bool = True

    def __str__(self) -> str:
        return " ".join(filter(None, (self.name, ".".join(map(str, self.version)))))

    @property
    def ends_by_closing(self) -> bool:
        """The end of a body is that of its connection: one that was cut ends as a whole one does."""
        if self.name == WERKZEUG:
            return self.version < _CHUNKS_SINCE or not self.is_concurrent
        return self.name in (UWSGI, WSGIREF)


@dataclass(frozen=True)
class Shortcoming:
    """Something that a stream cannot have under a server.

    Attributes:
        applies: tells whether it cannot have it there.
        sentence: what follows, and what to do, for the log.
    """

    applies: Callable[[Server], bool]
    sentence: str


SHORTCOMINGS: Mapping[str, Shortcoming] = {
    "one_at_a_time": Shortcoming(
        lambda server: not server.is_concurrent,
        "it serves one request at a time in each process: the next client waits for the whole of an open stream",
    ),
    "killed_at_timeout": Shortcoming(
        lambda server: server.name == GUNICORN and not server.is_concurrent,
        "a sync worker is killed in mid-stream after `timeout` seconds: start it with `gunicorn -c"
        " python:flaskstream.gunicorn_conf`",
    ),
    "a_thread_each": Shortcoming(
        lambda server: server.is_concurrent and not server.has_greenlets and server.name not in (WERKZEUG, WSGIREF),
        "an open stream takes one of its threads: when all are taken, the next client waits",
    ),
    "going_unnoticed": Shortcoming(
        lambda server: not server.tells_of_going,
        "nothing tells that a client has gone: it is noticed when a write fails, at the latest after two heartbeats",
    ),
    "cut_looks_whole": Shortcoming(
        lambda server: server.ends_by_closing and not server.has_socket,  # else the connection is reset
        "a response ends with its connection, whole or not: a stream of /v1/... that was cut tells it by its error"
        " event alone",
    ),
    "no_settings": Shortcoming(
        lambda server: server.name == GUNICORN and not server.drains,
        "a deploy cuts open streams without a word: start it with `gunicorn -c python:flaskstream.gunicorn_conf`, or"
        " begin your own settings with `from flaskstream.gunicorn_conf import *`",
    ),
    "no_drain": Shortcoming(
        lambda server: server.name != GUNICORN and not server.drains,
        "a deploy cuts open streams without a word: only gunicorn, started with `-c python:flaskstream.gunicorn_conf`,"
        " lets them end",
    ),
}


def shortcomings_of(server: Server) -> list[str]:
    """Return the sentences that are true of a server; none for one that has no name."""
    return [row.sentence for row in SHORTCOMINGS.values() if server.name and row.applies(server)]


def server_of(environ: Mapping[str, Any]) -> Server:
    """Return what the environ of a request, and this process, say of the server."""
    name, version = _name_and_version(environ)
    has_socket = client_socket(environ) is not None
    return Server(
        name=name,
        version=version,
        is_concurrent=bool(environ.get("wsgi.multithread")) or has_greenlets(environ),
        has_greenlets=is_patched(),
        tells_of_going=has_socket and sys.platform == "linux" and not has_router(environ),
        has_socket=has_socket,
        drains=is_watched(),
    )


def _name_and_version(environ: Mapping[str, Any]) -> tuple[str, tuple[int, ...]]:
    if is_uwsgi(environ):
        named = UWSGI + "/" + bytes(environ["uwsgi.version"]).decode()
    else:
        named = str(environ.get("SERVER_SOFTWARE", ""))
    name, _, rest = named.partition("/")
    numbers = re.match(r"[\d.]*", rest)
    return name, tuple(int(number) for number in (numbers[0] if numbers else "").split(".") if number)


_told: set[tuple[int, str]] = set()
_telling = threading.Lock()


def tell_shortcomings(environ: Mapping[str, Any]) -> None:
    """Log what a stream cannot have under the server of this request, once for each process."""
    server = server_of(environ)
    key = (os.getpid(), server.name)
    with _telling:
        is_first = key not in _told
        _told.add(key)
    if is_first:
        for sentence in shortcomings_of(server):
            log.warning("streams under %s: %s", server, sentence)
