"""The store of one process: what it keeps is gone with it, and no other worker sees it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Callable, Iterator, Sequence

from flaskstream.native import original
from flaskstream.stores.protocol import (
    EVICTED,
    FAILED,
    RUNNING,
    Batch,
    Kept,
    NewStream,
    Page,
    Retention,
    StreamInfo,
    record_of,
)
from flaskstream.stores.watchers import Watchers


@dataclass
class _Stream:
    """A stream and its records. Times are of `time.monotonic`."""

    new: NewStream
    held_until: float
    read_at: float
    state: str = RUNNING
    ended_at: float = 0.0
    last: int = 0
    size: int = 0
    stop_requested: bool = False
    blocks: list[bytes] = field(default_factory=list)

    def info(self, now: float) -> StreamInfo:
        new = self.new
        held = now < self.held_until
        read_ago = now - self.read_at
        return StreamInfo(
            new.stream_id, new.epoch, new.owner, new.request, self.state, self.last, held, self.stop_requested, read_ago
        )

    def refuses(self, batch: Batch) -> bool:
        has_gap = bool(batch.records) and batch.records[0].number > self.last + 1
        return self.new.epoch != batch.epoch or self.state != RUNNING or has_gap

    def is_asked_to_stop(self) -> bool:
        return self.state == RUNNING and self.stop_requested

    def add(self, blocks: list[bytes]) -> None:
        self.blocks += blocks
        self.last += len(blocks)
        self.size += sum(map(len, blocks))

    def become(self, state: str, now: float) -> None:
        self.state = state
        if state != RUNNING:
            self.ended_at = now

    def gone_at(self, now: float) -> float | None:
        """When it ended, or its producer was lost; `None`: it goes on."""
        if self.state != RUNNING:
            return self.ended_at
        return self.held_until if now >= self.held_until else None

    def empty(self, now: float) -> None:
        self.become(EVICTED, now)
        self.blocks = []
        self.size = 0


class MemoryStore:
    """Keeps streams in this process. Nothing in it waits: its lock is held for microseconds.

    The lock may be taken again by its thread: the collector of garbage may end a reader in the middle of a call.
    """

    shared = False
    instant = True

    def __init__(self) -> None:
        self._lock = original("_thread", "RLock")()
        self._streams: dict[str, _Stream] = {}
        self._keys: dict[tuple[str | None, str], str] = {}
        self._epochs: dict[str, str] = {}
        self._stopping: set[str] = set()
        self._watchers = Watchers()
        self._evicted = 0

    def begin(self, new: NewStream, lease: float) -> tuple[StreamInfo, bool]:
        """See `Store.begin`."""
        now = time.monotonic()
        with self._lock:
            there = self._there(new)
            if there is not None:
                return there.info(now), False
            self._drop(new.stream_id)
            stream = self._streams[new.stream_id] = _Stream(new, held_until=now + lease, read_at=now)
            self._epochs[new.epoch] = new.stream_id
            if new.key is not None:
                self._keys[new.owner, new.key] = new.stream_id
            info = stream.info(now)
        self._watchers.notify([new.stream_id])
        return info, True

    def append(self, batches: Sequence[Batch], lease: float) -> Sequence[str]:
        """See `Store.append`."""
        now = time.monotonic()
        with self._lock:
            refused = [batch.stream_id for batch in batches if not self._added(batch, now, lease)]
        self._watchers.notify(batch.stream_id for batch in batches if batch.records or batch.state != RUNNING)
        return refused

    def read(self, stream_id: str, after: int, limit: int) -> Page | None:
        """See `Store.read`."""
        now = time.monotonic()
        with self._lock:
            stream = self._streams.get(stream_id)
            if stream is None:
                return None
            start = max(after, 0)
            blocks = stream.blocks[start : start + max(limit, 0)]
            records = tuple(map(record_of, enumerate(blocks, start + 1)))
            return Page(stream.info(now), records)

    def find(self, epoch: str) -> str | None:
        """See `Store.find`."""
        return self._epochs.get(epoch)

    def lose(self, stream_id: str, epoch: str, block: bytes) -> bool:
        """See `Store.lose`."""
        now = time.monotonic()
        with self._lock:
            stream = self._streams.get(stream_id)
            if stream is None or stream.new.epoch != epoch or stream.state != RUNNING or now < stream.held_until:
                return False
            stream.add([block])
            stream.become(FAILED, now)
        self._watchers.notify([stream_id])
        return True

    def stop(self, stream_id: str) -> None:
        """See `Store.stop`."""
        with self._lock:
            stream = self._streams.get(stream_id)
            if stream is None or stream.state != RUNNING:
                return
            stream.stop_requested = True
            self._stopping.add(stream_id)
        self._watchers.notify([stream_id])

    def stopping(self) -> Sequence[str]:
        """See `Store.stopping`."""
        with self._lock:
            streams = ((stream_id, self._streams.get(stream_id)) for stream_id in self._stopping)
            asked = [stream_id for stream_id, stream in streams if stream is not None and stream.is_asked_to_stop()]
            self._stopping = set(asked)
        return asked

    def touch(self, stream_ids: Sequence[str]) -> None:
        """See `Store.touch`."""
        now = time.monotonic()
        with self._lock:
            for stream_id in stream_ids:
                if stream_id in self._streams:
                    self._streams[stream_id].read_at = now

    def watch(self, stream_id: str, notify: Callable[[], None]) -> Callable[[], None]:
        """See `Store.watch`."""
        return self._watchers.add(stream_id, notify)

    def forget(self, stream_id: str, epoch: str) -> None:
        """See `Store.forget`."""
        with self._lock:
            if self._epochs.get(epoch) == stream_id:
                self._drop(stream_id)
        self._watchers.notify([stream_id])

    def evict(self, retention: Retention) -> int:
        """See `Store.evict`."""
        now = time.monotonic()
        with self._lock:
            self._drop_remembered(now - retention.seconds)
            evicted = list(self._surplus(retention, now))
            for stream in evicted:
                stream.empty(now)
            self._evicted += len(evicted)
        self._watchers.notify(stream.new.stream_id for stream in evicted)
        return len(evicted)

    def kept(self) -> Kept:
        """See `Store.kept`."""
        with self._lock:
            streams = self._with_records()
            return Kept(
                streams=len(streams),
                running=sum(stream.state == RUNNING for stream in streams),
                records=sum(stream.last for stream in streams),
                bytes=sum(stream.size for stream in streams),
                evicted=self._evicted,
            )

    def close(self) -> None:
        """See `Store.close`. There is nothing to give back, and what is kept stays."""

    def _there(self, new: NewStream) -> _Stream | None:
        """The stream with this id, or else with this key, that has its records."""
        ids = [new.stream_id] if new.key is None else [new.stream_id, self._keys.get((new.owner, new.key), "")]
        found = (self._streams.get(stream_id) for stream_id in ids)
        return next((stream for stream in found if stream is not None and stream.state != EVICTED), None)

    def _added(self, batch: Batch, now: float, lease: float) -> bool:
        stream = self._streams.get(batch.stream_id)
        if stream is None or stream.refuses(batch):
            return False
        if batch.records:
            known = max(0, stream.last + 1 - batch.records[0].number)
            stream.add([block for _, block in batch.records[known:]])
        stream.become(batch.state, now)
        stream.held_until = now + lease
        return True

    def _drop(self, stream_id: str) -> None:
        stream = self._streams.pop(stream_id, None)
        if stream is None:
            return
        self._epochs.pop(stream.new.epoch, None)
        name = (stream.new.owner, stream.new.key or "")
        if self._keys.get(name) == stream_id:  # another one may have taken the key since this one was evicted
            del self._keys[name]

    def _with_records(self) -> list[_Stream]:
        return [stream for stream in self._streams.values() if stream.state != EVICTED]

    def _drop_remembered(self, before: float) -> None:
        remembered = [stream for stream in self._streams.values() if stream.state == EVICTED]
        for stream in remembered:
            if stream.ended_at <= before:
                self._drop(stream.new.stream_id)

    def _surplus(self, retention: Retention, now: float) -> Iterator[_Stream]:
        """The streams that have to go, those that ended first first."""
        kept = self._with_records()
        streams, size = len(kept), sum(stream.size for stream in kept)
        gone = [(at, stream) for at, stream in ((stream.gone_at(now), stream) for stream in kept) if at is not None]
        for at, stream in sorted(gone, key=lambda pair: pair[0]):
            if at > now - retention.seconds and streams <= retention.streams and size <= retention.bytes:
                return
            yield stream
            streams, size = streams - 1, size - stream.size
