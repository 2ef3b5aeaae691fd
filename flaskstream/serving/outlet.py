"""Know that a server sends a body just as it is, and where.

WSGI lets anything stand between an application and its server, and does not tell. But whoever loops over a body is
who calls its `__iter__`: if that is gunicorn's own loop, nothing is between.
"""

from __future__ import annotations

import errno
from types import FrameType
from typing import Any

from flaskstream.serving.sending import sends_at_once

_LOOP = "gunicorn.workers.base_async"
_FULL = (errno.EAGAIN, errno.EWOULDBLOCK)


class GunicornOutlet:
    """The body of one response of gunicorn's.

    Args:
        response: its own.
        own: the socket below it that never waits.
    """

    __slots__ = ("_is_chunked", "_own", "_response", "_sendall", "_uncounted")

    def __init__(self, response: Any, own: Any) -> None:
        self._response = response
        self._is_chunked = response.chunked
        self._uncounted = 0  # bytes, by the response
        self._own = own
        self._sendall = response.sock.sendall

    def send(self, frame: bytes) -> bytes:
        """Send what can be sent without waiting; return what is left. Raises `OSError`."""
        size = len(frame)
        self._uncounted += size
        data = b"%X\r\n%b\r\n" % (size, frame) if self._is_chunked else frame
        try:
            sent = self._own.send(data)
        except OSError as error:
            if error.errno not in _FULL:
                raise
            sent = 0
        return b"" if sent == len(data) else data[sent:]

    def flush(self, left: bytes) -> None:
        """Send it, and wait for it. Raises `OSError`."""
        self._sendall(left)

    def settle(self) -> None:
        """Have the response count what was sent: its access log tells that."""
        self._response.sent += self._uncounted
        self._uncounted = 0


def outlet_of(caller: FrameType | None, body: object) -> GunicornOutlet | None:
    """Return where a body goes; `None`: that is not known.

    Args:
        caller: the frame that has asked for the body's iterator.
        body: which is iterated over.
    """
    if caller is None or caller.f_globals.get("__name__") != _LOOP or caller.f_locals.get("respiter") is not body:
        return None
    from gunicorn.http.wsgi import Response

    response: Any = caller.f_locals.get("resp")
    is_usual = type(response) is Response and response.response_length is None
    if not is_usual or getattr(response, "_omits_body", False) or not sends_at_once(response.sock):
        return None
    return GunicornOutlet(response, response.sock._sock)
