"""Who may ask the blueprint's routes, and how much: looked at before anything else, on every route."""

from __future__ import annotations

import io
from typing import Any, Callable

from flask import Response, current_app, jsonify, request
from werkzeug.wrappers import Response as BaseResponse

from flaskstream.errors import InvalidSetting
from flaskstream.stats import STATS

Authorize = Callable[[Any], Any]

MAX_BODY_BYTES = 10 * 1024 * 1024
"""Enough for a long conversation with some pictures in it."""

_READ_BYTES = 64 * 1024


class Guard:
    """The blueprint's `before_request`: returns a response for who is refused, `None` for who may go on.

    Args:
        authorize: called in the request with `None`, or with the stream that an existing one is asked for. `True` lets
            the request through; `False` or `None` answers 403; a response is the answer, such as a redirect.
            OPTIONS, which does nothing, is answered without it.
            `None` in its place: whoever reaches the routes may use them.
        max_body_bytes: of a request; a larger one is answered with 413.

    Raises:
        InvalidSetting: it is no function, or no number of bytes.
    """

    def __init__(self, authorize: Authorize | None = None, max_body_bytes: int = MAX_BODY_BYTES) -> None:
        if authorize is not None and not callable(authorize):
            raise InvalidSetting(f"authorize: expected a function, got {authorize!r}")
        if not isinstance(max_body_bytes, int) or isinstance(max_body_bytes, bool) or max_body_bytes < 1:
            raise InvalidSetting(f"max_body_bytes: expected a number of bytes from 1 on, got {max_body_bytes!r}")
        self._authorize = authorize
        self._max_body_bytes = max_body_bytes

    def __call__(self) -> Any:
        if request.method == "OPTIONS":  # a browser asks before it may send who it is; nothing is done for it
            return None
        refused = self._refused()
        return self._too_large() if refused is None else refused

    def _refused(self) -> Any:
        if self._authorize is None:
            return None
        answer = self._authorize(None)
        if answer is True:
            return None
        if answer is None or answer is False:
            return refusal(403, "forbidden", "This request is not allowed here.")
        if not isinstance(answer, (BaseResponse, tuple)):  # a str would be a page that lets the client believe it may
            raise TypeError(
                f"authorize: expected True, False, None, a response or a tuple that makes one, got {answer!r:.80}"
            )
        STATS.refused("forbidden")
        return current_app.make_response(answer)

    def _too_large(self) -> Response | None:
        length = request.content_length
        if length is None:
            body = _read_at_most(self._max_body_bytes + 1)
            # For whoever reads it then: the stream itself has been read, and a hook may have taken hold of it before.
            request.environ.update({"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))})
            request.stream = request.environ["wsgi.input"]
            length = len(body or request.get_data())  # which a hook of the app may have kept that came first
        if length <= self._max_body_bytes:
            return None
        message = f"expected a body of at most {self._max_body_bytes} bytes, got more"
        return refusal(413, "body_too_large", message)


def _read_at_most(size: int) -> bytes:
    """Return the body of a request that does not say its length: all of it, or its first bytes."""
    source, body = request.environ["wsgi.input"], bytearray()
    if not request.environ.get("wsgi.input_terminated"):  # then its end cannot be told, and there may be none
        return b""
    while len(body) < size:
        piece = source.read(min(_READ_BYTES, size - len(body)))
        if not piece:
            break
        body += piece
    return bytes(body)


def refusal(status: int, code: str, message: str) -> Response:
    """Return an error status for a mistake of the client's, in a form that OpenAI's and Anthropic's clients know."""
    STATS.refused(code)
    response = jsonify(type="error", error={"code": code, "type": "invalid_request_error", "message": message})
    response.status_code = status
    response.headers["Cache-Control"] = "no-store"
    return response
