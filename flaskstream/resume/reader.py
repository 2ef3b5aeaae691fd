"""Follow a stream from where a client has left it: what was missed, then what comes, with no gap and no double."""

from __future__ import annotations

import time
from typing import Callable, Iterator, Sequence

from flaskstream.errors import ProducerLost, StoreUnavailable, UpstreamStatus
from flaskstream.interrupt import Bell
from flaskstream.native import is_patched
from flaskstream.pump import EndedOtherwise
from flaskstream.resume import ends
from flaskstream.resume.ends import RecordedStatus, recorded_failure
from flaskstream.resume.following import Following
from flaskstream.resume.live import Live
from flaskstream.resume.wire import RESET, Delivery
from flaskstream.signals import NOTHING, Signal
from flaskstream.sse import Event, to_json
from flaskstream.stores.protocol import EVICTED, FAILED, RUNNING, STOPPED, Page, Record, Store, StreamInfo
from flaskstream.waiting import Turn, TurnBell
from flaskstream.wire import Together, done_id

PAGE_RECORDS = 500
PAGE_BYTES = 128 * 1024
"""What one reader may hold of a stream, or a single record: the larger its records are, the fewer are asked for."""

_FIRST_PAGE = 32
_BLOCK_BYTES = 64 * 1024  # that are written together

_LONGEST_WAIT = 60.0  # seconds: whoever has more rings
_RETRY_SECONDS = 0.25
_STORE_SECONDS = 10.0
"""For how long a reader waits, with heartbeats, for a store that cannot be asked."""

EPOCH = "epoch"
"""Why a client must forget what it has: it belongs to another history of this stream."""
GONE = "evicted"
"""It came back too late: the records are gone."""


def reset_event(reason: str, event_id: str | None = None) -> Event:
    """Return what tells a client to forget what it has."""
    return Event(to_json({"reason": reason}), RESET, id=event_id)


def gone(epoch: str) -> Iterator[Event]:
    """Tell a client that the records are gone; and no more than once: it comes back with the id of the end."""
    yield reset_event(GONE, done_id(epoch))
    raise EndedOtherwise(RESET)


class Reader:
    """One reader of one stream.

    Args:
        store: where the stream is.
        live: the stream in this process, if it is produced here.
        stream_id: which stream.
        after: the number of the last record that the client has.
        delivery: shared with the wire.
        look: seconds after which a stream of another process is looked at though nobody has rung.
        touch: seconds after which the store is told again that a reader is here.
        turn: begun where all that is waited for happens in this process.
    """

    __slots__ = (
        *("_live", "_after", "_delivery", "_turn", "_bell", "_store", "_stream_id", "_look", "_touch", "_touched_at"),
        *("_limit", "_failing_since"),
    )

    def __init__(
        self,
        store: Store,
        live: Live | None,
        stream_id: str,
        after: int,
        delivery: Delivery,
        look: float,
        touch: float,
        turn: Turn | None = None,
    ) -> None:
        self._store = store
        self._live = live
        self._stream_id = stream_id
        self._after = after
        self._delivery = delivery
        delivery.sent = after
        delivery.can_go_on = (lambda: store.shared) if live is None else live.is_anywhere_else
        self._look = look
        self._touch = touch
        self._touched_at = 0.0
        self._limit = _FIRST_PAGE
        self._failing_since: float | None = None
        self._turn = turn
        self._bell: Bell | TurnBell = Bell()

    def records(self) -> Iterator[Record | Together | Event | None]:
        """Yield what the client has not; keep the last record for the wire, which writes the end.

        `None`: nothing came while it was the turn of whoever takes.

        Raises:
            EndedOtherwise: the stream was stopped, or its records are gone.
            FlaskStreamError: the stream failed.
        """
        if self._delivery.reset is not None:
            yield reset_event(self._delivery.reset)
        if self._live is not None:
            yield from self._of_live(self._live)
        else:
            yield from self._of_store()

    def _of_live(self, live: Live) -> Iterator[Record | Together | None]:
        if self._turn is not None and is_patched():
            self._bell = bell = TurnBell(self._turn)
            Following(self._turn, bell, self._now).begin()
        live.attach(self._bell)
        try:
            while self._delivery.end is None:
                records = live.after(self._after)
                if records is None:  # they are in the store alone
                    records = self._older(live)
                yield from self._passed(records, live.last if live.end is not None else None)
                if not records:
                    self._bell.wait(_LONGEST_WAIT)
                    if self._turn is not None:
                        self._catch_up()
                        yield None
        finally:
            live.detach(self._bell)
            self._bell.close()
        if live.end is not None:
            _raise_unless_done(live.end.state, live.end.failure, self._delivery)

    def _now(self) -> Record | Together | Signal | None:
        """Return what has come, without waiting; `None`: it is not as simple as that.

        What came alone is handed to whoever waits, without a word here: see `Live.add`.
        """
        live = self._live
        assert live is not None
        self._catch_up()
        records = live.after(self._after) if live.end is None else None
        if not records:
            return None if records is None else NOTHING
        if len(records) > 1 and sum(len(record.block) for record in records) > _BLOCK_BYTES:
            return None
        self._after = records[-1].number
        live.passed(self._after)  # its producer may wait for that
        return records[0] if len(records) == 1 else Together(records)

    def _catch_up(self) -> None:
        """Know of what was handed past this reader: it has been sent."""
        self._after = max(self._after, self._delivery.sent)

    def _older(self, live: Live) -> Sequence[Record]:
        page = self._read() if live.is_resumable else None
        if page is None or not page.records or page.info.epoch != live.epoch:
            raise StoreUnavailable("expected the older records of a stream in the store, got none")
        return page.records

    def _of_store(self) -> Iterator[Record | Together | Event]:
        state = RUNNING
        stop_watching = self._store.watch(self._stream_id, self._bell.ring)
        try:
            while self._delivery.end is None:
                page = self._patiently(self._page)
                if page is None:
                    self._bell.wait(_RETRY_SECONDS)
                    continue
                info = page.info
                is_short = info.state != RUNNING and not page.records  # a store that was set back
                if info.state == EVICTED or info.epoch != self._delivery.epoch or is_short:
                    yield from gone(info.epoch)
                state = info.state
                yield from self._passed(page.records, None if state == RUNNING else info.last)
                if not page.records:
                    self._bell.wait(min(self._look, self._touch))
        finally:
            stop_watching()
        _raise_unless_done(state, None, self._delivery)

    def _patiently(self, ask: Callable[[], Page | None]) -> Page | None:
        """Return what the store says; `None`: it cannot be asked now, and may be so soon."""
        try:
            page = ask()
        except StoreUnavailable:
            now = time.monotonic()
            self._failing_since = self._failing_since or now
            if now - self._failing_since > _STORE_SECONDS:
                raise
            return None
        self._failing_since = None
        if page is None and not self._after:  # who asked again has taken its place: it failed before it said anything
            raise ProducerLost("expected the beginning of an answer, got nothing: it was given up")
        if page is None:
            raise StoreUnavailable("expected a stream in the store, got nothing: it has lost what it kept")
        return page

    def _page(self) -> Page | None:
        """Return the next records, and say that somebody reads; if there are none and never will be, their end."""
        page = self._read()
        if page is None or page.info.state != RUNNING:
            return page
        if not page.records and lose(self._store, page.info):
            return self._read()
        now = time.monotonic()
        if now - self._touched_at > self._touch:
            self._store.touch([self._stream_id])
            self._touched_at = now
        return page

    def _read(self) -> Page | None:
        page = self._store.read(self._stream_id, self._after, self._limit)
        if page is not None and page.records:
            size = sum(len(record.block) for record in page.records)
            self._limit = max(1, min(PAGE_RECORDS, PAGE_BYTES * len(page.records) // (size or 1)))
        return page

    def _passed(self, records: Sequence[Record], last: int | None) -> Iterator[Record | Together]:
        """Yield records, those that leave in one write together; keep the last of all."""
        for together in _in_blocks(records):
            self._after = together[-1].number
            if self._after == last:
                self._delivery.end = together.pop()
            if together:
                yield together[0] if len(together) == 1 else Together(together)


def _in_blocks(records: Sequence[Record]) -> Iterator[list[Record]]:
    together: list[Record] = []
    size = 0
    for record in records:
        together.append(record)
        size += len(record.block)
        if size >= _BLOCK_BYTES:
            yield together
            together, size = [], 0
    if together:
        yield together


def lose(store: Store, info: StreamInfo) -> bool:
    """End a stream whose producer is lost; return whether it was so. Raises `StoreUnavailable`."""
    is_lost = info.state == RUNNING and not info.is_held
    return is_lost and store.lose(info.stream_id, info.epoch, ends.lost(info.stream_id).block)


def _raise_unless_done(state: str, failure: Exception | None, delivery: Delivery) -> None:
    if state == STOPPED:
        raise EndedOtherwise(STOPPED)
    if state != FAILED or delivery.end is None:
        return
    if isinstance(failure, UpstreamStatus):  # a new one: an exception is raised once
        raise RecordedStatus(failure.status, failure.body, failure.content_type, failure.headers)
    raise recorded_failure(delivery.end.block)
