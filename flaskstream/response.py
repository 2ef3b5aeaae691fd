"""`event_stream`: a view that is a generator becomes a stream."""

from __future__ import annotations

import functools
import inspect
import itertools
import logging
import secrets
import time
from dataclasses import fields
from typing import Any, Callable, Iterator, TypeVar, cast, overload

from flask import Response, after_this_request, current_app, jsonify, request
from werkzeug.wrappers import Response as BaseResponse

from flaskstream.come_back import reconnection_times, retry_after
from flaskstream.contexts import Carrier
from flaskstream.errors import FlaskStreamError, UpstreamStatus
from flaskstream.open_streams import OPEN_STREAMS, Place
from flaskstream.options import StreamOptions
from flaskstream.pump import Pump
from flaskstream.serving.client import client_socket, watch_client
from flaskstream.serving.room import tell_if_full
from flaskstream.serving.sending import send_at_once
from flaskstream.serving.shortcomings import tell_shortcomings
from flaskstream.signals import Signal
from flaskstream.stats import STATS
from flaskstream.stream import CLIENT_ENDED, CLIENT_GONE, STOPPING, Stream, log_failure
from flaskstream.unbuffered import STREAM_HEADERS, response_class
from flaskstream.waiting import Turn
from flaskstream.wire import EventWire, Wire, describe, is_done_id

log = logging.getLogger(__name__)

View = TypeVar("View", bound=Callable[..., Any])


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
    known = [field.name for field in fields(StreamOptions)]
    unknown = ", ".join(sorted(set(options) - set(known)))
    if unknown:
        raise TypeError(f"event_stream: expected some of {', '.join(known)}, got {unknown}")
    decorate = streaming(StreamOptions(**options))
    return decorate if view is None else decorate(view)


def streaming(
    settings: StreamOptions, make_wire: Callable[[StreamOptions], Wire] | None = None
) -> Callable[[View], View]:
    """Return the decorator that `event_stream` is, with these options; `make_wire` makes another wire than its own."""

    def decorate(view: View) -> View:
        if not callable(view):
            raise TypeError(f"event_stream: expected a view function, or options by name, got {view!r:.80}")
        if inspect.isasyncgenfunction(view):
            raise TypeError(f"expected a generator, got the async one {view.__qualname__}: WSGI has no event loop")

        @functools.wraps(view)
        def streaming_view(*args: Any, **kwargs: Any) -> Any:
            answered = answer_without_stream(settings)
            if answered is not None:
                return answered
            carrier = Carrier(settings.keep_context)
            result = carrier.call_view(view, *args, **kwargs)
            return respond(result, carrier, (make_wire or event_wire)(settings), settings)

        return cast(View, streaming_view)

    return decorate


def answer_without_stream(settings: StreamOptions, last_event_id: str | None = None) -> Response | None:
    """Return the answer to who wants no stream: HEAD, and a client that comes back though it has all of one.

    Args:
        settings: of the stream.
        last_event_id: of the client; `None`: as its header says.
    """
    if request.method == "HEAD":
        return empty_response(200, settings)
    if is_done_id(request.headers.get("Last-Event-ID", "") if last_event_id is None else last_event_id):
        return empty_response(204, settings)
    return None


def event_wire(settings: StreamOptions) -> EventWire:
    """Return the wire of one stream of events of ours."""
    return EventWire(*reconnection_times(settings.retry), settings.heartbeat_form)


def respond(
    result: Any,
    carrier: Carrier,
    wire: Wire,
    settings: StreamOptions,
    stream_id: str | None = None,
    place: Place | None = None,
    turn: Turn | None = None,
) -> Any:
    """Return what Flask should make of a view's result: a stream if it is, or begins with, an iterator.

    Args:
        result: of the view.
        carrier, wire, settings: of the stream.
        stream_id: its name in the log and in what the client is told of an error; `None`: it gets one.
        place: that it has in the register of open streams; `None`: it takes one.
        turn: that its iterator may begin, of a `carrier` that keeps no request.
    """
    items, rest = (result[0], result[1:]) if isinstance(result, tuple) and result else (result, ())
    if hasattr(items, "__anext__"):
        raise TypeError(f"expected a generator from the view, got an async one ({items!r}): WSGI has no event loop")
    if not hasattr(items, "__next__"):
        _warn_of_a_stream_without_us(items)
        return result
    carrier.refuse_held(items)
    stream_id = stream_id or new_id()
    tell_shortcomings(request.environ)
    try:
        stream = start_stream(items, carrier, wire, settings, stream_id, place=place, turn=turn)
    except FlaskStreamError as error:
        return error_response(error, stream_id)
    _close_if_replaced_by_an_error(stream)
    is_begun = False
    if settings.status_grace:
        try:
            is_begun = stream.wait_for_first_item(settings.status_grace)
        except FlaskStreamError as error:
            return error_response(error, stream.stream_id)
    streaming_class = response_class(current_app.response_class)
    response = streaming_class(stream, settings.content_type, current_app.debug)
    if is_begun:
        milliseconds = (time.monotonic() - carrier.made_at) * 1000
        response.headers["Server-Timing"] = f"first_event;dur={milliseconds:.1f}"
    return (response, *rest) if rest else response


def new_id() -> str:
    """Return what names one stream, or one failure, in the log."""
    return secrets.token_hex(8)


def _warn_of_a_stream_without_us(result: Any) -> None:
    """Say that a view has made its own response of a generator: what it was decorated for is not in it.

    Raises:
        TypeError: in debug mode.
    """
    if not (isinstance(result, BaseResponse) and result.is_streamed and result.mimetype == "text/event-stream"):
        return
    message = (
        f"{request.endpoint}: expected a generator from a view with @event_stream, got a Response of one: it gets no"
        " heartbeat, no end and no protection from hooks. Return the generator itself, or yield in the view"
    )
    if current_app.debug:
        raise TypeError(message)
    if request.endpoint not in _warned:
        _warned.add(request.endpoint)
        log.warning(message)


_warned: set[str | None] = set()
"""Endpoints whose views make their own response: said once in a process."""


def start_stream(
    items: Iterator[Any],
    carrier: Carrier,
    wire: Wire,
    settings: StreamOptions,
    stream_id: str,
    at_fin: Signal = CLIENT_ENDED,
    place: Place | None = None,
    turn: Turn | None = None,
) -> Stream:
    """Start the generator, and have the stream told of what may end it.

    Args:
        items: the generator.
        carrier, wire, settings, stream_id: of the stream.
        at_fin: what the stream is told when its client has shut down its side.
        place: that it has; `None`: it takes one.
        turn: that the generator may begin.

    Raises:
        FlaskStreamError: it is refused; the generator was closed.
    """
    try:
        place = (place or OPEN_STREAMS.enter(settings.max_streams)).begin()
    except FlaskStreamError as error:
        getattr(items, "close", lambda: None)()
        STATS.refused(error.code)
        raise
    tell_if_full(settings.max_streams)
    try:
        pump = Pump(
            items,
            prepare=lambda source: carrier.hold(wire.items(source)),
            run=carrier.run,
            at_end=place.generator_ended,
            turn=turn,
        )
    except BaseException:  # such as "can't start new thread"
        place.generator_ended()
        place.stream_ended()
        raise
    # The pump, and not the stream: what holds a socket must not keep a stream alive that was dropped.
    place.when_stopping(lambda: pump.wake(STOPPING), is_early=lambda: bool(wire.restart))

    def client_ends(is_dead: bool) -> None:
        pump.wake(CLIENT_GONE if is_dead else at_fin)
        if is_dead:  # and nobody may ever look: a middleware without a close() can hold what it no longer reads
            pump.close()
            place.stream_ended()

    deadline = carrier.made_at + settings.max_duration if settings.max_duration else None
    client = client_socket(request.environ)
    send_at_once(client)
    stop_watching = watch_client(client, client_ends, deadline)
    return Stream(
        pump, wire, stream_id, settings, carrier.made_at, at_end=(stop_watching, place.stream_ended), turn=turn
    )


def _close_if_replaced_by_an_error(stream: Stream) -> None:
    """Close the stream when a later hook raises: Flask calls this again, for its error page, and drops the stream."""
    rounds = itertools.count()

    @after_this_request
    def close_in_the_second_round(response: Response) -> Response:
        if next(rounds):
            stream.close()
        return response


def error_response(error: FlaskStreamError, error_id: str) -> Response:
    """Log an error that came before the first byte, and return its real HTTP status."""
    log_failure(error, error_id, "before its first event")
    return status_response(error, error_id)


def status_response(error: FlaskStreamError, error_id: str) -> Response:
    """Return the HTTP status that an error has; an upstream's own body is kept."""
    if isinstance(error, UpstreamStatus) and error.body:
        is_json = error.content_type.split(";")[0].strip() == "application/json"
        # Only JSON keeps its type: a foreign HTML page must not run as a page of ours.
        response = Response(error.body, content_type=error.content_type if is_json else "text/plain; charset=utf-8")
    else:
        response = jsonify(type="error", error=describe(error, error_id))
    response.status_code = error.status
    response.headers.update(STREAM_HEADERS)
    response.headers["X-Content-Type-Options"] = "nosniff"
    if isinstance(error, UpstreamStatus):
        response.headers.update(error.headers)
    elif error.status == 503:
        response.headers["Retry-After"] = retry_after()
    return response


def empty_response(status: int, settings: StreamOptions) -> Response:
    """Return the headers of a stream without one."""
    response = Response(status=status, headers=STREAM_HEADERS, content_type=settings.content_type)
    response.automatically_set_content_length = False  # a HEAD tells what GET would, and that has no length
    if status == 204:
        del response.headers["Content-Type"]
    return response
