"""What a recorded stream looks like on the wire: each event has an id, behind which its client can go on. Pure."""

from __future__ import annotations

import functools
from typing import Any, Callable, Collection, Iterator

from flaskstream.resume.ids import event_id, lost_id, start_id
from flaskstream.sse import Event, encode
from flaskstream.stores.protocol import Record
from flaskstream.wire import EventWire, done_id

RESET = "reset"


class Unrecorded(Record):
    """A record that the store does not have, or may have without anybody's knowing: nobody can come back behind it.

    The first one of a delivery carries an id that says so, for the client would keep the one before it, and be told
    again what it has if the store has this one after all. The others carry none; and the end says that it was the end.
    """


unrecorded_of: Callable[[tuple[int, bytes]], Unrecorded] = functools.partial(tuple.__new__, Unrecorded)
"""As `record_of`."""


class Delivery(EventWire):
    """Records as events with ids, and the end that was recorded; and what its reader and this wire tell each other.

    A block alone is that of the next record.

    Args:
        epoch: of the ids that go out.
        retry, restart_retry, heartbeat_form: as of `EventWire`.

    Attributes:
        epoch: see above.
        end: the last record of the stream, once it has been read; those before it may not have gone out.
        sent: the number of the last record that its client has.
        reset: why the client has to forget what it has; `None`: it has not.
        is_first: its client has no id yet: it did not come back.
        can_go_on: tells whether it can be gone on with when this process has ended.
    """

    __slots__ = ("_epoch", "_is_lost", "can_go_on", "end", "epoch", "is_first", "reset", "sent")

    single: Collection[type] = frozenset([Record, bytes])

    def __init__(
        self,
        epoch: str,
        retry: int | None = None,
        restart_retry: int | None = None,
        heartbeat_form: str = "comment",
    ) -> None:
        super().__init__(retry, restart_retry, heartbeat_form)
        self.epoch = epoch
        self._epoch = epoch.encode()
        self.end: Record | None = None
        self.sent = 0
        self.reset: str | None = None
        self.is_first = False
        self.can_go_on: Callable[[], bool] = lambda: True
        self._has_ids = True
        self._is_lost = False

    @property
    def restart(self) -> bytes:
        if not self.can_go_on():
            return b""
        # A browser that has no id yet would ask its question anew.
        own_id = start_id(self.epoch) if self.is_first else None
        return encode(Event("{}", "restart", id=own_id, retry=self._restart_retry))

    def items(self, source: Iterator[Any]) -> Iterator[Any]:
        return source

    def frame(self, item: Any) -> bytes:
        if self._retry is None:
            if type(item) is bytes:  # nearly all of them
                self.is_first = False
                self.sent = sent = self.sent + 1
                return b"id: %b-%d\n%b" % (self._epoch, sent, item)
            if type(item) is Record:
                self.is_first = False
                self.sent = item.number
                return b"id: %b-%d\n%b" % (self._epoch, item.number, item.block)
        if type(item) is bytes:
            item = Record(self.sent + 1, item)
        if isinstance(item, Event):  # of this delivery, and not of the stream
            return self._block(item)
        retry, self._retry = self._retry, None
        head = b"" if retry is None else b"retry: %d\n" % retry
        own_id = self._id_of(item)
        self.is_first = False
        self.sent = item.number
        if own_id is not None:
            head += b"id: %s\n" % own_id.encode()
        return head + bytes(item.block)

    def _id_of(self, record: Record) -> str | None:
        epoch = self.epoch
        if not isinstance(record, Unrecorded):
            return event_id(epoch, record.number)
        if record is self.end:
            return done_id(epoch)
        was_lost, self._is_lost = self._is_lost, True
        return None if was_lost else lost_id(epoch)

    def tokens(self, item: Any) -> int:
        return 0 if isinstance(item, Event) else 1

    def done(self, stream_id: str) -> bytes:
        return self._end() or b""

    def failed(self, error: Exception, stream_id: str) -> bytes:
        return self._end() or super().failed(error, stream_id)

    def _end(self) -> bytes | None:
        """Return the end of the stream, if it is next: a delivery may end before that, with records on their way."""
        end = self.end
        return self.frame(end) if end is not None and end.number == self.sent + 1 else None
