"""Programs that `test_store_redis.py` runs in processes of their own: `python redis_programs.py NAME URL`, JSON out."""

from __future__ import annotations

import sys

if sys.argv[1] != "fork-threads":
    from gevent import monkey

    monkey.patch_all()

import collections
import json
import os
import random
import time
from typing import Any, Callable

from flaskstream.errors import StoreUnavailable
from flaskstream.stores import open_store
from flaskstream.stores.protocol import Batch, NewStream, Record, Store

TICK_SECONDS = 0.02


def begun(store: Store, stream_id: str = "s") -> Store:
    store.begin(NewStream(stream_id, f"epoch-of-{stream_id}"), 60)
    store.append([Batch(stream_id, f"epoch-of-{stream_id}", (Record(1, b"one"),))], 60)
    return store


def slow(store: Store) -> Any:
    """Ask a Redis that is stopped meanwhile: what came, and how often another greenlet had its turn."""
    import gevent

    ticks = []

    def tick() -> None:
        while True:
            ticks.append(time.monotonic())
            gevent.sleep(TICK_SECONDS)

    begun(store)
    ticking = gevent.spawn(tick)
    print("ready", flush=True)  # noqa: T201 - the test stops the server now
    sys.stdin.readline()
    started, first = time.monotonic(), len(ticks)
    try:
        store.read("s", 0, 10)
        came = "an answer"
    except StoreUnavailable:
        came = "unavailable"
    seconds, count = time.monotonic() - started, len(ticks) - first
    ticking.kill()
    return {"came": came, "seconds": seconds, "ticks": count}


def crowd(store: Store) -> Any:
    """Read from a thousand greenlets at once, which watch, too; count what they got."""
    import gevent

    begun(store)
    told: list[int] = []
    ends = [store.watch(f"s{number % 10}", lambda number=number: told.append(number)) for number in range(1000)]
    readers = [gevent.spawn(store.read, "s", 0, 10) for _ in range(1000)]
    gevent.joinall(readers)
    good = sum(reader.value is not None and len(reader.value.records) == 1 for reader in readers)
    deadline = time.monotonic() + 10
    while len(set(told)) < 1000 and time.monotonic() < deadline:  # a subscription that is confirmed is news
        gevent.sleep(TICK_SECONDS)
    for end in ends:
        end()
    return {"good": good, "told": len(set(told))}


def killed(store: Store) -> Any:
    """Read from greenlets half of which are killed somewhere in between; count what the others got."""
    import gevent

    for name in "abcd":
        store.begin(NewStream(name, name), 60)
        store.append([Batch(name, name, tuple(Record(n, name.encode() * 200) for n in range(1, 300)))], 60)
    came: collections.Counter[str] = collections.Counter()

    def read(name: str) -> None:
        try:
            page = store.read(name, 0, 300)
            assert page is not None
            is_right = len(page.records) == 299 and {record.block for record in page.records} == {name.encode() * 200}
            came["whole" if is_right else "another's"] += 1
        except StoreUnavailable as error:
            came[str(error)] += 1

    chance = random.Random(7)
    for _ in range(40):
        readers = [gevent.spawn(read, chance.choice("abcd")) for _ in range(8)]
        gevent.sleep(chance.random() * 0.004)
        for reader in chance.sample(readers, 4):
            reader.kill(block=False)
        gevent.joinall(readers)
    return came


def fork(store: Store) -> Any:
    """Use a store before a fork, and on both sides of it after that; say what each read and was told."""
    begun(store)
    told: list[str] = []
    end = store.watch("s", lambda: told.append("parent"))
    wait_for(lambda: bool(told))
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        here: list[str] = []
        store.watch("child", lambda: here.append("child"))
        begun(store, "child")
        wait_for(lambda: bool(here))
        os.write(writer, json.dumps([store.read("s", 0, 10).info.last, here[:1]]).encode())  # type: ignore[union-attr]
        store.close()
        os._exit(0)
    os.waitpid(pid, 0)
    told.clear()
    store.append([Batch("s", "epoch-of-s", (Record(2, b"two"),))], 60)
    wait_for(lambda: bool(told))
    end()
    return {"child": json.loads(os.read(reader, 1000)), "parent": [store.read("s", 0, 10).info.last, told[:1]]}  # type: ignore[union-attr]


def wait_for(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not happened() and time.monotonic() < deadline:
        time.sleep(TICK_SECONDS)


PROGRAMS = {"slow": slow, "crowd": crowd, "killed": killed, "fork": fork}

if __name__ == "__main__":
    opened = open_store(sys.argv[2])
    result = PROGRAMS[sys.argv[1].partition("-")[0]](opened)
    print(json.dumps(result), flush=True)  # noqa: T201
    opened.close()
