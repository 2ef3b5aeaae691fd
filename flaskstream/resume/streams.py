"""The streams of one blueprint: begun, found, followed and stopped, whichever process produces them."""

from __future__ import annotations

import functools
import logging
import os
import threading
import time
from dataclasses import dataclass
from typing import Any, Callable, Iterator

from flaskstream.background import start
from flaskstream.errors import FlaskStreamError, StoreUnavailable
from flaskstream.interrupt import Bell
from flaskstream.open_streams import GENERATIONS
from flaskstream.resume import ends
from flaskstream.resume.ends import End
from flaskstream.resume.generation import Generation
from flaskstream.resume.live import Live
from flaskstream.resume.reader import Reader, lose
from flaskstream.resume.recorder import Recorder
from flaskstream.resume.wire import Delivery
from flaskstream.sse import Event
from flaskstream.stats import STATS
from flaskstream.stores.protocol import (
    FAILED,
    RUNNING,
    Kept,
    NewStream,
    Record,
    Retention,
    Store,
    StreamInfo,
)

log = logging.getLogger(__name__)

LEASE_SECONDS = 10.0
"""After which a producer that has not renewed its lease is lost."""

SHORTEST_LEASE = 1.0
"""A busy worker must not be taken for a lost one."""

ORPHAN_SECONDS = 120.0
"""After which an answer that nobody follows is stopped."""

_CARE_SECONDS = 0.05
_LONGEST_ROUND = 5 * _CARE_SECONDS  # if one took longer, this process has stood still
_EVICTIONS_IN_A_LIFE = 20  # while the retention keeps a stream that has ended
_EVICT_SECONDS = (1.0, 30.0)  # between two of them, at least and at most
_LOOKS_IN_A_LEASE = 4
_LONGEST_TOUCH = 5.0  # seconds

Source = Callable[[], Iterator[Any]]


@dataclass(frozen=True)
class Begun:
    """What became of a wish to begin a stream.

    Attributes:
        info: of the stream that is there now.
        is_new: it was begun by this.
        is_kept: it is in the store, and can be resumed.
    """

    info: StreamInfo
    is_new: bool
    is_kept: bool = True


class Streams:
    """Produces answers apart from their delivery.

    Args:
        store: where they are kept.
        lease: seconds; see `LEASE_SECONDS`.
        orphan_timeout: seconds; see `ORPHAN_SECONDS`; 0: an answer is produced to its end without readers.
        retention: how much is kept.
        max_duration: seconds that an answer may take; 0: any time.
        max_streams: how many answers this process may produce at once; `None`: any number.
    """

    def __init__(
        self,
        store: Store,
        *,
        lease: float = LEASE_SECONDS,
        orphan_timeout: float = ORPHAN_SECONDS,
        retention: Retention | None = None,
        max_duration: float = 0.0,
        max_streams: int | None = None,
    ) -> None:
        self.store = store
        self._lease = lease
        self._orphan_timeout = orphan_timeout
        self._retention = retention or Retention()
        shortest, longest = _EVICT_SECONDS
        self._evict_seconds = max(shortest, min(self._retention.seconds / _EVICTIONS_IN_A_LIFE, longest))
        self._max_duration = max_duration
        self._max_streams = max_streams
        self._recorder = Recorder(store, lease, on_refused=self._refused, on_written=self._forget)
        self._running: dict[str, Generation] = {}  # by stream id
        self._lock = threading.Lock()
        self._cared_for_in: int | None = None  # a process
        self._bells = (Bell(), Bell())

    def begin(self, new: NewStream, source: Source, is_named: bool = False) -> Begun:
        """Begin a stream, unless it is there: one that failed before it said anything is not.

        Args:
            new: the stream.
            source: makes the generator of its events, called where that will run.
            is_named: whoever asks may ask again for the same stream, and not for another one.

        Raises:
            TooManyStreams: this process produces as many as it may.
            ShuttingDown: it is being stopped.
            StoreUnavailable: it is named, and whether it is there cannot be told.
        """
        self._care()
        begun = self._begun(new, is_named)
        if begun.is_new:
            self._produce(begun, source)
        else:
            STATS.count("resumed")
        return begun

    def _begun(self, new: NewStream, is_named: bool) -> Begun:
        try:
            info, is_new = self.store.begin(new, self._lease)
            if not is_new and info.state == FAILED and info.last <= 1:
                self.store.forget(info.stream_id, info.epoch)
                info, is_new = self.store.begin(new, self._lease)
            return Begun(info, is_new)
        except StoreUnavailable as error:
            if is_named:
                raise
            log.error("stream %s cannot be resumed: %s", new.stream_id, error)
            STATS.count("unrecorded")
            info = StreamInfo(new.stream_id, new.epoch, new.owner, new.request, RUNNING, 0, True, False, 0.0)
            return Begun(info, is_new=True, is_kept=False)

    def _produce(self, begun: Begun, source: Source) -> None:
        info = begun.info
        try:
            place = GENERATIONS.enter(self._max_streams)
        except FlaskStreamError as error:
            STATS.refused(error.code)
            if begun.is_kept:
                self.store.forget(info.stream_id, info.epoch)
            raise
        live = Live(info.stream_id, info.epoch, begun.is_kept, self.store.shared, self._lost_recording)
        self._running[live.stream_id] = generation = Generation(live, source, place, self._max_duration, self._more)
        STATS.count("produced")
        generation.start()
        for bell in self._bells:
            bell.ring()

    def _more(self, live: Live) -> None:
        if live.is_resumable:
            self._recorder.write(live)
        elif live.end is not None:
            self._forget(live)

    def info(self, stream_id: str) -> StreamInfo | None:
        """Return what is known of a stream; `None`: nothing. Raises `StoreUnavailable`."""
        self._care()
        info = self._said(stream_id)
        return self._said(stream_id) if info is not None and lose(self.store, info) else info

    def _said(self, stream_id: str) -> StreamInfo | None:
        page = self.store.read(stream_id, 0, 0)
        return None if page is None else page.info

    def find(self, epoch: str) -> StreamInfo | None:
        """Return what is known of the stream with this epoch; `None`: nothing. Raises `StoreUnavailable`."""
        stream_id = self.store.find(epoch)
        return None if stream_id is None else self.info(stream_id)

    def kept(self) -> Kept | None:
        """Return how much the store keeps; `None`: it cannot be asked."""
        try:
            return self.store.kept()
        except StoreUnavailable:
            return None

    def stop(self, stream_id: str) -> None:
        """Stop the production of a stream, wherever it is. Raises `StoreUnavailable`."""
        if not self._stop_running(stream_id, ends.stopped(ends.BY_REQUEST)):
            self.store.stop(stream_id)

    def is_resumable(self, info: StreamInfo) -> bool:
        """Tell whether the events of a stream have ids as yet, as far as this process knows."""
        live = self._live(info)
        return live is None or live.is_resumable

    def _live(self, info: StreamInfo) -> Live | None:
        generation = self._running.get(info.stream_id)
        return generation.live if generation is not None and generation.live.epoch == info.epoch else None

    def follow(self, info: StreamInfo, after: int, delivery: Delivery) -> Iterator[Record | Event]:
        """Return the records of a stream behind one of them, as `Reader.records` does."""
        live = self._live(info)
        touch = min(_LONGEST_TOUCH, self._orphan_timeout / 3) if self._orphan_timeout else _LONGEST_TOUCH
        look = self._lease / _LOOKS_IN_A_LEASE
        return Reader(self.store, live, info.stream_id, after, delivery, look, touch).records()

    # What has to be looked after while streams are produced

    def _care(self) -> None:
        if self._cared_for_in == os.getpid():
            return
        with self._lock:
            if self._cared_for_in != os.getpid():
                self._cared_for_in = os.getpid()
                for care, bell in zip((self._keep_time, self._ask_store), self._bells):
                    start(functools.partial(care, bell), lambda: False, "flaskstream-streams")

    def _rounds(self, bell: Bell) -> Iterator[float]:
        while True:
            bell.wait(_CARE_SECONDS if self._running else self._evict_seconds)
            yield time.monotonic()

    def _keep_time(self, bell: Bell) -> None:
        """Do what has to be done in time, and so without waiting for the store."""
        renewed_at = before = time.monotonic()
        for now in self._rounds(bell):
            if now - renewed_at > self._lease / _LOOKS_IN_A_LEASE:
                renewed_at = now
                self._renew()
            self._stop_old_ones(now, min(now - before, _LONGEST_ROUND))
            before = now

    def _ask_store(self, bell: Bell) -> None:
        evicted_at = time.monotonic()
        for now in self._rounds(bell):
            _attempt(self._stop_those_asked_to)
            for generation in list(self._running.values()):
                _attempt(functools.partial(self._stop_orphan, generation, now))
            if now - evicted_at > self._evict_seconds:
                evicted_at = now
                _attempt(functools.partial(self.store.evict, self._retention))

    def _renew(self) -> None:
        for generation in list(self._running.values()):
            self._more(generation.live)

    def _stop_those_asked_to(self) -> None:
        if not self._running or not self.store.shared:
            return
        for stream_id in self.store.stopping():
            self._stop_running(stream_id, ends.stopped(ends.BY_REQUEST))

    def _stop_old_ones(self, now: float, passed: float) -> None:
        for generation in list(self._running.values()):
            generation.check_deadline(now)
            generation.live.spend_patience(passed)

    def _stop_orphan(self, generation: Generation, now: float) -> None:
        if self._is_orphan(generation.live, now):
            generation.stop(ends.stopped(ends.NO_READER))

    def _is_orphan(self, live: Live, now: float) -> bool:
        since = live.unread_since
        if not self._orphan_timeout or since is None or now - since <= self._orphan_timeout:
            return False
        info = self._said(live.stream_id) if live.is_anywhere_else() else None
        if info is None or info.read_ago > self._orphan_timeout:
            return True
        live.unread_since = now - info.read_ago  # by a reader in another process
        return False

    def _refused(self, live: Live) -> None:
        """End an answer that was taken from this process; if the store has just lost it, it goes on here."""
        try:
            info = self._said(live.stream_id)
        except StoreUnavailable:
            info = None
        if info is not None and (info.epoch != live.epoch or info.state != RUNNING):
            self._stop_running(live.stream_id, ends.lost(live.stream_id))
        live.give_up_recording()

    def _stop_running(self, stream_id: str, end: End) -> bool:
        generation = self._running.get(stream_id)
        if generation is not None:
            generation.stop(end)
        return generation is not None

    def _lost_recording(self, live: Live) -> None:
        log.error("stream %s cannot be resumed any more: its store was too slow, or does not take it", live.stream_id)
        STATS.count("unrecorded")
        if live.end is not None:
            self._forget(live)

    def _forget(self, live: Live) -> None:
        generation = self._running.get(live.stream_id)
        if generation is not None and generation.live is live:
            del self._running[live.stream_id]
            generation.leave()


def _attempt(errand: Callable[[], object]) -> None:
    """Do what needs the store, if it can be asked: what does not must go on all the same, and so must this thread."""
    try:
        errand()
    except StoreUnavailable as error:
        log.debug("the store of streams cannot be asked: %s", error)
    except Exception:
        log.exception("the store of streams failed")
