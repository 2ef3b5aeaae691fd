"""Answer a request with a stream that is there: from where its client has left it, and only who may have it."""

from __future__ import annotations

import contextlib
import functools
import logging
import secrets
import uuid
from dataclasses import replace
from typing import Any, Callable, Iterator

from flask import Response, request, url_for

from flaskstream.come_back import reconnection_times, time_to_move
from flaskstream.contexts import Carrier
from flaskstream.errors import FlaskStreamError, StoreUnavailable
from flaskstream.guard import Guard, refusal
from flaskstream.open_streams import OPEN_STREAMS, Place
from flaskstream.options import StreamOptions
from flaskstream.response import answer_without_stream, empty_response, error_response, new_id, respond
from flaskstream.resume.ids import Position, event_id, parse_event_id
from flaskstream.resume.reader import EPOCH, gone
from flaskstream.resume.streams import Streams
from flaskstream.resume.wire import Delivery
from flaskstream.stats import STATS
from flaskstream.stores.protocol import EVICTED, RUNNING, StreamInfo
from flaskstream.waiting import Turn

log = logging.getLogger(__name__)

ENDPOINT = "streams"

Owner = Callable[[], Any]


def asked_position() -> Position | None:
    """Return how far this request's client says it has come: a browser says it by itself when it reconnects."""
    return parse_event_id(_asked_id())


def _asked_id() -> str:
    return request.headers.get("Last-Event-ID") or request.args.get("last_event_id") or ""


class Deliveries:
    """Gives the streams of one blueprint to whoever may have them.

    Args:
        streams: which.
        options: of each delivery; how long an answer may take is a matter of its production.
        guard: asks the app who may have which stream.
        owner: tells, in a request, whose it is; `None`: no stream is anybody's.
    """

    def __init__(self, streams: Streams, options: StreamOptions, guard: Guard, owner: Owner | None) -> None:
        self.streams = streams
        self._options = replace(options, max_duration=0.0)
        self._guard = guard
        self._owner = owner
        self._is_told = False

    def current_owner(self) -> str | None:
        """Return whose this request is."""
        found = None if self._owner is None else self._owner()
        if found is None:
            return None
        if not isinstance(found, (str, int, uuid.UUID)):  # whose str() may be another one in each process
            raise TypeError(f"owner: expected a str, an int, a UUID or None, got {type(found).__name__}: {found!r:.80}")
        return str(found)

    def may_have(self, info: StreamInfo) -> bool:
        """Tell whether this request may have this stream: its owner, and whoever the app lets through."""
        return (self._owner is None or info.owner == self.current_owner()) and self._guard.may_have(info)

    def of_id(self, stream_id: str) -> StreamInfo | None:
        """Return what is known of a stream, for who may have it. Raises `StoreUnavailable`."""
        info = self.streams.info(stream_id)
        return info if info is not None and self.may_have(info) else None

    def answer_without_stream(self) -> Response | None:
        """Return the answer to who wants no stream; see `flaskstream.response`."""
        return answer_without_stream(self._options, _asked_id())

    def resume(self, position: Position) -> Any:
        """Answer a client that comes back to the route where its stream was begun: never with a second answer."""
        info = self.streams.find(position.epoch)
        if info is None or not self.may_have(info):
            return self._gone(position.epoch)
        return self.deliver(info, position)

    @contextlib.contextmanager
    def place(self) -> Iterator[Place]:
        """Take a place for a delivery before anything is begun for it: who finds none must not be charged.

        Raises:
            TooManyStreams, ShuttingDown: there is none.
        """
        try:
            place = OPEN_STREAMS.enter(self._options.max_streams)
        except FlaskStreamError as error:
            STATS.refused(error.code)
            raise
        try:
            yield place
        finally:
            place.leave_unless_begun()

    def deliver(
        self, info: StreamInfo, position: Position | None = None, is_kept: bool = True, place: Place | None = None
    ) -> Any:
        """Return the response with what is behind a position, `None`: with all of it.

        Args:
            info: of the stream, which this request may have.
            position: how far its client is.
            is_kept: it can be resumed.
            place: that it has; `None`: it takes one.
        """
        if info.state == EVICTED:
            return self._gone(info.epoch)
        delivery, after = self._delivery(info.epoch), 0
        delivery.is_first = position is None
        if position is not None:
            STATS.count("resumed")
            if not self._is_of(info, position):
                delivery.reset = EPOCH
            elif info.state != RUNNING and position.number == info.last:
                return empty_response(204, self._options)
            else:
                after = position.number
        response = self._streamed(info, after, delivery, place)
        if is_kept and getattr(response, "status_code", 0) == 200:
            self._say_where(response, info)
        return response

    def _delivery(self, epoch: str) -> Delivery:
        retry = self._options.retry
        lost, _ = reconnection_times(retry)
        return Delivery(epoch, lost, time_to_move(retry), self._options.heartbeat_form)

    def _is_of(self, info: StreamInfo, position: Position) -> bool:
        """Tell whether what the client has is the beginning of this stream."""
        has_it = position.epoch == info.epoch and position.number <= info.last
        return has_it and self.streams.is_resumable(info)

    def _say_where(self, response: Response, info: StreamInfo) -> None:
        """Tell the client how it finds the stream again."""
        response.autocorrect_location_header = False  # a proxy may have another name for this host
        response.headers["X-Stream-Id"] = info.stream_id
        response.headers["Location"] = url_for(f".{ENDPOINT}", stream_id=info.stream_id)

    def _streamed(self, info: StreamInfo, after: int, delivery: Delivery, place: Place | None) -> Any:
        name = f"{info.stream_id}/{secrets.token_hex(3)}"  # in the log each reading is told from the others
        turn = Turn()
        follow = functools.partial(self.streams.follow, info, after, delivery, turn)
        return self._respond(name, delivery, follow, place, turn)

    def _respond(
        self,
        name: str | None,
        delivery: Delivery,
        follow: Callable[[], Iterator[Any]],
        place: Place | None = None,
        turn: Turn | None = None,
    ) -> Any:
        self._warn_of_many_processes()
        options = self._options
        if asked_position() is not None:  # who comes back knows the events that it waits for, and no statuses
            options = replace(options, status_grace=0.0)
        carrier = Carrier(keep_request=False)
        return respond(carrier.call_view(follow), carrier, delivery, options, name, place, turn)

    def _warn_of_many_processes(self) -> None:
        if self._is_told or self.streams.is_shared or not request.environ.get("wsgi.multiprocess"):
            return
        self._is_told = True
        log.warning(
            "store: expected one process, got several: each has streams of its own in memory:, and a client that comes"
            " back to another one finds nothing. Take sqlite:PATH or redis://HOST"
        )

    def _gone(self, epoch: str) -> Any:
        """Tell a client that nothing is left of what it has begun: once, then 204, for it asks again by itself."""
        return self._respond(None, self._delivery(epoch), functools.partial(gone, epoch))

    def state(self, info: StreamInfo) -> Response:
        """Return the answer to HEAD."""
        response = empty_response(200, self._options)
        last = event_id(info.epoch, info.last) if info.last else ""
        self._say_where(response, info)
        response.headers.update(
            {"X-Stream-State": info.state, "X-Stream-Events": str(info.last), "X-Last-Event-Id": last}
        )
        return response


def not_found() -> Response:
    """Return what is said of a stream that is unknown, and of another's."""
    return refusal(404, "not_found", "There is no such stream.")


def failure(error: FlaskStreamError) -> Response:
    """Return what is said when the store cannot be asked, or this process has no place for one more."""
    if isinstance(error, StoreUnavailable):
        STATS.refused(error.code)
    return error_response(error, new_id())
