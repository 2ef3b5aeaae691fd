"""A response that failed ends so that nobody takes it for whole, also where its framing does not tell.

With chunks it does: the final one is missing. Without them the end of the connection is that of the body, and so the
connection is reset. nginx asks in HTTP/1.0 unless it is told otherwise; it hands a reset on by cutting its own client.
A Unix socket knows no reset: there `proxy_http_version 1.1` is needed.
"""

from __future__ import annotations

import socket
import struct
from contextlib import suppress
from typing import Any, Mapping

from flaskstream.serving.client import client_socket
from flaskstream.serving.shortcomings import server_of

_RESET_AT_CLOSE = struct.pack("ii", 1, 0)
"""Linger on, for no time: whoever closes the socket resets the connection."""


def reset_if_it_would_look_whole(environ: Mapping[str, Any]) -> bool:
    """Reset the client's connection, if a proper end of it would be one of the body.

    Args:
        environ: of the request.

    Returns:
        Whether it is reset; nothing may be written any more.
    """
    if environ.get("SERVER_PROTOCOL") != "HTTP/1.0" and not server_of(environ).ends_by_closing:
        return False
    client = client_socket(environ)
    if client is None:
        return False
    with suppress(OSError):  # it is closed already
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
        client.close()  # before the server does: gunicorn shuts it down first, and that is a proper end
    return True
