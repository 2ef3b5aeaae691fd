"""An answer in the process that produces it: readers may have what is recorded, and all of it once nothing is."""

from __future__ import annotations

import threading
import time

import pytest

from flaskstream.errors import InvalidSetting, MaxDuration, StoreUnavailable
from flaskstream.interrupt import Bell
from flaskstream.resume import ends
from flaskstream.resume.ids import lost_id
from flaskstream.resume.live import (
    KEPT_BYTES,
    PATIENCE,
    ROOM_BYTES,
    ROOM_RECORDS,
    TOGETHER_BYTES,
    TOGETHER_RECORDS,
    UNRECORDED_BYTES,
    Live,
)
from flaskstream.resume.reader import Reader
from flaskstream.resume.recorder import Recorder
from flaskstream.resume.streams import Streams
from flaskstream.resume.terms import SHORTEST_LEASE, Terms
from flaskstream.resume.wire import Delivery, Unrecorded
from flaskstream.sse import Decoder
from flaskstream.stores.memory import MemoryStore
from flaskstream.stores.protocol import DONE, FAILED, RUNNING, Batch, NewStream, Record, StreamInfo, is_instant
from flaskstream.waiting import Turn, TurnBell
from flaskstream.wire import Together

BEGUN = StreamInfo("a-stream", "0123456789abcdef0123", None, "", RUNNING, 0, True, False, 0.0)


@pytest.fixture
def lost():
    """The answers of which it was said that they cannot be resumed."""
    return []


@pytest.fixture
def live(lost):
    return Live(BEGUN, on_lost_recording=lost.append)


def write(live):
    """Write what is due, as the recorder does."""
    batch = live.unwritten()
    live.written(batch)
    return batch


def test_readers_may_have_what_is_written(live):
    live.add(b"one")
    assert live.after(0) == []
    assert write(live).records == (Record(1, b"one"),)
    assert live.after(0) == [Record(1, b"one")]
    assert live.after(1) == []


def test_readers_in_the_only_process_do_not_wait_for_its_store():
    live = Live(BEGUN, is_shared=False, is_instant=True)
    assert not live.add(b"one")
    assert live.after(0) == [Record(1, b"one")] and live.info.last == 1
    assert not live.is_far_ahead
    assert any(live.add(b"more") for _ in range(TOGETHER_RECORDS))
    assert len(write(live).records) == TOGETHER_RECORDS and not live.add(b"less")
    assert live.add(b"x" * TOGETHER_BYTES)
    live.finish(ends.done(0))
    assert write(live).state == DONE and not live.has_unwritten()


class Taking(TurnBell):
    """A reader's bell that waits all the time, and keeps what it is rung for."""

    def __init__(self):
        self.taker = self
        self.taken = []

    def ring(self, item=None):
        self.taken.append(item)

    def rouse(self):
        self.taken.append("in a turn of its own")


def test_readers_that_have_all_of_it_are_handed_what_comes_alone_and_have_to_look_for_all_else():
    live = Live(BEGUN, is_shared=False, is_instant=True)
    one, two = Taking(), Taking()
    live.attach(one)
    live.add(b"1")
    live.attach(two)
    live.add(b"2")
    live.add_together([b"3", b"4"])
    live.add(b"5")
    live.detach(one)
    live.add(b"6")
    write(live)
    live.give_up_recording()
    live.add(b"7")  # which has no id
    live.finish(ends.done(7))
    assert one.taken == [b"1", b"2", None, b"5"]
    assert two.taken == [b"2", None, b"5", b"6", None, None, None]


def test_what_waits_for_a_store_is_handed_to_nobody():
    live, bell = Live(BEGUN), Taking()
    live.attach(bell)
    live.add(b"one")
    assert bell.taken == []
    write(live)
    assert bell.taken == [None]


def test_many_readers_are_handed_nothing_where_that_would_hold_up_others():
    live = Live(BEGUN, is_shared=False, is_instant=True)
    bells = [Taking() for _ in range(300)]
    for bell in bells[:200]:
        live.attach(bell)
    live.add(b"one")
    assert all(bell.taken == [b"one"] for bell in bells[:200])
    for bell in bells[200:]:
        live.attach(bell)
    live.add(b"two")
    assert {bell.taken[-1] for bell in bells} == {"in a turn of its own"}


def test_the_bytes_of_an_answer_are_counted_though_the_first_ones_are_no_longer_here():
    live = Live(BEGUN, is_shared=False, is_instant=True)
    sizes = [KEPT_BYTES // 8, 3, KEPT_BYTES // 3, KEPT_BYTES, 1, 700]
    for n, size in enumerate(sizes, 1):
        live.add(b"x" * size)
        assert (live.last, live.size) == (n, sum(sizes[:n]))
        write(live)
    assert live.after(0) is None and [record.number for record in live.after(5)] == [6]


def test_what_is_added_together_rings_once():
    class Counting(Bell):
        rung = 0

        def ring(self):
            self.rung += 1

    live, bell = Live(BEGUN, is_shared=False, is_instant=True), Counting()
    live.attach(bell)
    live.add_together([b"one", b"two", b"three"])
    assert bell.rung == 1 and [record.number for record in live.after(0)] == [1, 2, 3]


def test_many_readers_have_turns_of_their_own_where_serving_all_at_once_takes_long():
    class Counting(Bell):
        rung = roused = 0

        def ring(self):
            self.rung += 1

        def rouse(self):
            self.roused += 1

    live = Live(BEGUN, is_shared=False, is_instant=True)
    bells = [Counting() for _ in range(60)]
    for bell in bells:
        live.attach(bell)
    live.add(b"one")
    live.add_together([b"some"] * 20)
    assert {(bell.rung, bell.roused) for bell in bells} == {(2, 0)}
    live.add_together([b"many"] * 32)
    assert {(bell.rung, bell.roused) for bell in bells} == {(2, 1)}


def test_what_is_read_from_memory_lets_its_producer_go_on(live):
    live.give_up_recording()
    for _ in range(ROOM_RECORDS):
        live.add(b"x")
    assert live.is_far_ahead
    live.passed(live.last)
    assert not live.is_far_ahead


def test_a_reader_that_takes_without_waiting_says_so(live):
    live.give_up_recording()
    reader = Reader(MemoryStore(), live, BEGUN.stream_id, 0, Delivery(BEGUN.epoch), 1.0, 1.0, Turn())
    live.add_together([b"x"] * ROOM_RECORDS)
    assert live.is_far_ahead
    assert len(reader._now()) == ROOM_RECORDS
    assert not live.is_far_ahead


def test_an_instant_store_has_all_of_what_is_written_however_much_it_is():
    store = MemoryStore()
    info, _ = store.begin(NewStream(BEGUN.stream_id, BEGUN.epoch), 60.0)
    live = Live(info, is_shared=False, is_instant=True)
    live.add_together([b"x"] * 2500)
    Recorder(store, 60.0, lambda live: None, lambda live: None).write(live)
    assert not live.has_unwritten() and store.read(BEGUN.stream_id, 2490, 100).records[-1] == Record(2500, b"x")


def test_a_store_is_instant_by_its_own_word_alone():
    assert is_instant(MemoryStore())
    assert not is_instant(LosesAnswers()) and not is_instant(type("Derived", (MemoryStore,), {})())


def test_a_store_of_the_only_process_that_refuses_takes_no_id_back():
    live = Live(BEGUN, is_shared=False, is_instant=True)
    live.add(b"one")
    write(live)
    live.add(b"two")
    live.give_up_recording()
    live.add(b"three")
    assert live.after(0) == [Record(1, b"one"), Unrecorded(2, b"two"), Unrecorded(3, b"three")]
    assert [type(record) for record in live.after(0)] == [Record, Unrecorded, Unrecorded]


def test_what_comes_during_a_write_goes_together_in_the_next_one(live):
    live.add(b"one")
    batch = live.unwritten()
    live.add(b"two")
    live.add(b"three")
    live.written(batch)
    assert [record.number for record in write(live).records] == [2, 3]
    assert not live.has_unwritten()


def test_the_end_is_the_last_record_and_the_state_goes_with_it(live):
    live.add(b"one")
    live.finish(ends.done(1))
    live.finish(ends.stopped(ends.BY_REQUEST))
    batch = write(live)
    assert batch.state == DONE and batch.records[-1].block == ends.done(1).block
    assert live.unwritten() is None and live.is_end_written()
    assert live.events == 1


def test_a_renewal_of_the_lease_is_a_batch_without_records(live):
    assert (live.unwritten().records, live.unwritten().state) == ((), RUNNING)


def test_a_write_that_was_repeated_takes_nothing_back(live):
    live.add(b"one")
    first = live.unwritten()
    live.add(b"two")
    second = live.unwritten()
    live.written(second)
    live.written(first)
    assert len(live.after(0)) == 2


def test_a_store_that_is_behind_for_too_long_is_given_up(live, lost):
    live.add(b"one")
    write(live)
    live.add(b"two")
    live.spend_patience(PATIENCE / 2)
    assert live.is_resumable and not lost
    live.spend_patience(2 * PATIENCE)
    assert lost == [live] and not live.is_resumable
    live.add(b"three")
    assert live.after(0) == [Record(1, b"one"), Unrecorded(2, b"two"), Unrecorded(3, b"three")]
    assert [type(record) for record in live.after(0)] == [Record, Unrecorded, Unrecorded]
    assert live.unwritten() is None


def test_a_whole_answer_in_the_store_is_not_given_up(live, lost):
    live.finish(ends.done(0))
    write(live)
    live.spend_patience(2 * PATIENCE)
    live.give_up_recording()
    assert live.is_resumable and not lost


def test_only_what_is_recorded_has_an_id_behind_which_one_can_go_on():
    wire = Delivery("0123456789abcdef0123")
    (recorded,) = Decoder().feed(wire.frame(Record(7, b"data: x\n\n")))
    (passing,) = Decoder().feed(wire.frame(Unrecorded(8, b"data: y\n\n")))
    (later,) = Decoder().feed(wire.frame(Unrecorded(9, b"data: z\n\n")))
    assert (recorded.id, recorded.data) == ("0123456789abcdef0123-7", "x")
    assert (passing.id, passing.data) == (lost_id("0123456789abcdef0123"), "y")
    assert (later.id, later.data) == (None, "z")


def test_the_end_of_what_is_not_recorded_has_the_id_of_an_end():
    delivery = Delivery("0123456789abcdef0123")
    delivery.sent = 7
    delivery.end = Unrecorded(8, ends.done(7).block)
    (end,) = Decoder().feed(delivery.done("x"))
    assert (end.event, end.id) == ("done", "done-0123456789abcdef0123")


def test_old_records_are_kept_in_the_store_alone(live):
    block = b"x" * 1024
    for _ in range(2 * KEPT_BYTES // len(block)):
        live.add(block)
        write(live)
    assert live.after(0) is None
    assert len(live.after(live.last - 5)) == 5


def test_what_is_in_no_store_is_kept_for_slow_readers_up_to_a_limit(live):
    live.give_up_recording()
    block = b"x" * (UNRECORDED_BYTES // 8)
    for _ in range(6):
        live.add(block)
    assert len(live.after(0)) == 6
    for _ in range(6):
        live.add(block)
    assert live.after(0) is None
    assert live.after(live.last - 1)


def test_readers_are_woken_when_there_is_more(live):
    bell = Bell()
    live.attach(bell)
    assert live.unread_since is None
    live.add(b"one")
    threading.Timer(0.05, write, [live]).start()
    began = time.monotonic()
    bell.wait(30)
    assert time.monotonic() - began < 15
    assert live.after(0)
    live.detach(bell)
    assert live.unread_since is not None


class LosesAnswers(MemoryStore):
    """A store that does what it is asked, and whose answer gets lost now and then."""

    shared = True

    def __init__(self):
        super().__init__()
        self.lost = 0

    def append(self, batches, lease):
        refused = super().append(batches, lease)
        if self.lost < 3 or any(batch.state == DONE for batch in batches):
            self.lost += 1
            if not refused:
                raise StoreUnavailable("expected an answer, got none")
        return refused


def test_a_write_whose_answer_got_lost_is_no_failure():
    streams = Streams(LosesAnswers())
    begun = streams.begin(NewStream("a" * 32, "0" * 20), lambda turn: (said for said in ["one", "two"]))
    delivery = Delivery(begun.info.epoch)
    items = list(streams.follow(begun.info, 0, delivery))
    records = [one for item in items for one in (item if isinstance(item, Together) else [item])]
    assert [type(record) for record in (*records, delivery.end)] == [Record, Record, Record]
    assert streams.is_resumable(begun.info)
    assert streams.info("a" * 32).state == DONE


def test_without_a_store_its_producer_waits_for_the_first_reader(live):
    live.give_up_recording()
    for _ in range(ROOM_RECORDS):
        live.add(b"x")
    assert live.is_far_ahead
    live.after(1)
    assert not live.is_far_ahead
    live.add(b"x" * ROOM_BYTES)
    assert live.is_far_ahead
    live.after(live.last)
    assert not live.is_far_ahead


def test_with_one_it_waits_for_the_store(live):
    for _ in range(ROOM_RECORDS):
        live.add(b"x")
    assert live.is_far_ahead
    write(live)
    assert not live.is_far_ahead
    live.add(b"x" * ROOM_BYTES)
    assert live.is_far_ahead


@pytest.mark.parametrize("restart, is_new", [("error", False), ("resume", True)])
def test_a_lost_answer_is_produced_anew_only_where_that_is_agreed(restart, is_new):
    store = MemoryStore()
    first = NewStream("a" * 32, "0" * 20, key="k", request="q")
    info, _ = store.begin(first, 0.01)
    store.append([Batch(info.stream_id, info.epoch, (Record(1, b"data: one\n\n"),))], 0.01)
    time.sleep(0.02)
    assert store.lose(info.stream_id, info.epoch, ends.lost(info.stream_id).block)
    again = NewStream("b" * 32, "1" * 20, key="k", request="q")
    begun = Streams(store, Terms(restart=restart)).begin(again, lambda: (said for said in ["two"]), is_named=True)
    assert begun.is_new == is_new


def test_an_answer_that_failed_otherwise_is_never_produced_anew():
    store = MemoryStore()
    store.begin(NewStream("a" * 32, "0" * 20, key="k", request="q"), 60)
    end = ends.failed(MaxDuration("too long"), "a" * 32)
    records = (Record(1, b"data: one\n\n"), Record(2, end.block))
    store.append([Batch("a" * 32, "0" * 20, records, end.state)], 60)
    again = NewStream("b" * 32, "1" * 20, key="k", request="q")
    assert not Streams(store, Terms(restart="resume")).begin(again, lambda: iter(()), is_named=True).is_new


def test_another_policy_is_refused():
    with pytest.raises(InvalidSetting, match="restart: expected one of error, resume, got 'always'"):
        Terms(restart="always")


class Locked(MemoryStore):
    """A store that takes nothing for a while."""

    shared = True

    def __init__(self):
        super().__init__()
        self.is_free = threading.Event()
        self.is_free.set()

    def append(self, batches, lease):
        assert self.is_free.wait(60)
        return super().append(batches, lease)


def test_an_answer_that_goes_on_without_its_store_is_not_ended_when_that_has_taken_it_for_lost():
    store, goes_on, ended = Locked(), threading.Event(), []
    streams = Streams(store, Terms(lease=SHORTEST_LEASE), ended.append)

    def answer(turn):
        yield "one"
        assert goes_on.wait(60)
        store.is_free.clear()
        yield "two"
        while live.is_resumable or not store.lose("a" * 32, "0" * 20, ends.lost("a" * 32).block):
            time.sleep(0.01)
        store.is_free.set()  # to refuse what has waited there
        time.sleep(0.3)
        yield "three"

    begun = streams.begin(NewStream("a" * 32, "0" * 20), answer)
    live = streams._here.live(begun.info.epoch)
    goes_on.set()
    until = time.monotonic() + 30
    while not ended and time.monotonic() < until:
        time.sleep(0.01)
    assert [(report.state, report.events) for report in ended] == [(DONE, 3)]


class Late(MemoryStore):
    """A store that sees each lease run out at once, as after a time in which this process was asleep."""

    def begin(self, new, lease):
        return super().begin(new, 0.0)

    def append(self, batches, lease):
        return super().append(batches, 0.0)


def test_no_process_takes_for_lost_what_it_produces_itself():
    streams, goes_on = Streams(Late()), threading.Event()

    def answer(turn):
        yield "one"
        assert goes_on.wait(60)

    begun = streams.begin(NewStream("a" * 32, "0" * 20), answer)
    states = [streams.info(begun.info.stream_id).state for _ in range(3)]
    goes_on.set()
    assert list(streams.follow(begun.info, 0, Delivery(begun.info.epoch))) and states == [RUNNING] * 3


def test_a_store_that_writes_some_at_a_time_is_not_behind_before_it_is_due(lost):
    live = Live(BEGUN, is_shared=False, is_instant=True, on_lost_recording=lost.append)
    live.add(b"one")
    live.spend_patience(2 * PATIENCE)
    assert live.is_resumable
    live.add_together([b"more"] * TOGETHER_RECORDS)
    live.spend_patience(2 * PATIENCE)
    assert lost == [live]


def test_a_production_that_cannot_start_leaves_nothing_behind(monkeypatch):
    def refuse(*arguments):
        raise RuntimeError("can't start new thread")

    store = MemoryStore()
    streams = Streams(store, Terms(max_streams=1))
    streams._here.care()
    monkeypatch.setattr("flaskstream.resume.generation.start", refuse)
    for n in range(2):
        with pytest.raises(RuntimeError, match="can't start"):
            streams.begin(NewStream(str(n) * 32, str(n) * 20), lambda turn: iter(()))
        assert store.read(str(n) * 32, 0, 10).info.state == FAILED
    assert not streams._here._running
