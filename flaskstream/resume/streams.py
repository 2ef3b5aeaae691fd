"""The streams of one blueprint: begun, found, followed and stopped, whichever process produces them."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Iterator

from flaskstream.errors import ProducerLost, StoreUnavailable
from flaskstream.resume import ends
from flaskstream.resume.productions import LOOKS_IN_A_LEASE, OnAnswer, Productions, Source, said
from flaskstream.resume.reader import Reader, lose
from flaskstream.resume.terms import Terms
from flaskstream.resume.wire import Delivery
from flaskstream.sse import Event
from flaskstream.stats import STATS
from flaskstream.stores.protocol import FAILED, RUNNING, Kept, NewStream, Record, Store, StreamInfo
from flaskstream.waiting import Turn
from flaskstream.wire import Together

log = logging.getLogger(__name__)

_LONGEST_TOUCH = 5.0  # seconds
_TOUCHES_IN_TIME = 3


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
    """Answers that are produced apart from their delivery.

    Args:
        store: where they are kept.
        terms: for how long.
        on_answer: called with the report of each, in the process that has produced it.
    """

    def __init__(self, store: Store, terms: Terms | None = None, on_answer: OnAnswer | None = None) -> None:
        self._store = store
        self._terms = terms or Terms()
        self._here = Productions(store, self._terms, on_answer)

    @property
    def is_shared(self) -> bool:
        """Whether other processes see these streams."""
        return self._store.shared

    def begin(self, new: NewStream, source: Source, is_named: bool = False) -> Begun:
        """Begin a stream, unless it is there: one that failed before it said anything is not.

        Args:
            new: the stream.
            source: makes the generator of its events, called where that will run, with a turn that it may begin.
            is_named: whoever asks may ask again for the same stream, and not for another one.

        Raises:
            TooManyStreams: this process produces as many as it may.
            ShuttingDown: it is being stopped.
            StoreUnavailable: it is named, and whether it is there cannot be told.
        """
        self._here.care()
        begun = self._begun(new, is_named)
        if begun.is_new:
            self._here.produce(begun.info, source, begun.is_kept)
        else:
            STATS.count("resumed")
        return begun

    def _begun(self, new: NewStream, is_named: bool) -> Begun:
        try:
            info, is_new = self._store.begin(new, self._terms.lease)
            if not is_new and self._may_be_asked_again(info, new):
                self._store.forget(info.stream_id, info.epoch)
                info, is_new = self._store.begin(new, self._terms.lease)
            return Begun(self._with_what_is_here(info), is_new)
        except StoreUnavailable as error:
            if is_named:
                raise
            log.error("stream %s cannot be resumed: %s", new.stream_id, error)
            STATS.count("unrecorded")
            info = StreamInfo(new.stream_id, new.epoch, new.owner, new.request, RUNNING, 0, True, False, 0.0)
            return Begun(info, is_new=True, is_kept=False)

    def _may_be_asked_again(self, info: StreamInfo, new: NewStream) -> bool:
        """Tell whether a stream that is there gives way: it said nothing, or was lost where that is agreed."""
        is_same = (info.owner, info.request) == (new.owner, new.request)
        if not is_same or info.state != FAILED:
            return False
        return info.last <= 1 or (self._terms.restart == "resume" and self._is_lost(info))

    def _is_lost(self, info: StreamInfo) -> bool:
        page = self._store.read(info.stream_id, info.last - 1, 1)
        records = () if page is None else page.records
        return bool(records) and ends.recorded_failure(records[0].block).code == ProducerLost.code

    def info(self, stream_id: str) -> StreamInfo | None:
        """Return what is known of a stream; `None`: nothing. Raises `StoreUnavailable`, unless it is produced here."""
        self._here.care()
        try:
            info = said(self._store, stream_id)
        except StoreUnavailable:
            here = [info for info in self._here.infos() if info.stream_id == stream_id]
            if not here:
                raise
            return here[0]
        if info is None:
            return None
        if self._here.live(info.epoch) is None and lose(self._store, info):  # what is produced here is not
            return said(self._store, stream_id)
        return self._with_what_is_here(info)

    def _with_what_is_here(self, info: StreamInfo) -> StreamInfo:
        """Return what is known of a stream, with what readers have before the store where both are in this process."""
        live = self._here.live(info.epoch)
        return info if live is None else replace(info, last=max(info.last, live.shown))

    def find(self, epoch: str) -> StreamInfo | None:
        """Return what is known of the stream with this epoch; errors as for `info`."""
        live = self._here.live(epoch)
        stream_id = live.stream_id if live is not None else self._store.find(epoch)
        return None if stream_id is None else self.info(stream_id)

    def kept(self) -> Kept | None:
        """Return how much the store keeps; `None`: it cannot be asked."""
        try:
            self._here.write_what_waits()
            return self._store.kept()
        except StoreUnavailable:
            return None

    def stop(self, stream_id: str) -> None:
        """Stop the production of a stream, wherever it is. Raises `StoreUnavailable`."""
        if not self._here.stop(stream_id, ends.stopped(ends.BY_REQUEST)):
            self._store.stop(stream_id)

    def is_resumable(self, info: StreamInfo) -> bool:
        """Tell whether the events of a stream have ids as yet, as far as this process knows."""
        live = self._here.live(info.epoch)
        return live is None or live.is_resumable

    def follow(
        self, info: StreamInfo, after: int, delivery: Delivery, turn: Turn | None = None
    ) -> Iterator[Record | Together | Event | None]:
        """Return the records of a stream behind one of them, as `Reader.records` does."""
        live = self._here.live(info.epoch)
        in_time = self._terms.orphan_timeout / _TOUCHES_IN_TIME or _LONGEST_TOUCH
        look = self._terms.lease / LOOKS_IN_A_LEASE
        touch = min(_LONGEST_TOUCH, in_time)
        return Reader(self._store, live, info.stream_id, after, delivery, look, touch, turn).records()
