"""The Response that cannot be buffered without anyone's noticing, and the headers that keep others from it."""

from __future__ import annotations

import errno
import functools
import logging
import os
import sys
from types import FrameType
from typing import Any, Callable, Iterable, Iterator, Mapping, cast

import flask
import werkzeug
from flask import Response
from werkzeug.wrappers import Response as BaseResponse
from werkzeug.wsgi import ClosingIterator

from flaskstream.errors import BodyWasRead
from flaskstream.express import Outlet
from flaskstream.serving.cut import reset_if_it_would_look_whole
from flaskstream.serving.outlet import outlet_of
from flaskstream.stream import Stream

log = logging.getLogger(__name__)

STREAM_HEADERS = {
    # no-store: some caches replay old events to the next client. no-transform: keeps compressors off that obey it.
    "Cache-Control": "no-cache, no-store, no-transform",
    "X-Accel-Buffering": "no",  # the first nginx streams, and eats the header
}

# A body that is still being made has no length and no tag, and cannot be resumed at a byte. The other three
# belong to the connection: PEP 3333 forbids them, and waitress and wsgiref answer 500 to them.
_NEVER_SENT = (
    "Content-Length",
    "ETag",
    "Accept-Ranges",
    "Connection",
    "Keep-Alive",
    "Transfer-Encoding",
)


class StreamResponse(Response):
    """A response whose body is made while it is sent.

    Whoever reads it whole before that (`get_data()`, `calculate_content_length()`, `make_sequence()`, an ETag, a loop
    over its body) would hold every event until the end. In debug mode that raises `BodyWasRead`, with the file and line
    of the caller. In production the caller gets an empty body, the log one warning, and the client its stream.
    """

    implicit_sequence_conversion = False
    automatically_set_content_length = False

    def __init__(self, stream: Stream, content_type: str, debug: bool) -> None:
        self._fixed_headers = {**STREAM_HEADERS, "Content-Type": content_type}
        self._refuse = functools.partial(_refuse, debug)
        self._guard = _BodyGuard(stream, self._refuse)
        self._body: Any = self._guard
        super().__init__(cast(Any, self._guard), headers=self._fixed_headers)
        self.call_on_close(stream.close)
        # Flask-Compress leaves alone what is encoded already. RFC 9110 wants no `identity` on the wire, and so it is
        # taken away there.
        self.headers["Content-Encoding"] = "identity"

    @property
    def response(self) -> Any:
        """The body: the guarded stream, or what a hook has wrapped around it."""
        return self._body

    @response.setter
    def response(self, body: Any) -> None:
        if isinstance(body, (list, tuple, str, bytes)):  # of what it read of the stream, which was nothing
            self._refuse("setting its body to what is there already")
        else:
            self._body = body

    def send_header(self, name: str, value: str) -> None:
        """Send a header with this value whatever a hook sets; an empty one: leave it out, unless a hook sets it."""
        self._fixed_headers.pop(name, None)
        self.headers.pop(name, None)
        if value:
            self._fixed_headers[name] = self.headers[name] = value

    def get_wsgi_headers(self, environ: Any) -> Any:
        headers = super().get_wsgi_headers(environ)
        for name in _NEVER_SENT:
            headers.pop(name, None)
        if headers.get("Content-Encoding") == "identity":
            del headers["Content-Encoding"]
        for name, value in self._fixed_headers.items():
            headers[name] = value  # a hook may have set it otherwise, and the usual recipe twice
        return headers

    def get_app_iter(self, environ: Any) -> Iterable[bytes]:
        self._guard.open(environ)
        whole: Any = super().get_app_iter(environ)
        is_usual = self._body is self._guard and type(self).iter_encoded is BaseResponse.iter_encoded
        return _Sent(self._guard, self.close) if is_usual and isinstance(whole, ClosingIterator) else whole

    def get_data(self, as_text: bool = False) -> Any:
        self._refuse("get_data()")
        return "" if as_text else b""

    def set_data(self, value: Any) -> None:
        self._refuse("set_data()")

    data = property(get_data, set_data)

    def calculate_content_length(self) -> None:
        self._refuse("calculate_content_length()")

    def make_sequence(self) -> None:
        self._refuse("make_sequence()")

    def freeze(self, *args: Any, **kwargs: Any) -> None:
        self._refuse("freeze()")

    def add_etag(self, *args: Any, **kwargs: Any) -> None:
        self._refuse("add_etag()")


def response_class(base: type[Response]) -> type[StreamResponse]:
    """Return the streaming kind of an app's `response_class`: Flask turns a response of any other into its own."""
    if issubclass(StreamResponse, base):
        return StreamResponse
    if base not in _derived:
        _derived[base] = cast("type[StreamResponse]", type(f"Stream{base.__name__}", (StreamResponse, base), {}))
    return _derived[base]


def _refuse(debug: bool, what: str) -> None:
    culprit = _caller()
    message = f"{what} would read a whole stream before it is sent; called by {culprit}"
    if debug:
        raise BodyWasRead(message)
    if culprit not in _warned:
        _warned.add(culprit)
        log.warning("%s. The stream goes on, unread", message)


_derived: dict[type[Response], type[StreamResponse]] = {}

_warned: set[str] = set()
"""Places in the code that were warned of; a handful in any program."""


class _BodyGuard:
    """Hands the stream to the server, and to nobody before the server has asked for it."""

    def __init__(self, stream: Stream, refuse: Callable[[str], None]) -> None:
        self._stream = stream
        self._refuse = refuse
        self._environ: Mapping[str, Any] | None = None

    def open(self, environ: Mapping[str, Any]) -> None:
        self._environ = environ

    def __iter__(self) -> _BodyGuard:
        return self

    def __next__(self) -> bytes:
        if self._environ is None:
            self._refuse("a loop over its body")
            raise StopIteration
        try:
            return next(self._stream)
        except StopIteration:
            raise
        except Exception as error:
            self._cut(self._environ, error)
            raise

    def frames(self, outlet: Outlet | None) -> Iterator[bytes]:
        """Yield the same: what a server loops over costs less if it is a generator."""
        assert self._environ is not None
        try:
            yield from self._stream.frames(outlet)
        except Exception as error:
            self._cut(self._environ, error)
            raise
        finally:
            self._stream.close()

    def _cut(self, environ: Mapping[str, Any], error: Exception) -> None:
        if reset_if_it_would_look_whole(environ):
            raise ConnectionResetError(errno.ECONNRESET, "the stream failed, and was cut") from error

    def close(self) -> None:
        self._stream.close()


class _Sent:
    """What the server gets: werkzeug's own goes through each item once more, for those that are no bytes."""

    def __init__(self, guard: _BodyGuard, close: Callable[[], None]) -> None:
        self._guard = guard
        self.close = close

    def __iter__(self) -> Iterator[bytes]:
        return self._guard.frames(outlet_of(sys._getframe().f_back, self))

    def __next__(self) -> bytes:  # for a middleware that asks what it should have asked iter() for
        return next(self._guard)


_FRAMEWORK = (
    os.path.abspath(__file__),
    *(os.path.dirname(os.path.abspath(cast(str, module.__file__))) + os.sep for module in (flask, werkzeug)),
)


def _caller() -> str:
    """Return file, line and function of the nearest caller that belongs neither to Flask nor to this file."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if not os.path.abspath(path).startswith(_FRAMEWORK):
            return f"{path}:{frame.f_lineno} in {frame.f_code.co_name}"
        frame = frame.f_back
    return "unknown code"
