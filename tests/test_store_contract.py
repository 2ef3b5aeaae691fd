"""One contract, every store: what the docstrings of `flaskstream.stores.protocol` say, asked of each."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import threading
import time
import uuid
from contextlib import ExitStack, closing
from typing import Callable, Iterator

import pytest
from store_process import ROOT, StoreProcess

from flaskstream.errors import InvalidSetting
from flaskstream.stores import open_store
from flaskstream.stores.protocol import (
    DONE,
    EVICTED,
    FAILED,
    RUNNING,
    STOPPED,
    Batch,
    Kept,
    NewStream,
    Record,
    Retention,
    Store,
    StreamInfo,
)

LEASE = 60.0
"""Longer than any test."""
SHORT_LEASE = 0.05
NOTICE = 0.1
"""Seconds in which a watcher hears of what another process did."""
HURRY = 8
"""How many do the same thing at the same instant."""
MANY = Retention(seconds=3600.0)
NONE = Retention(seconds=3600.0, streams=0)
BRIEF = Retention(seconds=0.3, streams=0)
"""None is kept, and those that were there are remembered for no longer than this."""


SHARED = pytest.mark.parametrize("url", ["sqlite", "redis"], indirect=True)


@pytest.fixture(params=["memory", "sqlite", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> str:
    if request.param == "redis":
        server = request.getfixturevalue("redis_server")
        return f"{server.url}?prefix=contract-{uuid.uuid4().hex}:"
    return "memory:" if request.param == "memory" else f"sqlite:{tmp_path / 'streams.db'}"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with closing(open_store(url)) as store:
        yield store


@pytest.fixture
def others(store: Store, url: str) -> Iterator[Callable[[], StoreProcess]]:
    """Makes processes that share the store."""
    assert store.shared
    with ExitStack() as stack:
        yield lambda: stack.enter_context(StoreProcess(url))


def new(name: str = "a", owner: str | None = None, key: str | None = None) -> NewStream:
    return NewStream(f"id-{name}", f"epoch-{name}", owner, key, f"request-{name}")


def batch(name: str, first: int, *blocks: bytes, state: str = RUNNING) -> Batch:
    records = tuple(Record(number, block) for number, block in enumerate(blocks, first))
    return Batch(f"id-{name}", f"epoch-{name}", records, state)


def put(store: Store, name: str, *blocks: bytes, state: str = RUNNING) -> None:
    """A stream with these blocks and this state."""
    assert store.begin(new(name), LEASE)[1]
    assert not store.append([batch(name, 1, *blocks, state=state)], LEASE)


def info(store: Store, name: str = "a") -> StreamInfo:
    page = store.read(f"id-{name}", 0, 0)
    assert page is not None
    return page.info


def blocks(store: Store, name: str = "a", after: int = 0, limit: int = 100) -> list[bytes]:
    page = store.read(f"id-{name}", after, limit)
    assert page is not None
    assert [record.number for record in page.records] == list(range(after + 1, after + 1 + len(page.records)))
    return [record.block for record in page.records]


def until(holds: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.005)


def lost(store: Store, name: str = "a") -> None:
    """A running stream whose producer is lost."""
    store.begin(new(name), SHORT_LEASE)
    until(lambda: not info(store, name).is_held)


# begin


def test_a_stream_is_new_once(store: Store) -> None:
    begun, is_new = store.begin(new(), LEASE)
    assert is_new and (begun.stream_id, begun.epoch, begun.request) == ("id-a", "epoch-a", "request-a")
    assert (begun.owner, begun.state, begun.last, begun.is_held, begun.stop_requested) == (
        None,
        RUNNING,
        0,
        True,
        False,
    )
    assert 0 <= begun.read_ago < LEASE
    again, is_new = store.begin(NewStream("id-a", "epoch-b", "somebody", None, "another"), LEASE)
    assert not is_new and (again.epoch, again.owner, again.request) == ("epoch-a", None, "request-a")


def test_what_is_begun_again_shows_what_there_is(store: Store) -> None:
    put(store, "a", b"one", b"two", state=DONE)
    there, is_new = store.begin(new(), LEASE)
    assert (there.state, there.last, is_new) == (DONE, 2, False)


def test_a_key_begins_one_stream(store: Store) -> None:
    assert store.begin(new("a", "eve", "key"), LEASE)[1]
    there, is_new = store.begin(new("b", "eve", "key"), LEASE)
    assert (there.stream_id, there.owner, there.request, is_new) == ("id-a", "eve", "request-a", False)
    assert store.read("id-b", 0, 1) is None and store.find("epoch-b") is None


@pytest.mark.parametrize("pair", [("eve", "bob"), (None, "eve"), (None, ""), (None, "None")])
def test_a_key_counts_for_its_owner_alone(store: Store, pair: tuple[str | None, str | None]) -> None:
    assert store.begin(new("a", pair[0], "key"), LEASE)[1]
    assert store.begin(new("b", pair[1], "key"), LEASE)[1]
    assert not store.begin(new("c", pair[0], "key"), LEASE)[1]


@pytest.mark.parametrize(
    "pairs", [(("a:b", "c"), ("a", "b:c")), (("a", "b\n"), ("a", "b")), (("\u00e9", "k"), ("e\u0301", "k"))]
)
def test_no_owner_and_key_look_like_another_pair(store: Store, pairs: tuple[tuple[str, str], ...]) -> None:
    assert [store.begin(new(str(number), *pair), LEASE)[1] for number, pair in enumerate(pairs)] == [True, True]


def test_streams_without_a_key_are_never_the_same_attempt(store: Store) -> None:
    assert store.begin(new("a"), LEASE)[1] and store.begin(new("b"), LEASE)[1]


def test_a_key_outlives_the_end_of_its_stream_and_its_producer(store: Store) -> None:
    store.begin(new("a", key="key"), SHORT_LEASE)
    until(lambda: not info(store).is_held)
    assert not store.begin(new("b", key="key"), LEASE)[1]
    assert store.lose("id-a", "epoch-a", b"lost")
    there, is_new = store.begin(new("b", key="key"), LEASE)
    assert (there.state, there.is_held, is_new) == (FAILED, False, False)


def test_an_evicted_stream_is_begun_anew_under_its_id(store: Store) -> None:
    put(store, "a", b"old", state=DONE)
    store.evict(NONE)
    there, is_new = store.begin(NewStream("id-a", "epoch-2"), LEASE)
    assert (there.epoch, there.state, there.last, is_new) == ("epoch-2", RUNNING, 0, True)
    assert blocks(store) == [] and store.find("epoch-2") == "id-a" and store.find("epoch-a") is None
    assert not store.append([Batch("id-a", "epoch-2", (Record(1, b"new"),))], LEASE)
    assert blocks(store) == [b"new"]


def test_the_key_of_an_evicted_stream_begins_another_and_the_evicted_one_is_remembered(store: Store) -> None:
    store.begin(new("a", "eve", "key"), LEASE)
    store.append([batch("a", 1, b"old", state=DONE)], LEASE)
    store.evict(NONE)
    there, is_new = store.begin(new("b", "eve", "key"), LEASE)
    assert (there.stream_id, is_new) == ("id-b", True) and info(store, "a").state == EVICTED
    assert store.begin(new("c", "eve", "key"), LEASE)[0].stream_id == "id-b"


def test_a_stream_that_is_remembered_no_more_leaves_its_key_to_the_one_that_took_it(store: Store) -> None:
    store.begin(new("a", "eve", "key"), LEASE)
    store.append([batch("a", 1, b"old", state=DONE)], LEASE)
    store.evict(BRIEF)
    assert store.begin(new("b", "eve", "key"), LEASE)[1]
    until(lambda: store.evict(BRIEF) == 0 and store.read("id-a", 0, 1) is None)
    assert store.begin(new("c", "eve", "key"), LEASE)[0].stream_id == "id-b"


def test_threads_that_begin_at_the_same_instant_begin_one_stream(store: Store) -> None:
    answers: list[tuple[StreamInfo, bool]] = []
    barrier = threading.Barrier(HURRY)

    def begin(number: int) -> None:
        barrier.wait()
        answers.append(store.begin(new(str(number), "eve", "key"), LEASE))

    threads = [threading.Thread(target=begin, args=(number,)) for number in range(HURRY)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == HURRY and sum(is_new for _, is_new in answers) == 1
    assert len({there.stream_id for there, _ in answers}) == 1 and store.kept().streams == 1


@SHARED
def test_processes_that_begin_at_the_same_instant_begin_one_stream(
    others: Callable[[], StoreProcess], store: Store
) -> None:
    processes = [others() for _ in range(4)]
    for attempt in range(5):
        moment = time.monotonic() + 0.05
        for number, process in enumerate(processes):
            made = f"NewStream('{attempt}-{number}', 'e-{attempt}-{number}', 'eve', 'key-{attempt}')"
            process.tell(f"sleep_until({moment}) and (lambda i, n: (i.stream_id, n))(*store.begin({made}, {LEASE}))")
        answers = [process.answer() for process in processes]
        assert sum(is_new for _, is_new in answers) == 1 and len({stream_id for stream_id, _ in answers}) == 1
    assert store.kept().streams == 5


# append and read


def test_records_come_back_in_order(store: Store) -> None:
    store.begin(new(), LEASE)
    assert not store.append([batch("a", 1, b"one"), batch("a", 2, b"two", b"three")], LEASE)
    assert not store.append([batch("a", 4, b"four")], LEASE)
    assert blocks(store) == [b"one", b"two", b"three", b"four"] and info(store).last == 4


def test_only_what_is_strictly_after_comes_and_at_most_the_limit(store: Store) -> None:
    put(store, "a", *(b"%d" % number for number in range(1, 11)))
    assert blocks(store, after=7) == [b"8", b"9", b"10"]
    assert blocks(store, after=2, limit=3) == [b"3", b"4", b"5"]
    assert blocks(store, limit=0) == blocks(store, after=10) == blocks(store, after=11) == []
    assert info(store).last == 10


@pytest.mark.parametrize("after", [10**9, 2**63, 10**30])
def test_no_number_is_too_great_to_ask_for(store: Store, after: int) -> None:
    put(store, "a", b"one")
    page = store.read("id-a", after, 10)
    assert page is not None and not page.records and page.info.last == 1


def test_a_repeated_write_adds_nothing(store: Store) -> None:
    put(store, "a", b"one", b"two")
    assert not store.append([batch("a", 1, b"one", b"two")], LEASE)
    assert not store.append([batch("a", 2, b"two", b"three")], LEASE)
    assert blocks(store) == [b"one", b"two", b"three"] and store.kept().bytes == len(b"onetwothree")


def test_a_write_with_a_gap_is_refused(store: Store) -> None:
    put(store, "a", b"one")
    assert list(store.append([batch("a", 3, b"three")], LEASE)) == ["id-a"]
    assert blocks(store) == [b"one"]


@pytest.mark.parametrize("state", [DONE, FAILED, STOPPED])
def test_a_stream_that_has_ended_refuses(store: Store, state: str) -> None:
    put(store, "a", b"one", state=state)
    assert info(store).state == state
    for more in (batch("a", 2, b"two"), batch("a", 2), batch("a", 2, state=DONE)):
        assert list(store.append([more], LEASE)) == ["id-a"]
    assert (info(store).state, info(store).last) == (state, 1)


def test_a_stream_that_is_not_there_refuses_and_so_does_another_epoch(store: Store) -> None:
    put(store, "a", b"one")
    foreign = Batch("id-a", "epoch-b", (Record(2, b"two"),), DONE)
    assert list(store.append([foreign, batch("b", 1, b"x")], LEASE)) == ["id-a", "id-b"]
    assert blocks(store) == [b"one"] and info(store).state == RUNNING and store.read("id-b", 0, 1) is None


def test_one_that_refuses_does_not_keep_the_others_from_being_written(store: Store) -> None:
    put(store, "a", state=DONE)
    store.begin(new("b"), LEASE)
    store.begin(new("c"), LEASE)
    some = [batch("b", 1, b"b"), batch("a", 1, b"a"), batch("c", 1, b"c", state=STOPPED)]
    assert list(store.append(some, LEASE)) == ["id-a"]
    assert (blocks(store, "b"), blocks(store, "c"), info(store, "c").state) == ([b"b"], [b"c"], STOPPED)


def test_nothing_to_append_is_nothing(store: Store) -> None:
    assert list(store.append([], LEASE)) == []


def test_what_follows_its_own_end_is_refused(store: Store) -> None:
    store.begin(new(), LEASE)
    assert list(store.append([batch("a", 1, b"one", state=DONE), batch("a", 2, b"two")], LEASE)) == ["id-a"]
    assert blocks(store) == [b"one"]


def test_an_unknown_stream_is_none(store: Store) -> None:
    assert store.read("id-a", 0, 10) is None and store.find("epoch-a") is None


def test_an_epoch_finds_its_stream(store: Store) -> None:
    put(store, "a")
    put(store, "b", state=DONE)
    assert (store.find("epoch-a"), store.find("epoch-b"), store.find("id-a")) == ("id-a", "id-b", None)


@pytest.mark.parametrize(
    "block",
    [
        b"",
        b"\x00",
        b"\xff\xfe\x00\xc3",
        b"data: \xf0\x9f\x92\xa9\r\n\r\n",
        b"'; DROP TABLE streams; --",
        bytes(range(256)),
    ],
    ids=repr,
)
def test_a_block_is_any_bytes(store: Store, block: bytes) -> None:
    put(store, "a", block, b"next")
    assert blocks(store) == [block, b"next"]


def test_blocks_of_a_megabyte(store: Store) -> None:
    large = [os.urandom(1024 * 1024) for _ in range(3)]
    put(store, "a", *large, state=DONE)
    assert blocks(store) == large and store.kept().bytes == 3 * 1024 * 1024
    assert store.evict(Retention(bytes=1)) == 1 and store.kept().bytes == 0


def test_many_records_in_one_write(store: Store) -> None:
    many = [b"%d" % number for number in range(3000)]
    put(store, "a", *many)
    assert blocks(store, limit=5000) == many and blocks(store, after=2990) == many[2990:]


@SHARED
def test_what_one_process_writes_another_reads(store: Store, others: Callable[[], StoreProcess]) -> None:
    put(store, "a", b"\xff\x00")
    other = others()
    assert other.ask("store.read('id-a', 0, 9).records[0].block") == b"\xff\x00"
    assert other.ask(f"store.append([Batch('id-a', 'epoch-a', (Record(2, b'two'),), DONE)], {LEASE})") in ([], ())
    assert (blocks(store), info(store).state) == ([b"\xff\x00", b"two"], DONE)


@SHARED
def test_what_is_read_while_others_write_has_no_gap_and_no_double(
    store: Store, others: Callable[[], StoreProcess]
) -> None:
    store.begin(new(), LEASE)
    other = others()
    other.tell(
        f"[store.append([Batch('id-a', 'epoch-a', (Record(n, b'%d' % n),))], {LEASE}) for n in range(1, 301)][-1]"
    )
    seen: list[bytes] = []
    until(lambda: bool(seen.extend(blocks(store, after=len(seen))) or len(seen) == 300))  # type: ignore[func-returns-value]
    assert seen == [b"%d" % number for number in range(1, 301)] and not other.answer()


# leases


def test_each_append_renews_the_lease(store: Store) -> None:
    store.begin(new(), SHORT_LEASE)
    assert not store.append([batch("a", 1)], LEASE)
    time.sleep(2 * SHORT_LEASE)
    assert info(store).is_held
    assert not store.append([batch("a", 1, b"one")], SHORT_LEASE)
    until(lambda: not info(store).is_held)
    assert info(store).state == RUNNING


def test_a_late_producer_that_nobody_has_called_lost_goes_on(store: Store) -> None:
    lost(store)
    assert not store.append([batch("a", 1, b"one")], LEASE)
    assert info(store).is_held and not store.lose("id-a", "epoch-a", b"lost")


def test_a_held_stream_is_not_lost(store: Store) -> None:
    put(store, "a", b"one")
    assert not store.lose("id-a", "epoch-a", b"lost") and blocks(store) == [b"one"]


def test_a_stream_whose_lease_is_over_is_lost_once(store: Store) -> None:
    store.begin(new(), LEASE)
    store.append([batch("a", 1, b"one")], SHORT_LEASE)
    until(lambda: not info(store).is_held)
    assert not store.lose("id-a", "epoch-b", b"lost") and not store.lose("id-b", "epoch-a", b"lost")
    assert [store.lose("id-a", "epoch-a", b"lost") for _ in range(2)] == [True, False]
    assert (blocks(store), info(store).state, info(store).last) == ([b"one", b"lost"], FAILED, 2)
    assert list(store.append([batch("a", 2, b"two")], LEASE)) == ["id-a"]


def test_what_has_ended_is_not_lost(store: Store) -> None:
    put(store, "a", b"one", state=DONE)
    store.begin(new("b"), SHORT_LEASE)
    store.append([batch("b", 1, state=STOPPED)], SHORT_LEASE)
    time.sleep(2 * SHORT_LEASE)
    assert not store.lose("id-a", "epoch-a", b"lost") and not store.lose("id-b", "epoch-b", b"lost")


@SHARED
def test_the_lease_of_a_process_that_is_killed_runs_out(store: Store, others: Callable[[], StoreProcess]) -> None:
    other = others()
    other.ask("store.begin(NewStream('id-a', 'epoch-a'), 0.2)[1]")
    other.ask("store.append([Batch('id-a', 'epoch-a', (Record(1, b'one'),))], 0.2)")
    other.kill()
    until(lambda: store.lose("id-a", "epoch-a", b"lost"))
    assert blocks(store) == [b"one", b"lost"]


# stop


def test_a_stop_is_asked_for_until_the_stream_has_ended(store: Store) -> None:
    put(store, "a")
    put(store, "b")
    assert list(store.stopping()) == []
    store.stop("id-a")
    store.stop("id-a")
    assert list(store.stopping()) == ["id-a"]
    assert (info(store, "a").stop_requested, info(store, "b").stop_requested) == (True, False)
    assert (info(store).state, blocks(store)) == (RUNNING, [])
    store.append([batch("a", 1, b"stopped", state=STOPPED)], LEASE)
    assert list(store.stopping()) == [] and info(store).state == STOPPED


def test_what_does_not_run_is_not_stopped(store: Store) -> None:
    put(store, "a", state=DONE)
    store.stop("id-a")
    store.stop("id-b")
    assert list(store.stopping()) == [] and info(store).state == DONE and not info(store).stop_requested


def test_a_stop_goes_with_its_stream(store: Store) -> None:
    put(store, "a")
    store.stop("id-a")
    store.forget("id-a", "epoch-a")
    assert list(store.stopping()) == []
    store.begin(NewStream("id-a", "epoch-2"), LEASE)
    assert list(store.stopping()) == [] and not info(store).stop_requested


@SHARED
def test_another_process_stops_it(store: Store, others: Callable[[], StoreProcess]) -> None:
    put(store, "a")
    assert others().ask("store.stop('id-a')") is None
    assert list(store.stopping()) == ["id-a"]


# readers


def test_a_reader_that_is_there_is_known(store: Store) -> None:
    put(store, "a")
    put(store, "b")
    until(lambda: min(info(store, "a").read_ago, info(store, "b").read_ago) > 0.2)
    store.touch(["id-a", "id-unknown"])
    assert info(store, "a").read_ago < info(store, "b").read_ago - 0.1
    store.touch([])


@SHARED
def test_a_reader_in_another_process_is_known(store: Store, others: Callable[[], StoreProcess]) -> None:
    put(store, "a")
    put(store, "b")
    other = others()
    until(lambda: info(store, "a").read_ago > 0.2)
    other.ask("store.touch(['id-a'])")
    assert info(store, "a").read_ago < info(store, "b").read_ago - 0.1


# watch


def heard(store: Store, does: Callable[[], object], stream_id: str = "id-a") -> bool:
    """Whether a watcher hears of what is done. What it hears before is of before."""
    notice = threading.Event()
    end = store.watch(stream_id, notice.set)
    try:
        quiet_for(notice, 0.2)
        does()
        return notice.wait(20)
    finally:
        end()


def quiet_for(notice: threading.Event, seconds: float) -> None:
    while notice.wait(seconds):
        notice.clear()


CHANGES: dict[str, Callable[[Store], object]] = {
    "a record": lambda store: store.append([batch("a", 1, b"one")], LEASE),
    "an end": lambda store: store.append([batch("a", 1, state=DONE)], LEASE),
    "forgotten": lambda store: store.forget("id-a", "epoch-a"),
}


@pytest.mark.parametrize("change", list(CHANGES))
def test_a_watcher_hears_of(store: Store, change: str) -> None:
    put(store, "a")
    assert heard(store, lambda: CHANGES[change](store))


def test_a_watcher_hears_that_the_producer_is_lost(store: Store) -> None:
    lost(store)
    assert heard(store, lambda: store.lose("id-a", "epoch-a", b"lost"))


def test_a_watcher_hears_that_its_stream_is_evicted(store: Store) -> None:
    put(store, "a", b"one", state=DONE)
    assert heard(store, lambda: store.evict(Retention(seconds=0.0)))


def test_a_watcher_whose_watch_is_ended_hears_nothing_more(store: Store) -> None:
    put(store, "a")
    first, second = threading.Event(), threading.Event()
    end_first, end_second = store.watch("id-a", first.set), store.watch("id-a", second.set)
    quiet_for(second, 0.2)
    end_first()
    end_first()
    first.clear()
    store.append([batch("a", 1, b"one")], LEASE)
    assert second.wait(20) and not first.is_set()
    end_second()


@SHARED
def test_who_watches_first_and_reads_then_misses_nothing(store: Store, others: Callable[[], StoreProcess]) -> None:
    put(store, "a")
    other = others()
    for number in range(1, 6):
        notice = threading.Event()
        end = store.watch("id-a", notice.set)
        other.tell(f"store.append([Batch('id-a', 'epoch-a', (Record({number}, b'x'),))], {LEASE})")
        while not blocks(store, after=number - 1):
            assert notice.wait(20)
            notice.clear()
        end()
        other.answer()


@SHARED
def test_another_process_hears_within_a_tenth_of_a_second(store: Store, others: Callable[[], StoreProcess]) -> None:
    put(store, "a")
    other = others()
    delays = []
    notice = threading.Event()
    end = store.watch("id-a", notice.set)
    for number in range(1, 10):
        quiet_for(notice, 0.1)
        moment = time.monotonic() + 0.01
        wrote = f"store.append([Batch('id-a', 'epoch-a', (Record({number}, b'x'),))], {LEASE})"
        other.tell(f"sleep_until({moment}) and ({wrote}, time.monotonic())[1]")
        assert notice.wait(20)
        heard_at = time.monotonic()
        delays.append(heard_at - other.answer())
    end()
    assert sorted(delays)[len(delays) // 2] < NOTICE  # of nine, for the machine has other things to do now and then


# retention


def test_what_is_forgotten_has_never_been(store: Store) -> None:
    store.begin(new("a", "eve", "key"), LEASE)
    store.append([batch("a", 1, b"one")], LEASE)
    store.forget("id-a", "epoch-other")
    assert blocks(store) == [b"one"]
    store.forget("id-a", "epoch-a")
    store.forget("id-b", "epoch-b")
    assert store.read("id-a", 0, 1) is None and store.find("epoch-a") is None
    assert list(store.append([batch("a", 2, b"two")], LEASE)) == ["id-a"]
    assert store.kept() == Kept(0, 0, 0, 0, 0) and store.begin(new("b", "eve", "key"), LEASE)[1]
    assert store.begin(new("a"), LEASE)[1] and blocks(store) == []


def test_what_there_is_is_counted(store: Store) -> None:
    assert store.kept() == Kept(0, 0, 0, 0, 0)
    put(store, "a", b"12345", b"678")
    put(store, "b", b"9", state=DONE)
    put(store, "c")
    assert store.kept() == Kept(streams=3, running=2, records=3, bytes=9, evicted=0)
    assert store.evict(Retention(seconds=0.0)) == 1
    assert store.kept() == Kept(streams=2, running=2, records=2, bytes=8, evicted=1)


def test_within_the_limits_nothing_goes(store: Store) -> None:
    put(store, "a", b"one", state=DONE)
    put(store, "b", b"two")
    assert store.evict(MANY) == 0 == store.evict(Retention(seconds=3600.0, streams=2, bytes=6))
    assert (blocks(store, "a"), blocks(store, "b")) == ([b"one"], [b"two"])


def test_too_many_streams_lose_those_that_ended_first(store: Store) -> None:
    for name in "abcde":
        put(store, name, name.encode())
    for name in "cadb":
        store.append([batch(name, 2, state=DONE)], LEASE)
        time.sleep(0.01)  # a store may tell times by the millisecond
    assert store.evict(Retention(seconds=3600.0, streams=3)) == 2
    assert [info(store, name).state for name in "abcde"] == [EVICTED, DONE, EVICTED, DONE, RUNNING]
    assert (blocks(store, "a"), blocks(store, "b"), blocks(store, "e")) == ([], [b"b"], [b"e"])


def test_too_many_bytes_lose_those_that_ended_first(store: Store) -> None:
    for name in "abc":
        put(store, name, b"x" * 1000, state=DONE)
        time.sleep(0.01)
    assert store.evict(Retention(seconds=3600.0, bytes=2000)) == 1
    assert [info(store, name).state for name in "abc"] == [EVICTED, DONE, DONE] and store.kept().bytes == 2000


def test_the_bytes_of_running_streams_count_and_stay(store: Store) -> None:
    put(store, "a", b"x" * 1000, state=DONE)
    put(store, "b", b"x" * 2000)
    assert store.evict(Retention(seconds=3600.0, bytes=1500)) == 1
    assert (info(store, "a").state, info(store, "b").state) == (EVICTED, RUNNING)
    assert store.evict(Retention(seconds=0.0, streams=0, bytes=0)) == 0 and blocks(store, "b") == [b"x" * 2000]


def test_the_oldest_go_by_their_age(store: Store) -> None:
    put(store, "a", b"one", state=DONE)
    time.sleep(1.5)
    before = time.monotonic()
    put(store, "b", b"two", state=DONE)
    assert store.evict(Retention(seconds=time.monotonic() - before + 0.7)) == 1
    assert (info(store, "a").state, blocks(store, "b")) == (EVICTED, [b"two"])


def test_a_lost_producers_stream_can_go(store: Store) -> None:
    lost(store)
    assert store.evict(NONE) == 1 and info(store).state == EVICTED
    assert list(store.append([batch("a", 1, b"one")], LEASE)) == ["id-a"]
    assert not store.lose("id-a", "epoch-a", b"lost")


def test_an_evicted_stream_is_remembered_for_as_long_again(store: Store) -> None:
    put(store, "a", b"one", b"two", state=DONE)
    assert store.evict(NONE) == 1
    page = store.read("id-a", 0, 10)
    assert page is not None and (page.info.state, page.records, page.info.epoch) == (EVICTED, (), "epoch-a")
    assert store.evict(MANY) == 0 and store.find("epoch-a") == "id-a"


def test_an_evicted_stream_is_not_remembered_for_longer(store: Store) -> None:
    put(store, "a", b"one", b"two", state=DONE)
    assert store.evict(BRIEF) == 1
    until(lambda: store.evict(BRIEF) == 0 and store.read("id-a", 0, 10) is None)
    assert store.find("epoch-a") is None and store.kept() == Kept(0, 0, 0, 0, evicted=1)


def test_many_streams_go_at_once(store: Store) -> None:
    names = [f"many-{number}" for number in range(300)]
    for name in names:
        store.begin(new(name), LEASE)
    store.append([batch(name, 1, b"x", b"y", state=DONE) for name in names], LEASE)
    assert store.evict(Retention(seconds=3600.0, streams=20)) == 280
    assert store.kept() == Kept(streams=20, running=0, records=40, bytes=40, evicted=280)


# its own life


def test_it_is_closed_any_number_of_times(url: str) -> None:
    unused, used = open_store(url), open_store(url)
    used.begin(new(), LEASE)
    end = used.watch("id-a", lambda: None)
    for store in (unused, used):
        store.close()
        store.close()
    end()


FORKED = """
import os, sys, threading, time
sys.path.insert(0, {root!r})
from flaskstream.stores import open_store
from flaskstream.stores.protocol import *
store = open_store({url!r})
heard = threading.Event()
if {used}:
    store.begin(NewStream("before", "epoch-before"), 60)
    store.append([Batch("before", "epoch-before", (Record(1, b"one"),))], 60)
    end = store.watch("before", heard.set)
    store.read("before", 0, 1)
    if "gevent" in sys.modules:  # a thread of gevent's pool that ends its work beside a fork can stop gevent's loop
        end()
        time.sleep(0.2)
children = []
for number in range(3):
    child = os.fork()
    if not child:
        assert not store.begin(NewStream("before", "x"), 60)[1] or not {used}
        assert store.begin(NewStream("id-%d" % number, "epoch-%d" % number), 60)[1]
        for n in range(1, 51):
            assert not store.append([Batch("id-%d" % number, "epoch-%d" % number, (Record(n, b"%d" % n),))], 60)
        assert [r.number for r in store.read("id-%d" % number, 0, 100).records] == list(range(1, 51))
        told = threading.Event()
        store.watch("id-%d" % number, told.set)
        store.append([Batch("id-%d" % number, "epoch-%d" % number, (Record(51, b"x"),))], 60)
        assert told.wait(20)
        store.close()
        sys.exit(0)
    children.append(child)
assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
if store.shared:
    assert [store.read("id-%d" % number, 0, 0).info.last for number in range(3)] == [51, 51, 51]
if {used}:
    end = store.watch("before", heard.set)
    heard.clear()
    store.append([Batch("before", "epoch-before", (Record(2, b"two"),))], 60)
    assert heard.wait(20) and store.read("before", 0, 9).info.last == 2
store.close()
print("whole")
"""


@pytest.mark.parametrize("used", [False, True], ids=["made", "used"])
@pytest.mark.parametrize("patched", [False, True], ids=["threads", "gevent"])
def test_a_store_of_before_the_fork_is_used_after_it(store: Store, url: str, used: bool, patched: bool) -> None:
    code = "from gevent import monkey; monkey.patch_all()\n" if patched else ""
    code += (
        "import warnings; warnings.simplefilter('ignore', DeprecationWarning)\n"  # of forks beside threads: it is meant
    )
    code += FORKED.format(root=ROOT, url=url, used=used)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=120)
    assert ran.stdout == b"whole\n", ran.stderr.decode()


@pytest.mark.parametrize("bad", ["", "memory", "memory:x", "mysql://x", "/streams.db", None, 7])
def test_a_url_that_names_no_store_is_refused(bad: object) -> None:
    with pytest.raises(InvalidSetting, match="expected memory:, sqlite:PATH or redis"):
        open_store(bad)  # type: ignore[arg-type]
