"""The store of many machines: Redis 6 or later, or Valkey, which keeps each stream as a Redis Stream.

Redis has to keep what it is given: with `maxmemory-policy noeviction` and, if streams have to survive its own restart,
persistence. Where it drops keys by itself a stream reads as evicted, and never with a gap. Redis Cluster works where
the prefix is a hash tag (`?prefix={flaskstream}:`) and the URL names the node of that slot.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from typing import Any, Callable, Iterator, Sequence

from flaskstream.stores.protocol import (
    EVICTED,
    Batch,
    Kept,
    NewStream,
    Page,
    Record,
    Retention,
    StreamInfo,
)
from flaskstream.stores.redis.link import Link
from flaskstream.stores.redis.listener import Listener

RECORDS_AT_ONCE = 1000
"""What Redis gives in one go: about a millisecond in which it serves nobody else."""
STREAMS_AT_ONCE = 100
"""What it takes away in one go."""


class RedisStore:
    """Keeps streams in Redis, for workers on any number of machines.

    Args:
        url: `redis://[user:password@]host:port/db`, `rediss://...` or `unix://path`; the parameters are redis-py's
            (`socket_timeout`, 2 s; `socket_connect_timeout`, 2 s; `max_connections`, 32 in each process; `timeout`, 2 s
            for a free one) and `prefix`, of all keys (`flaskstream:`).

    Raises:
        InvalidSetting: the URL is not understood, or the package `redis` is missing.
    """

    shared = True

    def __init__(self, url: str) -> None:
        self._link = Link(url)
        self._listeners: dict[int, Listener] = {}

    def begin(self, new: NewStream, lease: float) -> tuple[StreamInfo, bool]:
        """See `Store.begin`."""
        owner = "" if new.owner is None else f"={new.owner}"
        key = "" if new.key is None else _key_name(new.owner, new.key)
        info, is_new = self._link.ask("begin", new.stream_id, new.epoch, owner, key, new.request, _milliseconds(lease))
        return _info(info), bool(is_new)

    def append(self, batches: Sequence[Batch], lease: float) -> Sequence[str]:
        """See `Store.append`."""
        arguments = [argument for batch in batches for argument in _said(batch)]
        return [_text(one) for one in self._link.ask("append", _milliseconds(lease), *arguments)] if batches else []

    def read(self, stream_id: str, after: int, limit: int) -> Page | None:
        """See `Store.read`."""
        start = max(after, 0)
        records: list[Record] = []
        epoch = None
        while True:
            first = start + len(records) + 1
            page = self._read_some(stream_id, first, min(limit - len(records), RECORDS_AT_ONCE))
            if page is None or page.info.state == EVICTED:
                return page
            if epoch not in (None, page.info.epoch):  # another stream has taken its place meanwhile
                records, epoch = [], None
                continue
            epoch = page.info.epoch
            records += page.records
            if not page.records or len(records) >= limit or records[-1].number >= page.info.last:
                return Page(page.info, tuple(records))

    def find(self, epoch: str) -> str | None:
        """See `Store.find`."""
        found = self._link.ask("find", epoch)
        return None if found is None else _text(found)

    def lose(self, stream_id: str, epoch: str, block: bytes) -> bool:
        """See `Store.lose`."""
        return bool(self._link.ask("lose", stream_id, epoch, block))

    def stop(self, stream_id: str) -> None:
        """See `Store.stop`."""
        self._link.ask("stop", stream_id)

    def stopping(self) -> Sequence[str]:
        """See `Store.stopping`."""
        return [_text(one) for one in self._link.members("stopping")]

    def touch(self, stream_ids: Sequence[str]) -> None:
        """See `Store.touch`."""
        if stream_ids:
            self._link.ask("touch", *stream_ids)

    def watch(self, stream_id: str, notify: Callable[[], None]) -> Callable[[], None]:
        """See `Store.watch`."""
        pid = os.getpid()
        listener = self._listeners.get(pid) or self._listeners.setdefault(pid, Listener(self._link))
        return listener.watch(stream_id, notify)

    def forget(self, stream_id: str, epoch: str) -> None:
        """See `Store.forget`."""
        self._link.ask("forget", stream_id, epoch)

    def evict(self, retention: Retention) -> int:
        """See `Store.evict`."""
        limits = (f"{retention.seconds:f}", retention.streams, retention.bytes)
        total, goes_on = 0, True
        while goes_on:
            evicted, goes_on = self._link.ask("evict", *limits, STREAMS_AT_ONCE)
            total += evicted
        return total

    def kept(self) -> Kept:
        """See `Store.kept`."""
        return Kept(*self._link.ask("kept"))

    def close(self) -> None:
        """See `Store.close`."""
        listener = self._listeners.pop(os.getpid(), None)
        if listener is not None:
            listener.close()
        self._link.close()

    def _read_some(self, stream_id: str, first: int, limit: int) -> Page | None:
        answer = self._link.ask("read", stream_id, first - 1, limit)
        if answer is None:
            return None
        info, lengths, blocks = answer
        ends = list(itertools.accumulate(map(int, lengths.split())))
        cuts = zip([0, *ends], ends)
        return Page(_info(info), tuple(Record(first + i, blocks[start:end]) for i, (start, end) in enumerate(cuts)))


def _info(answer: Sequence[Any]) -> StreamInfo:
    stream_id, epoch, owner, request, state, last, is_held, stop, read_ago = answer
    return StreamInfo(
        _text(stream_id),
        _text(epoch),
        None if owner is None else _text(owner),
        _text(request),
        _text(state),
        last,
        bool(is_held),
        bool(stop),
        max(read_ago, 0) / 1000,
    )


def _said(batch: Batch) -> Iterator[Any]:
    """A batch as the script `append` takes it."""
    yield from (batch.stream_id, batch.epoch, batch.state)
    yield batch.records[0].number if batch.records else 1
    yield len(batch.records)
    yield from (record.block for record in batch.records)


def _key_name(owner: str | None, key: str) -> str:
    """A key counts for its owner alone, and may be of any length."""
    return hashlib.sha256(json.dumps([owner, key]).encode("ascii")).hexdigest()


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000)


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogatepass")
