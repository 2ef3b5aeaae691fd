"""Use a connection again that was used a moment ago, and no older one.

A server closes a connection that has been idle for some time. A request that crosses this close on its way is lost
without an answer, and it may not be sent again, for nobody knows whether it was read. So connections are not kept for
as long as servers do. (Whether the close is here already is asked by urllib3 itself.)
"""

from __future__ import annotations

import time
from typing import Any

import urllib3
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection

from flaskstream.interrupt import check, gives_away, waits_for, waits_no_longer

KEPT_SECONDS = 1.5
"""gunicorn closes an idle connection after 2 s, uvicorn, Node and Apache after 5 s, others later."""

_MAX_IDLE_CONNECTIONS = 100


class FreshAdapter(HTTPAdapter):
    """The adapter of `requests`, for a session that asks one host."""

    def __init__(self) -> None:
        super().__init__(pool_maxsize=_MAX_IDLE_CONNECTIONS)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {"http": _FreshHTTPPool, "https": _FreshHTTPSPool}


class _Fresh:
    """Notes when a connection is put back, and closes it if it is too old when it is taken out: it then opens anew."""

    def _put_conn(self, conn: Any) -> None:
        waits_no_longer(conn)
        if conn is not None:
            gives_away(getattr(conn, "sock", None))  # its answer forgets it only after this
            conn.idle_since = time.monotonic()
            _be_patient_again(conn)
        super()._put_conn(conn)  # type: ignore[misc]

    def _get_conn(self, timeout: float | None = None) -> Any:
        conn = super()._get_conn(timeout)  # type: ignore[misc]
        if time.monotonic() - getattr(conn, "idle_since", float("inf")) > KEPT_SECONDS:
            conn.close()
        waits_for(conn, lambda: getattr(conn, "sock", None))
        return conn


class _Checked:
    """A connection over which nothing is sent for a client that left before it was made."""

    def connect(self) -> None:
        check()
        super().connect()  # type: ignore[misc]
        check()  # from here on, and not before, there is a socket that can be shut down


class _CheckedHTTP(_Checked, HTTPConnection):
    pass


class _CheckedHTTPS(_Checked, HTTPSConnection):
    pass


class _FreshHTTPPool(_Fresh, urllib3.HTTPConnectionPool):
    ConnectionCls = _CheckedHTTP


class _FreshHTTPSPool(_Fresh, urllib3.HTTPSConnectionPool):
    ConnectionCls = _CheckedHTTPS


def _be_patient_again(conn: Any) -> None:
    """Undo what the last body's reads did to the socket's timeout: the next request is written with it."""
    sock, timeout = getattr(conn, "sock", None), getattr(conn, "timeout", None)
    if sock is not None and (timeout is None or isinstance(timeout, (int, float))):
        sock.settimeout(timeout)
