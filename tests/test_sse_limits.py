"""What the decoder costs: memory that is bounded, time in proportion to the bytes."""

from __future__ import annotations

import gc
import time
import tracemalloc
from typing import Any, Callable

import pytest
from sse_reading import read
from sse_vectors import Outcome

from flaskstream.errors import EventTooLarge
from flaskstream.sse import Decoder, end_of_blocks

KILOBYTE = 1024
LIMIT = 256 * KILOBYTE


def peak_of(work: Callable[[], None]) -> int:
    """Return how many bytes were held at the worst moment of the work."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("first", "endless", "held"),
    [
        (b"data: ", b"xxxxx" * 800, 5 * 800),
        (b"", b"data: x\n" * 500, 2 * 500),
        (b"", b"data\n" * 800, 800),
        (b"", b"id: x\r\n" * 500, 2 * 500),
        (b"event: ", b"xxxxx" * 800, 5 * 800),
        (b": ", b"xxxxx" * 800, 5 * 800),
        (b"<html>", b"<br/>" * 800, 5 * 800),
    ],
    ids=["line", "small_lines", "empty_lines", "ids", "name", "comment", "page"],
)
def test_an_endless_event_ends_in_an_error_near_the_limit_and_memory_stays_bounded(
    first: bytes, endless: bytes, held: int
) -> None:
    taken = 0

    def work() -> None:
        nonlocal taken
        decoder = Decoder(max_event_bytes=LIMIT)
        decoder.feed(first)
        with pytest.raises(EventTooLarge):
            while taken < 10 * LIMIT:
                taken += held
                decoder.feed(endless)

    assert peak_of(work) < 1.5 * LIMIT
    assert LIMIT - held < taken < LIMIT + 2 * held


def test_after_the_error_the_event_is_held_no_longer() -> None:
    decoder = Decoder(max_event_bytes=LIMIT)

    def work() -> None:
        with pytest.raises(EventTooLarge):
            for _ in range(LIMIT):
                decoder.feed(b"data: x\n" * 100)
        assert tracemalloc.get_traced_memory()[0] < LIMIT / 4

    peak_of(work)


def test_memory_does_not_grow_with_the_stream() -> None:
    block = b": hb\nid: 7\nevent: t\ndata: a\ndata: b\n\n" * 100

    def feed(times: int) -> Callable[[], None]:
        decoder = Decoder()

        def work() -> None:
            for _ in range(times):
                decoder.feed(block)

        return work

    feed(1)()
    assert peak_of(feed(200)) < 2 * peak_of(feed(2))


def test_the_default_limit_lets_an_event_of_megabytes_pass() -> None:
    picture = b"x" * (8 * KILOBYTE * KILOBYTE)
    stream = b"data: " + picture + b"\n\n"
    events = read(stream[place : place + 65536] for place in range(0, len(stream), 65536)).events
    assert [len(event.data) for event in events] == [len(picture)]


def seconds_of(work: Callable[[], Any]) -> float:
    """Return the processor time of the best of three runs, without the collector's own, which is not linear."""
    times = []
    gc.disable()
    try:
        for _ in range(3):
            start = time.thread_time()
            work()
            times.append(time.thread_time() - start)
    finally:
        gc.enable()
    return min(times)


def assert_linear(work: Callable[[int], Any], small: int) -> None:
    """Eight times the bytes take eight times as long; were it quadratic, it would be sixty-four times."""
    ratio = seconds_of(lambda: work(8 * small)) / seconds_of(lambda: work(small))
    assert ratio < 24, f"eight times the bytes took {ratio:.1f} times as long"


def decode_in_pieces(stream: bytes, size: int) -> Outcome:
    return read(stream[place : place + size] for place in range(0, len(stream), size))


def test_a_line_in_single_bytes_takes_time_in_proportion() -> None:
    assert_linear(lambda size: decode_in_pieces(b"data: " + b"x" * size + b"\n\n", 1), 30_000)


def test_many_lines_of_one_event_take_time_in_proportion() -> None:
    assert_linear(lambda size: decode_in_pieces(b"data: x\n" * (size // 8) + b"\n", 1000), 150_000)


def test_many_events_take_time_in_proportion() -> None:
    assert_linear(lambda size: decode_in_pieces(b"data: x\n\n" * (size // 9), 1), 30_000)
    assert_linear(lambda size: decode_in_pieces(b"data: x\r\n\r\n" * (size // 11), size), 150_000)


def test_a_line_of_five_megabytes_in_small_pieces_takes_time_in_proportion() -> None:
    assert_linear(lambda size: decode_in_pieces(b"data: " + b"x" * size + b"\n\n", 100), 625_000)


def test_searching_for_the_end_of_blocks_takes_time_in_proportion() -> None:
    def relay(size: int) -> None:
        buffer = bytearray()
        for _ in range(size // 100):
            searched = len(buffer)
            buffer += b"x" * 100
            assert end_of_blocks(buffer, searched) == 0

    assert_linear(relay, 300_000)
