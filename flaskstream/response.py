"""`event_stream`: a view that is a generator becomes a stream."""

from __future__ import annotations

import functools
import itertools
import logging
import secrets
from dataclasses import dataclass, field
from typing import Any, Callable, TypeVar, cast, overload

from flask import Response, after_this_request, current_app, jsonify, request

from flaskstream.contexts import Carrier
from flaskstream.debug import DebugPrinter
from flaskstream.disconnect import client_socket
from flaskstream.errors import FlaskStreamError, InvalidEvent, InvalidSetting, UpstreamStatus
from flaskstream.pump import Pump
from flaskstream.sse import Event
from flaskstream.stream import Stream, StreamReport
from flaskstream.unbuffered import STREAM_HEADERS, response_class
from flaskstream.wire import EventWire, Wire, describe, is_done_id

log = logging.getLogger(__name__)

View = TypeVar("View", bound=Callable[..., Any])


@dataclass(frozen=True)
class StreamOptions:
    """The options of `event_stream`.

    Attributes:
        heartbeat: seconds of silence after which a comment is sent, so that no proxy takes the stream for dead
            (the shortest common limit is 30 s) and a client that has gone is noticed; 0: never.
        status_grace: seconds for which the first event is awaited before the 200 goes out: a failure in that time is
            a real HTTP status. After it a first comment is sent instead. 0: the 200 goes out at once.
        keep_context: keep `request`, `session` and `g` available in the generator (`stream_with_context`). `g` holds
            what the view and its hooks have put there, without what can be closed, such as a connection to a
            database: the end of the view closes that. The generator makes its own, and when it has ended the teardown
            functions run a second time, for that. `False`: it runs outside of Flask, and pins nothing.
        retry: how long a client waits before it reconnects, in milliseconds; `None`: its own default.
        charset: send `text/event-stream; charset=utf-8`. Some proxies stream only the bare type, which is UTF-8
            by definition; clients that guess an encoding from the header (requests) want the long one.
        printer: prints a line for each event; see `flaskstream.debug`.
        on_end: called once with the `StreamReport` of each stream.
    """

    heartbeat: float = 15.0
    status_grace: float = 5.0
    keep_context: bool = True
    retry: int | None = 3000
    charset: bool = False
    printer: DebugPrinter | None = field(default=None, compare=False)
    on_end: Callable[[StreamReport], None] | None = None

    def __post_init__(self) -> None:
        for name in ("heartbeat", "status_grace"):
            seconds = getattr(self, name)
            if not isinstance(seconds, (int, float)) or isinstance(seconds, bool) or not 0 <= seconds < float("inf"):
                raise InvalidSetting(f"{name}: expected seconds (0 or more), got {seconds!r}")
        try:
            Event("-", retry=self.retry)
        except InvalidEvent as error:
            raise InvalidSetting(str(error)) from None

    @property
    def content_type(self) -> str:
        """The value of the `Content-Type` header."""
        return "text/event-stream; charset=utf-8" if self.charset else "text/event-stream"


@overload
def event_stream(view: View) -> View: ...


@overload
def event_stream(**options: Any) -> Callable[[View], View]: ...


def event_stream(view: Any = None, **options: Any) -> Any:
    """Make a stream of server-sent events of a view that is, or returns, a generator.

    Use it bare or with options, below `@app.get(...)`::

        @app.get("/clock")
        @event_stream(heartbeat=15)
        def clock():
            for n in range(10):
                yield {"n": n}

    The generator yields events: a str (the data of one), a dict or list (sent as JSON), or an `Event`; empty ones are
    left out. The answer ends with `event: done`, or with `event: error` (a stable code and the id under which the log
    says more) if the generator raises. What it raises before its first event becomes an HTTP status as in any view. A
    view that returns something else, such as a redirect, is left alone; one may return `(generator, status, headers)`.
    HEAD answers with the headers and calls nothing.

    Args:
        view: the view function, when used without options.
        **options: the fields of `StreamOptions`.

    Raises:
        InvalidSetting: an option has a value that does not work.
        TypeError: there is no such option.
    """
    settings = StreamOptions(**options)

    def decorate(view: View) -> View:
        @functools.wraps(view)
        def streaming_view(*args: Any, **kwargs: Any) -> Any:
            if request.method == "HEAD":
                return _empty_response(200, settings)
            if is_done_id(request.headers.get("Last-Event-ID", "")):
                return _empty_response(204, settings)
            carrier = Carrier(settings.keep_context)
            result = carrier.call_view(view, *args, **kwargs)
            return respond(result, carrier, EventWire(settings.retry), settings)

        return cast(View, streaming_view)

    return decorate if view is None else decorate(view)


def respond(result: Any, carrier: Carrier, wire: Wire, settings: StreamOptions) -> Any:
    """Return what Flask should make of a view's result: a stream if it is, or begins with, an iterator."""
    items, rest = (result[0], result[1:]) if isinstance(result, tuple) and result else (result, ())
    if hasattr(items, "__anext__"):
        raise TypeError(f"expected a generator from the view, got an async one ({items!r}): WSGI has no event loop")
    if not hasattr(items, "__next__"):
        return result
    carrier.refuse_held(items)
    pump = Pump(items, prepare=lambda source: carrier.hold(wire.items(source)), run=carrier.run)
    stream = Stream(
        pump,
        wire,
        secrets.token_hex(8),
        heartbeat=settings.heartbeat or None,
        printer=settings.printer,
        on_end=settings.on_end,
        started_at=carrier.made_at,
        client=client_socket(request.environ),
    )
    _close_if_replaced_by_an_error(stream)
    if settings.status_grace:
        try:
            stream.wait_for_first_item(settings.status_grace)
        except FlaskStreamError as error:
            return error_response(error, stream.stream_id)
    streaming_class = response_class(current_app.response_class)
    response = streaming_class(stream, settings.content_type, current_app.debug)
    return (response, *rest) if rest else response


def _close_if_replaced_by_an_error(stream: Stream) -> None:
    """Close the stream when a later hook raises: Flask calls this again, for its error page, and drops the stream."""
    rounds = itertools.count()

    @after_this_request
    def close_in_the_second_round(response: Response) -> Response:
        if next(rounds):
            stream.close()
        return response


def error_response(error: FlaskStreamError, error_id: str) -> Response:
    """Return the real HTTP status of an error that came before the first byte; an upstream's own body is kept."""
    log.error("stream %s failed before its first event: %r", error_id, error, exc_info=error)
    if isinstance(error, UpstreamStatus) and error.body:
        is_json = error.content_type.split(";")[0].strip() == "application/json"
        # Only JSON keeps its type: a foreign HTML page must not run as a page of ours.
        response = Response(error.body, content_type=error.content_type if is_json else "text/plain; charset=utf-8")
    else:
        response = jsonify(error=describe(error, error_id))
    response.status_code = error.status
    response.headers.update(STREAM_HEADERS)
    response.headers["X-Content-Type-Options"] = "nosniff"
    if isinstance(error, UpstreamStatus):
        response.headers.update(error.headers)
    return response


def _empty_response(status: int, settings: StreamOptions) -> Response:
    response = Response(status=status, headers=STREAM_HEADERS, content_type=settings.content_type)
    response.automatically_set_content_length = False  # a HEAD tells what GET would, and that has no length
    if status == 204:
        del response.headers["Content-Type"]
    return response
