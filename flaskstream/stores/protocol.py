"""What a store keeps of a stream, and what it is asked: one small protocol, and as many stores as have a reason to be.

A store keeps *records*: one event each, numbered from 1 on without a gap. It knows nothing of models, clients or Flask,
and decides nothing but what has to be decided for all workers at once: who produces a stream, and how it ended. All of
its calls may wait for a disk or a network, and none of them may hold up another greenlet of the same thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Callable, NamedTuple, Protocol, Sequence, Tuple, cast

RUNNING = "running"
"""Its producer goes on."""
DONE = "done"
"""It is whole."""
FAILED = "failed"
"""It ended with an error, which is its last record."""
STOPPED = "stopped"
"""Somebody stopped it; its last record says so."""
EVICTED = "evicted"
"""Its records are gone, by the retention's limits. That it was there is remembered for a while."""

STATES = (RUNNING, DONE, FAILED, STOPPED, EVICTED)


class Record(NamedTuple):
    """One event.

    Attributes:
        number: its place in the stream, from 1 on.
        block: its lines as they go out, with the blank line behind and without `id` and `retry`, which each delivery
            adds for itself.
    """

    number: int
    block: bytes


record_of = cast(Callable[[Tuple[int, bytes]], Record], partial(tuple.__new__, Record))
"""Makes one of both, given as a pair: no function of Python's is called for it, and there is one for each token."""


@dataclass(frozen=True)
class NewStream:
    """A stream that is to be begun.

    Attributes:
        stream_id: names it; not to be guessed.
        epoch: names this one history of it, in the ids of its events; not to be guessed, and never used again.
        owner: whose it is; `None`: nobody's.
        key: of all attempts to begin the same answer the first one does; `None`: there is one attempt.
        request: a digest of what was asked, to tell a repetition from another question under the same key.
    """

    stream_id: str
    epoch: str
    owner: str | None = None
    key: str | None = None
    request: str = ""


@dataclass(frozen=True)
class StreamInfo:
    """What is known of a stream, at one moment.

    Attributes:
        stream_id, epoch, owner, request: as it was begun.
        state: one of `STATES`.
        last: the number of its last record; 0: it has none.
        is_held: its producer has renewed its lease in time. Where not, and it is running, its producer is lost.
        stop_requested: its producer is asked to stop.
        read_ago: seconds since it was begun, or since a reader in any process has last said that it is there.
    """

    stream_id: str
    epoch: str
    owner: str | None
    request: str
    state: str
    last: int
    is_held: bool
    stop_requested: bool
    read_ago: float


@dataclass(frozen=True)
class Batch:
    """What a producer adds to its stream. With no records it only renews the lease.

    Attributes:
        stream_id, epoch: which stream, and which history of it.
        records: their numbers follow upon each other.
        state: the stream's, once they are in.
    """

    stream_id: str
    epoch: str
    records: tuple[Record, ...] = ()
    state: str = RUNNING


@dataclass(frozen=True)
class Page:
    """Some records of a stream, and what was known of it when they were read: `info.last` counts these at least."""

    info: StreamInfo
    records: tuple[Record, ...]


@dataclass(frozen=True)
class Retention:
    """How much is kept. Streams that still run are not counted as too old, but their bytes are.

    Attributes:
        seconds: since a stream has ended.
        streams: how many of them, running ones included.
        bytes: of all their records.
    """

    seconds: float = 3600.0
    streams: int = 10_000
    bytes: int = 256 * 1024 * 1024


@dataclass(frozen=True)
class Kept:
    """How much there is.

    Attributes:
        streams: with their records; running ones included.
        running: of these.
        records, bytes: of all of them.
        evicted: streams that the retention has taken away, since the store was made.
    """

    streams: int
    running: int
    records: int
    bytes: int
    evicted: int


class Store(Protocol):
    """Keeps streams. Made before a worker is forked and used after it: it connects when it is first asked.

    Each method raises `flaskstream.errors.StoreUnavailable` if the store cannot be asked now; what was asked has then
    either happened or not, and may be asked again.
    """

    shared: bool
    """Other processes see what this one writes."""

    # One that is not shared may also have `instant = True`: none of its calls waits, it can always be asked, and all
    # that it keeps is gone with this process. Then readers have events where they are produced, and these come here
    # some at a time, perhaps in the hub of gevent.

    def begin(self, new: NewStream, lease: float) -> tuple[StreamInfo, bool]:
        """Begin a stream unless it, or one with its key, is there; return what is there then, and whether it is new.

        An evicted one is not there: a new one takes its place. Two callers at the same instant, in whatever processes,
        begin one stream.

        Args:
            new: the stream. A key counts for its owner alone.
            lease: seconds for which the producer holds it; each `append` renews it for so long.
        """
        ...

    def append(self, batches: Sequence[Batch], lease: float) -> Sequence[str]:
        """Add to streams, in one write; return the ids of those that refused: their producer must stop.

        A stream refuses that is not there, has another epoch, or is not running, and records that would leave a gap.
        Records that are there already are left out, so that a write whose answer got lost can be repeated.
        """
        ...

    def read(self, stream_id: str, after: int, limit: int) -> Page | None:
        """Return the records whose numbers are greater than `after`, in order and at most `limit`; `None`: unknown."""
        ...

    def find(self, epoch: str) -> str | None:
        """Return the id of the stream with this epoch, be it evicted; `None`: there is none."""
        ...

    def lose(self, stream_id: str, epoch: str, block: bytes) -> bool:
        """End a running stream whose lease is over with this record, as `FAILED`; return whether it did."""
        ...

    def stop(self, stream_id: str) -> None:
        """Ask the stream's producer to stop, if it runs."""
        ...

    def stopping(self) -> Sequence[str]:
        """Return the ids of the running streams whose producers are asked to stop. It is asked 20 times a second."""
        ...

    def touch(self, stream_ids: Sequence[str]) -> None:
        """Say that these streams have readers here."""
        ...

    def watch(self, stream_id: str, notify: Callable[[], None]) -> Callable[[], None]:
        """Have `notify` called soon after a stream has got a record or another state; return what ends that.

        Whatever process did it, and within 0.1 s on one machine. It may be called for nothing, and from another thread
        or greenlet; it must not wait. While the store cannot be asked it may not be called at all: who waits looks by
        itself now and then.
        """
        ...

    def forget(self, stream_id: str, epoch: str) -> None:
        """Take this history of a stream away as if it had never been."""
        ...

    def evict(self, retention: Retention) -> int:
        """Take away the records of the streams that ended first, until the limits hold; return of how many.

        Running ones are left, unless their producer is lost. That an evicted one was there is remembered for as long
        again as the retention's time.
        """
        ...

    def kept(self) -> Kept:
        """Return how much there is."""
        ...

    def close(self) -> None:
        """Give connections and threads back. Any number of times."""
        ...


def is_instant(store: Store) -> bool:
    """Tell whether nothing in a store waits, and nothing in it outlives this process.

    Its own class has to say so: one that is derived from it may do other things.
    """
    return not store.shared and vars(type(store)).get("instant") is True
