"""Send a token in one call of the kernel.

gevent's `sendall` asks the kernel for the size of the socket's buffer each time, and takes the data apart by it: made
for megabytes, it costs a tenth of what a token costs. Here the whole is sent at once, which mostly succeeds; what is
left goes gevent's way.
"""

from __future__ import annotations

import errno
import functools
from typing import Any

from flaskstream.native import is_patched

_FULL = (errno.EAGAIN, errno.EWOULDBLOCK)


def send_at_once(client: Any) -> None:
    """Have the `sendall` of a client's socket do so from now on, if it is one of gevent's own.

    Args:
        client: the socket, or `None`. One under TLS, or of a class of the server's own, is left as it is.
    """
    if client is None or not is_patched():
        return
    from gevent.socket import socket

    if type(client) is socket:
        client.__class__ = _class_for(socket)  # type: ignore[arg-type]


def sends_at_once(client: Any) -> bool:
    """Tell whether this is such a socket."""
    return getattr(type(client), "sends_at_once", False) is True


@functools.lru_cache(maxsize=1)
def _class_for(base: Any) -> type:
    class SocketThatSendsAtOnce(base):  # type: ignore[misc]
        __slots__ = ()  # else no socket could become one
        sends_at_once = True

        def sendall(self, data: Any, flags: int = 0) -> Any:
            try:
                sent = self._sock.send(data, flags)
            except OSError as error:
                if error.errno not in _FULL:
                    raise
                sent = 0
            return None if sent == len(data) else base.sendall(self, memoryview(data)[sent:], flags)

    return SocketThatSendsAtOnce
