"""What goes out of a recorded stream where its delivery ends before the stream does."""

from __future__ import annotations

import pytest

from flaskstream.errors import MaxDuration, ProducerLost, StoreUnavailable
from flaskstream.options import StreamOptions
from flaskstream.pump import Pump
from flaskstream.resume import reader
from flaskstream.resume.reader import Reader
from flaskstream.resume.wire import Delivery
from flaskstream.sse import Decoder
from flaskstream.stores.memory import MemoryStore
from flaskstream.stores.protocol import DONE, Batch, NewStream, Record
from flaskstream.stream import STOPPING, Stream

EPOCH = "0123456789abcdef0123"
RECORDS = tuple(Record(number, b'data: {"t":"a"}\n\n') for number in (1, 2))
END = Record(3, b"event: done\ndata: {}\n\n")
NEW = NewStream("s" * 16, EPOCH)


def wire_after(*sent, end=END):
    """A wire on which these have gone out, while the reader has come to the end already."""
    wire = Delivery(EPOCH)
    wire.end = end
    for record in sent:
        wire.frame(record)
    return wire


def names(body):
    return [(event.event, event.id) for event in Decoder().feed(body)]


def test_the_end_goes_out_behind_all_that_came_before_it():
    assert names(wire_after(*RECORDS).done("x")) == [("done", f"{EPOCH}-3")]
    assert names(wire_after(*RECORDS).failed(MaxDuration("late"), "x")) == [("done", f"{EPOCH}-3")]


def test_a_delivery_that_ends_before_that_has_no_end_of_the_stream():
    assert wire_after(RECORDS[0]).done("x") == b""
    assert names(wire_after(RECORDS[0]).failed(MaxDuration("late"), "x")) == [("error", None)]


class SharedStore(MemoryStore):
    """As one that other processes see, too."""

    shared = True


def store_with(*records, state=DONE):
    store = SharedStore()
    store.begin(NEW, 60)
    store.append([Batch(NEW.stream_id, EPOCH, records, state)], 60)
    return store


def reader_of(store, after=0):
    delivery = Delivery(EPOCH)
    return delivery, Reader(store, None, NEW.stream_id, after, delivery, 0.1, 1.0).records()


def test_who_is_sent_away_hears_the_end_where_it_goes_on(monkeypatch):
    monkeypatch.setattr(reader, "_BLOCK_BYTES", 1)  # each is written by itself
    delivery, records = reader_of(store_with(*RECORDS, END))
    pump = Pump(records)
    stream = Stream(pump, delivery, "x", StreamOptions(), 0.0)
    first = b""
    while b"data" not in first:  # before it there may be a comment
        first += next(stream)
    pump.wake(STOPPING)
    assert names(first + b"".join(stream)) == [("message", f"{EPOCH}-1"), ("restart", None)]


@pytest.mark.parametrize(("after", "error"), [(0, ProducerLost), (1, StoreUnavailable)])
def test_a_stream_that_was_taken_away_under_its_reader(after, error):
    """Who asked again has begun another one where this one failed before it said anything; or the store has lost it."""
    store = store_with(*RECORDS, END)
    _, records = reader_of(store, after)
    store.forget(NEW.stream_id, EPOCH)
    with pytest.raises(error):
        next(records)
