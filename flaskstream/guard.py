"""Who may ask the blueprint's routes, and how much: looked at before anything else, on every route."""

from __future__ import annotations

import functools
import io
from typing import Any, Callable

from flask import Blueprint, Response, current_app, jsonify, request
from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Response as BaseResponse

from flaskstream.errors import InvalidSetting
from flaskstream.stats import STATS

Authorize = Callable[[Any], Any]

MAX_BODY_BYTES = 10 * 1024 * 1024
"""Enough for a long conversation with some pictures in it."""

_READ_BYTES = 64 * 1024
_PASSED = "flaskstream_passed"  # of a request: the guards that have let it through


class GuardedBlueprint(Blueprint):
    """A blueprint that has each of its views guarded, beside the hook that is called before all others.

    Flask 2.0.0 and 2.0.1 know the hooks of a blueprint that is registered twice by its first name only.

    Args:
        name, import_name: as Flask's.
        guard: of every route.
    """

    def __init__(self, name: str, import_name: str, guard: Guard) -> None:
        super().__init__(name, import_name)
        self._guard = guard
        self.before_request(guard)

    def add_url_rule(
        self,
        rule: str,
        endpoint: str | None = None,
        view_func: Callable[..., Any] | None = None,
        *more: Any,
        **named: Any,
    ) -> None:
        """Add a route as Flask does; its view is called for who may go on."""
        guarded = None if view_func is None else self._guard.protect(view_func)
        super().add_url_rule(rule, endpoint, guarded, *more, **named)


class Guard:
    """The blueprint's `before_request`: returns a response for who is refused, `None` for who may go on.

    A request is looked at once, however often this is called.

    Args:
        authorize: called in the request with `None`, or with the stream that an existing one is asked for. `True` lets
            the request through; `False` or `None` answers 403; a response is the answer, such as a redirect.
            OPTIONS, which does nothing, is answered without it.
            `None` in its place: whoever reaches the routes may use them.
        max_body_bytes: of a request; a larger one is answered with 413. The app's `MAX_CONTENT_LENGTH` holds too.

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
        passed: tuple[Guard, ...] = getattr(request, _PASSED, ())
        if self in passed:
            return None
        if request.method == "OPTIONS":  # a browser asks before it may send who it is; nothing is done for it
            return None
        refused = self._refused()
        if refused is None:
            refused = self._unreadable()
        if refused is None:
            setattr(request, _PASSED, (*passed, self))
        return refused

    def may_have(self, stream: Any) -> bool:
        """Tell whether this request may have a stream that is there; whatever else than `True` the app says is a no."""
        return self._authorize is None or self._authorize(stream) is True

    def protect(self, view: Callable[..., Any]) -> Callable[..., Any]:
        """Return the view as one that is called for who may go on."""

        @functools.wraps(view)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            refused = self()
            if refused is not None:
                return refused
            as_sync: Any = getattr(current_app, "ensure_sync", None)  # this one hides from Flask whether it is async
            return (as_sync(view) if as_sync else view)(*args, **kwargs)

        return guarded

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

    def _unreadable(self) -> Response | None:
        most = self._most_bytes()
        length = request.content_length
        if length is None:
            try:
                body = _read_at_most(most + 1)
            except _BrokenBody as error:
                return refusal(400, "bad_request", str(error))
            # For whoever reads it then: the stream itself has been read, and a hook may have taken hold of it before.
            request.environ.update({"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))})
            request.stream = request.environ["wsgi.input"]
            length = len(body or request.get_data())  # which a hook of the app may have kept that came first
        if length <= most:
            return None
        return refusal(413, "body_too_large", f"expected a body of at most {most} bytes, got more")

    def _most_bytes(self) -> int:
        of_app = request.max_content_length
        return self._max_body_bytes if of_app is None else min(of_app, self._max_body_bytes)


class _BrokenBody(Exception):
    """The body's chunks are none, or end before the last one."""


def _read_at_most(size: int) -> bytes:
    """Return the body of a request that does not say its length: all of it, or its first bytes."""
    source, body = request.environ["wsgi.input"], bytearray()
    if not request.environ.get("wsgi.input_terminated"):  # then its end cannot be told, and there may be none
        return b""
    while len(body) < size:
        piece = _read(source, min(_READ_BYTES, size - len(body)))
        if not piece:
            break
        body += piece
    return bytes(body)


def _read(source: Any, size: int) -> bytes:
    try:
        return bytes(source.read(size))
    except HTTPException:
        raise
    except Exception as error:  # each server has its own: OSError, ValueError, and what is neither
        raise _BrokenBody(f"expected a whole body in chunks, got {type(error).__name__}") from error


def refusal(status: int, code: str, message: str) -> Response:
    """Return an error status for a mistake of the client's, in a form that OpenAI's and Anthropic's clients know."""
    STATS.refused(code)
    response = jsonify(type="error", error={"code": code, "type": "invalid_request_error", "message": message})
    response.status_code = status
    response.headers["Cache-Control"] = "no-store"
    return response
