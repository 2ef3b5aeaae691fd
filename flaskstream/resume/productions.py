"""What this process produces for a store: begun, kept in time, ended where somebody asks for it or nobody reads it."""

from __future__ import annotations

import functools
import logging
import os
import time
from typing import Any, Callable, Iterator

from flaskstream.background import start
from flaskstream.errors import FlaskStreamError, StoreUnavailable
from flaskstream.interrupt import Bell
from flaskstream.native import original
from flaskstream.open_streams import GENERATIONS
from flaskstream.resume import ends
from flaskstream.resume.ends import End
from flaskstream.resume.generation import Generation
from flaskstream.resume.live import Live
from flaskstream.resume.recorder import Recorder
from flaskstream.resume.report import AnswerReport
from flaskstream.resume.terms import Terms
from flaskstream.stats import STATS
from flaskstream.stores.protocol import RUNNING, Batch, Record, Store, StreamInfo, is_instant
from flaskstream.waiting import Turn

log = logging.getLogger(__name__)

LOOKS_IN_A_LEASE = 4
"""How often a lease is renewed, and looked at, before it is over."""

_TURN = 16  # answers, each with up to `TOGETHER_RECORDS`
_PAUSE_SECONDS = 0.001  # gevent looks at its sockets in it; after none it may run fifty more of these first
_CARE_SECONDS = 0.05
_CALMER = 4  # times as long, where no other process asks for anything
_LONGEST_ROUND = 5 * _CARE_SECONDS  # if one took longer, this process has stood still
_EVICTIONS_IN_A_LIFE = 20  # while the retention keeps a stream that has ended
_UNRECORDED_SECONDS = 2.0
_EVICT_SECONDS = (1.0, 30.0)  # between two of them, at least and at most

Source = Callable[[Turn], Iterator[Any]]
OnAnswer = Callable[[AnswerReport], Any]


class Productions:
    """The answers that one process produces.

    Args:
        store: where they are recorded.
        terms: how long they may take.
        on_answer: called with the report of each, where it was produced.
    """

    def __init__(self, store: Store, terms: Terms, on_answer: OnAnswer | None = None) -> None:
        self._store = store
        self._terms = terms
        self._on_answer = on_answer
        self._is_instant = is_instant(store)
        shortest, longest = _EVICT_SECONDS
        self._evict_seconds = max(shortest, min(terms.retention.seconds / _EVICTIONS_IN_A_LIFE, longest))
        self._recorder = Recorder(store, terms.lease, on_refused=self._refused, on_written=self._forget)
        self._running: dict[str, Generation] = {}  # by epoch, the oldest first
        self._unread: set[Live] = set()  # of these, and of some that ended a moment ago
        # Made before gevent may have patched: nothing may wait in it.
        self._lock: Any = original("_thread", "allocate_lock")()
        self._cared_for_in: int | None = None  # a process
        self._bells: tuple[Bell, ...] = ()  # of that one

    def produce(self, info: StreamInfo, source: Source, is_kept: bool) -> None:
        """Begin to produce a stream.

        Args:
            info: of the stream, which was begun in the store.
            source: makes the generator of its events, called where that will run, with a turn that it may begin.
            is_kept: it was; else the store cannot be asked.

        Raises:
            TooManyStreams: this process produces as many as it may.
            ShuttingDown: it is being stopped.
        """
        try:
            place = GENERATIONS.enter(self._terms.max_streams)
        except FlaskStreamError as error:
            STATS.refused(error.code)
            if is_kept:
                self._tell_failure(info, error)
            raise
        self.stop(info.stream_id, ends.lost(info.stream_id))  # an older history of it, which its store has lost
        most = self._terms.retention.bytes
        live = Live(info, is_kept, self._store.shared, self._is_instant, self._lost_recording, most, self._unread)
        report = functools.partial(self._report, info)
        generation = Generation(live, source, place, self._terms, self._more, report)
        self._running[live.epoch] = generation
        self._unread.add(live)
        STATS.count("produced")
        try:
            generation.start()
        except Exception as error:  # such as "can't start new thread"
            if is_kept:
                self._tell_failure(info, error)
            self._forget(live)
            raise
        for bell in self._bells:
            bell.ring()

    def _tell_failure(self, info: StreamInfo, error: Exception) -> None:
        """Have whoever has joined it meanwhile told; whoever asks again, asks anew."""
        end = ends.failed(error, info.stream_id)
        batch = Batch(info.stream_id, info.epoch, (Record(1, end.block),), end.state)
        _attempt(lambda: self._store.append([batch], self._terms.lease))

    def _report(self, info: StreamInfo, end: End, events: int, duration_ms: float) -> None:
        report = AnswerReport(info.stream_id, info.owner, end.state, end.reason, events, duration_ms)
        log.info("answer %s", report)
        if self._on_answer is not None:
            try:
                self._on_answer(report)
            except Exception:
                log.exception("stream %s: on_answer failed", info.stream_id)

    def live(self, epoch: str) -> Live | None:
        """Return a stream, if it is produced here."""
        generation = self._running.get(epoch)
        return None if generation is None else generation.live

    def infos(self) -> list[StreamInfo]:
        """Return what this process knows of the streams that it produces, also where their store cannot be asked."""
        return [generation.live.info for generation in list(self._running.values())]

    def stop(self, stream_id: str, end: End) -> bool:
        """End a stream so, if it is produced here; return whether it is."""
        found = [generation for generation in list(self._running.values()) if generation.live.stream_id == stream_id]
        for generation in found:
            generation.stop(end)
        return bool(found)

    def _more(self, live: Live) -> None:
        if not live.is_resumable:
            if live.end is not None:
                self._forget(live)
        else:
            self._recorder.write(live)

    def write(self) -> None:
        """Have written what the store does not have yet, and renew all leases; others have turns meanwhile."""
        for n, generation in enumerate(list(self._running.values()), 1):
            self._recorder.write(generation.live)
            if n % _TURN == 0 and self._is_instant:
                time.sleep(_PAUSE_SECONDS)

    def write_what_waits(self) -> None:
        """Have written what a store in this process has only later, so that it can be counted."""
        if self._is_instant:
            self.write()

    def care(self) -> None:
        """Have this process look after what it produces, and after what the store keeps, from now on."""
        if self._cared_for_in == os.getpid():
            return
        with self._lock:
            if self._cared_for_in != os.getpid():
                self._cared_for_in = os.getpid()
                self._bells = (Bell(), Bell())
                for care, bell in zip((self._keep_time, self._ask_store), self._bells):
                    start(functools.partial(care, bell), lambda: False, "flaskstream-streams")

    def _rounds(self, bell: Bell) -> Iterator[float]:
        seconds = _CARE_SECONDS * (_CALMER if self._is_instant else 1)
        while True:
            bell.wait(seconds if self._running else self._evict_seconds)
            yield time.monotonic()

    def _keep_time(self, bell: Bell) -> None:
        """Do what has to be done in time, and so without waiting for the store."""
        renewed_at = before = time.monotonic()
        for now in self._rounds(bell):
            if now - renewed_at > self._terms.lease / LOOKS_IN_A_LEASE:
                renewed_at = now
                self.write()
            self._stop_old_ones(now, min(now - before, _LONGEST_ROUND))
            before = now

    def _ask_store(self, bell: Bell) -> None:
        evicted_at = time.monotonic()
        for now in self._rounds(bell):
            _attempt(self._stop_those_asked_to)
            for live in list(self._unread):
                _attempt(functools.partial(self._stop_orphan, live, now))
            if now - evicted_at > self._evict_seconds:
                evicted_at = now
                _attempt(functools.partial(self._store.evict, self._terms.retention))

    def _stop_those_asked_to(self) -> None:
        if not self._running:
            return
        for stream_id in self._store.stopping():
            self.stop(stream_id, ends.stopped(ends.BY_REQUEST))

    def _stop_old_ones(self, now: float, passed: float) -> None:
        running = list(self._running.values())
        for generation in running:
            if not generation.end_if_too_old(now):
                break  # those behind it are younger
        if not self._recorder.writes_at_once:
            for generation in running:
                generation.live.spend_patience(passed)

    def _stop_orphan(self, live: Live, now: float) -> None:
        generation = self._running.get(live.epoch)
        if generation is None:
            self._unread.discard(live)
        elif self._is_orphan(live, now):
            generation.stop(ends.stopped(ends.NO_READER))

    def _is_orphan(self, live: Live, now: float) -> bool:
        since = live.unread_since
        if since is None:
            return False
        if not live.is_resumable:  # nobody can come back to it: it ends with its last reader
            return now - since > _UNRECORDED_SECONDS
        if not self._terms.orphan_timeout or now - since <= self._terms.orphan_timeout:
            return False
        info = said(self._store, live.stream_id)
        if info is None or info.read_ago > self._terms.orphan_timeout:
            return True
        live.unread_since = now - info.read_ago  # by a reader in another process
        return False

    def _refused(self, live: Live) -> None:
        """End an answer that was taken from this process; if the store has just lost it, it goes on here."""
        if not live.is_resumable:  # it was given up there, and so it may well be taken for lost
            return
        try:
            info = said(self._store, live.stream_id)
        except StoreUnavailable:
            info = None
        if info is not None and live.is_ended_as(info):  # by a write whose answer got lost
            live.confirm_end()
            self._forget(live)
            return
        if info is not None and (info.epoch != live.epoch or info.state != RUNNING):
            generation = self._running.get(live.epoch)
            if generation is not None:
                generation.stop(ends.lost(live.stream_id))
        live.give_up_recording()

    def _lost_recording(self, live: Live) -> None:
        log.error("stream %s cannot be resumed any more: its store was too slow, or does not take it", live.stream_id)
        STATS.count("unrecorded")
        if live.end is not None:
            self._forget(live)

    def _forget(self, live: Live) -> None:
        generation = self._running.pop(live.epoch, None)
        if generation is not None:
            generation.leave()


def said(store: Store, stream_id: str) -> StreamInfo | None:
    """Return what a store knows of a stream; `None`: nothing. Raises `StoreUnavailable`."""
    page = store.read(stream_id, 0, 0)
    return None if page is None else page.info


def _attempt(errand: Callable[[], object]) -> None:
    """Do what needs the store, if it can be asked: what does not must go on all the same, and so must this thread."""
    try:
        errand()
    except StoreUnavailable as error:
        log.debug("the store of streams cannot be asked: %s", error)
    except Exception:
        log.exception("the store of streams failed")
