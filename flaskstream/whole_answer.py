"""An answer that does not stream: one item of a stream that nobody sees, and so within the limits of all the others.

It takes a place, it has a deadline, it ends when its client goes and when the process stops, and it stands in the
figures and in the log as a stream of one event. Nothing leaves before it is here: so a failure is a real HTTP status,
and nothing can be written to hear whether a client that has shut down its side still reads. It is taken for gone.
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Any, Callable, Collection, Iterator, Mapping, Tuple

from flask import Response

from flaskstream.contexts import Carrier
from flaskstream.errors import FlaskStreamError
from flaskstream.options import StreamOptions
from flaskstream.response import error_response, start_stream, status_response
from flaskstream.stream import CLIENT_GONE

Ask = Callable[[], Tuple[bytes, Mapping[str, str]]]

CLIENT_CLOSED_REQUEST = 499
"""The status that nginx logs for a client that has gone; hardly anybody reads it."""


def whole_answer(ask: Ask, options: StreamOptions) -> Response:
    """Return the answer that `ask` gets, or why there is none.

    Args:
        ask: returns the JSON body, and the headers that a client may have. Called in a thread of its own.
        options: `max_streams`, `max_duration` and `on_end` hold; the others have no meaning here.
    """
    headers: dict[str, str] = {}
    stream_id = secrets.token_hex(8)
    carrier = Carrier(keep_request=False)
    settings = replace(options, heartbeat=0, printer=None)
    items = carrier.call_view(_only_item, ask, headers)
    try:
        stream = start_stream(items, carrier, _WholeWire(), settings, stream_id, at_fin=CLIENT_GONE)
    except FlaskStreamError as error:
        return error_response(error, stream_id)
    try:
        body = b"".join(stream)
    except FlaskStreamError as error:  # which the stream has logged
        return status_response(error, stream_id)
    if not body:
        return Response(status=CLIENT_CLOSED_REQUEST)
    response = Response(body, content_type="application/json", headers=headers)
    response.headers["Cache-Control"] = "no-store"
    return response


def _only_item(ask: Ask, headers: dict[str, str]) -> Iterator[bytes]:
    body, told = ask()
    headers.update(told)
    yield body


class _WholeWire:
    """One item as it is, and nothing before, beside or after it; what fails is raised."""

    cuts = True
    counted = True
    single: Collection[type] = ()
    restart = b""

    def items(self, source: Iterator[Any]) -> Iterator[Any]:
        return source

    def frame(self, item: bytes) -> bytes:
        return item

    def tokens(self, item: Any) -> int:
        return 0

    def opening(self) -> bytes:
        return b""

    def heartbeat(self) -> bytes:
        return b""

    def done(self, stream_id: str) -> bytes:
        return b""

    def failed(self, error: Exception, stream_id: str) -> bytes:
        return b""
