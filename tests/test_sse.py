"""The event-stream decoder and encoder: the table of `sse_vectors`, and what holds for any bytes."""

from __future__ import annotations

import dataclasses
import enum
import json
import time
import tracemalloc
from itertools import combinations
from typing import Any, Callable, Iterable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sse_reference import Read, interpret
from sse_vectors import LIMITS, LLM_ENDS, VECTORS, Outcome, Vector

from flaskstream.errors import EventTooLarge, InvalidEvent
from flaskstream.sse import (
    MAX_EVENT_BYTES,
    Decoder,
    Event,
    encode,
    encode_comment,
    end_of_blocks,
    to_json,
)

anything = settings(deadline=None, max_examples=300)


def read(pieces: Iterable[Any], mode: str = "strict", max_event_bytes: int = MAX_EVENT_BYTES) -> Outcome:
    """Return all that a decoder says about the stream that comes in these pieces."""
    comments: list[str] = []
    ignored: list[str] = []
    decoder = Decoder(mode, max_event_bytes, comments.append, ignored.append)
    events: list[Event] = []
    too_large = False
    try:
        for piece in pieces:
            events += decoder.feed(piece)
    except EventTooLarge:
        too_large = True
    try:
        events += decoder.close()
    except EventTooLarge:
        too_large = True
    return Outcome(
        tuple(as_read(event) for event in events),
        tuple(comments),
        tuple(ignored),
        decoder.last_event_id,
        decoder.retry,
        decoder.truncated,
        too_large,
    )


def as_read(event: Event) -> Read:
    return Read(event.data, event.event, event.id, event.retry, event.last_event_id)


def cut_at(stream: bytes, cuts: Iterable[int]) -> list[bytes]:
    places = [0, *sorted(cuts), len(stream)]
    return [stream[start:end] for start, end in zip(places, places[1:])]


def byte_by_byte(stream: bytes) -> list[bytes]:
    return [stream[place : place + 1] for place in range(len(stream))]


def with_empty_pieces(pieces: Iterable[bytes]) -> list[bytes]:
    return [b"", *(part for piece in pieces for part in (piece, b"", b""))]


# Every vector, every cut


def whole(vector: Vector) -> Iterator[list[bytes]]:
    yield [vector.stream]


def as_the_network_gave_it(vector: Vector) -> Iterator[list[bytes]]:
    yield list(vector.pieces)


def in_single_bytes(vector: Vector) -> Iterator[list[bytes]]:
    yield byte_by_byte(vector.stream)


def at_every_cut(vector: Vector) -> Iterator[list[bytes]]:
    for place in range(len(vector.stream) + 1):
        yield cut_at(vector.stream, [place])


PAIRS_UP_TO = 48  # bytes: about a thousand pairs


def at_every_pair_of_cuts(vector: Vector) -> Iterator[list[bytes]]:
    if len(vector.stream) <= PAIRS_UP_TO:
        for places in combinations(range(len(vector.stream) + 1), 2):
            yield cut_at(vector.stream, places)


CUTTINGS = [whole, as_the_network_gave_it, in_single_bytes, at_every_cut, at_every_pair_of_cuts]

every_vector = pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)


@every_vector
@pytest.mark.parametrize("cutting", CUTTINGS, ids=lambda cutting: cutting.__name__)
def test_a_stream_means_the_same_wherever_it_is_cut(
    vector: Vector, cutting: Callable[[Vector], Iterator[list[bytes]]]
) -> None:
    for pieces in cutting(vector):
        assert read(pieces, vector.mode, vector.max_event_bytes) == vector.outcome, pieces
        pieces = with_empty_pieces(pieces)
        assert read(pieces, vector.mode, vector.max_event_bytes) == vector.outcome, pieces


@every_vector
@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_a_stream_means_the_same_in_every_kind_of_bytes(vector: Vector, kind: Callable[[bytes], Any]) -> None:
    pieces = [kind(piece) for piece in vector.pieces]
    assert read(pieces, vector.mode, vector.max_event_bytes) == vector.outcome


def test_the_vectors_have_names_of_their_own() -> None:
    names = [vector.name for vector in VECTORS]
    assert sorted(set(names)) == sorted(names)


# The standard, word for word


def as_the_standard_says(stream: bytes, last_event_id: str = "") -> Outcome:
    source = interpret(stream, last_event_id)
    return Outcome(
        tuple(source.events),
        tuple(source.comments),
        tuple(source.ignored),
        source.last_event_id,
        source.retry,
        source.truncated,
    )


@pytest.mark.parametrize(
    "vector", [v for v in VECTORS if v not in LIMITS and v not in LLM_ENDS], ids=lambda vector: vector.name
)
def test_the_vectors_agree_with_the_standard(vector: Vector) -> None:
    assert as_the_standard_says(vector.stream) == vector.outcome


LINE_ENDS = [b"\n", b"\r", b"\r\n"]
FRAGMENTS = [
    *LINE_ENDS * 3,
    *[b"data: ", b"data:", b"data", b"event: ", b"id: ", b"id", b"retry: ", b": ", b":", b"foo: ", b" ", b"x"],
    *[b"12", b"\0", b"\xef\xbb\xbf", b"\xef", b"\xbb", b"\xf0\x9f\x8c\x8d", b"\xf0\x9f", b"\xff", b"\xc2\x85"],
]
streams = st.one_of(
    st.lists(st.sampled_from(FRAGMENTS), max_size=40).map(b"".join),
    st.binary(max_size=40),
)


@st.composite
def pieces_of(draw: st.DrawFn, stream: st.SearchStrategy[bytes] = streams) -> list[bytes]:
    whole_stream = draw(stream)
    return cut_at(whole_stream, draw(st.lists(st.integers(0, len(whole_stream)), max_size=8)))


@anything
@given(pieces_of())
def test_any_bytes_in_any_pieces_mean_what_the_standard_says(pieces: list[bytes]) -> None:
    assert read(pieces) == as_the_standard_says(b"".join(pieces))


@anything
@given(st.lists(st.sampled_from(LINE_ENDS), min_size=1, max_size=12), st.data())
def test_any_mixture_of_line_ends_means_what_the_standard_says(ends: list[bytes], data: st.DataObject) -> None:
    lines = data.draw(st.lists(st.sampled_from([b"", b"data: 1", b": c"]), min_size=len(ends), max_size=len(ends)))
    stream = b"".join(line + end for line, end in zip(lines, ends))
    expected = as_the_standard_says(stream)
    assert read([stream]) == expected
    assert read(byte_by_byte(stream)) == expected


@anything
@given(streams)
def test_an_event_is_handed_on_with_the_byte_that_closes_it(stream: bytes) -> None:
    decoder = Decoder()
    events: list[Event] = []
    for place in range(len(stream)):
        events += decoder.feed(stream[place : place + 1])
        assert [as_read(event) for event in events] == interpret(stream[: place + 1]).events


def test_two_hundred_crlf_events_in_pieces_of_three_bytes_are_two_hundred_events() -> None:
    stream = b"".join(b"data: %d\r\n\r\n" % number for number in range(200))
    events = read(stream[place : place + 3] for place in range(0, len(stream), 3)).events
    assert [event.data for event in events] == [str(number) for number in range(200)]


@anything
@given(pieces_of(), st.sampled_from(["strict", "llm"]), st.integers(1, 60))
def test_the_end_and_the_limit_fall_alike_wherever_the_stream_is_cut(
    pieces: list[bytes], mode: str, limit: int
) -> None:
    whole_stream = b"".join(pieces)
    expected = read([whole_stream], mode, limit)
    assert read(pieces, mode, limit) == expected
    assert read(byte_by_byte(whole_stream), mode, limit) == expected


# One decoder, several connections


def test_nothing_of_a_broken_event_leaks_into_the_next_connection() -> None:
    decoder = Decoder()
    assert decoder.feed(b"event: old\ndata: half") == []
    assert decoder.close() == []
    assert decoder.truncated
    assert decoder.feed(b"data: new\nretry: 10x\nretry: 0050\n\n") == [Event("new", retry=50)]
    assert decoder.close() == []
    assert not decoder.truncated


def test_the_last_id_and_the_retry_survive_a_reconnect() -> None:
    decoder = Decoder()
    decoder.feed(b"retry: 50\nid: 7\ndata: 1\n\nid: 8\ndata: half")
    decoder.close()
    assert (decoder.last_event_id, decoder.retry) == ("7", 50)
    (event,) = decoder.feed(b"data: 2\n\n")
    assert (event.id, event.last_event_id) == (None, "7")


def test_an_empty_id_leaves_no_last_id_to_send() -> None:
    decoder = Decoder()
    decoder.feed(b"id: 1\ndata: a\n\nid\ndata: d\n\n")
    decoder.close()
    assert decoder.last_event_id == ""


def test_a_cr_at_the_end_of_a_connection_swallows_no_lf_of_the_next() -> None:
    decoder = Decoder()
    decoder.feed(b"data: 1\r")
    decoder.close()
    comments: list[str] = []
    decoder = Decoder(on_comment=comments.append)
    assert decoder.feed(b"data: 1\r\r") == [Event("1")]
    decoder.close()
    assert decoder.feed(b"\ndata: 2\n\n") == [Event("2")]


def test_every_connection_may_begin_with_its_byte_order_mark() -> None:
    decoder = Decoder()
    decoder.feed(b"\xef\xbb")
    decoder.close()
    for _ in range(2):
        assert decoder.feed(b"\xef\xbb\xbfdata: 1\n\n") == [Event("1")]
        decoder.close()


@anything
@given(st.lists(pieces_of(), max_size=3))
def test_each_connection_means_what_the_standard_says(connections: list[list[bytes]]) -> None:
    decoder = Decoder()
    last_event_id = ""
    for pieces in connections:
        source = interpret(b"".join(pieces), last_event_id)
        events = [event for piece in pieces for event in decoder.feed(piece)] + decoder.close()
        assert [as_read(event) for event in events] == source.events
        assert decoder.truncated == source.truncated
        assert decoder.last_event_id == source.last_event_id
        last_event_id = source.last_event_id


def test_closing_twice_changes_nothing_but_the_mark_of_a_broken_end() -> None:
    decoder = Decoder("llm")
    decoder.feed(b"id: 7\ndata: {}")
    assert decoder.close() == [Event("{}", id="7")]
    assert decoder.close() == []
    assert decoder.last_event_id == "7"


def test_a_nesting_deeper_than_python_follows_is_not_whole_and_no_crash() -> None:
    decoder = Decoder("llm")
    decoder.feed(b"data: " + b"[" * 200_000)
    assert decoder.close() == []
    assert decoder.truncated


# Failures


def test_whole_events_before_the_one_that_is_too_large_come_first_and_the_error_next() -> None:
    decoder = Decoder(max_event_bytes=100)
    assert decoder.feed(b"data: 1\n\ndata: 2\n\ndata: " + b"x" * 200) == [Event("1"), Event("2")]
    for _ in range(2):
        with pytest.raises(EventTooLarge, match="expected an event of at most 100 bytes, got 206 before its end"):
            decoder.feed(b"data: 3\n\n")
    assert decoder.close() == []
    assert decoder.truncated
    assert decoder.feed(b"data: 4\n\n") == [Event("4")]


def test_close_raises_the_error_that_feed_still_owed() -> None:
    decoder = Decoder(max_event_bytes=100)
    assert decoder.feed(b"data: 1\n\ndata: " + b"x" * 200) == [Event("1")]
    with pytest.raises(EventTooLarge):
        decoder.close()
    assert decoder.truncated
    assert decoder.close() == []


def test_an_event_that_is_too_large_never_counts_as_whole() -> None:
    decoder = Decoder("llm", max_event_bytes=10)
    with pytest.raises(EventTooLarge):
        decoder.feed(b'data: "0123456789"')
    assert decoder.close() == []
    assert decoder.truncated


def test_what_a_callback_raises_ends_the_connection_and_loses_no_event_before_it() -> None:
    def refuse(text: str) -> None:
        raise LookupError(text)

    decoder = Decoder(on_comment=refuse)
    assert decoder.feed(b"data: 1\n\n: hb\ndata: 2\n\n") == [Event("1")]
    with pytest.raises(LookupError, match="hb"):
        decoder.feed(b"data: 3\n\n")
    decoder.close()
    assert decoder.truncated
    assert decoder.feed(b"data: 4\n\n") == [Event("4")]


def test_callbacks_are_given_text_and_only_what_is_theirs() -> None:
    comments: list[str] = []
    ignored: list[str] = []
    decoder = Decoder(on_comment=comments.append, on_ignored_line=ignored.append)
    decoder.feed(b": \xf0\x9f\x8c\x8d\xff\nfoo: \xf0\x9f\x8c\x8d\xff\ndata: 1\n\n")
    assert comments == ["\U0001f30d\ufffd"]
    assert ignored == ["foo: \U0001f30d\ufffd"]


def test_bytes_that_the_caller_overwrites_later_were_copied() -> None:
    buffer = bytearray(b"data: 1")
    decoder = Decoder()
    decoder.feed(buffer)
    buffer[:] = b"X" * len(buffer)
    assert decoder.feed(b"\n\n") == [Event("1")]


@pytest.mark.parametrize("junk", ["data: 1\n\n", 5, None, [b"data: 1"]])
def test_what_is_not_bytes_is_refused_and_disturbs_nothing(junk: Any) -> None:
    decoder = Decoder()
    decoder.feed(b"data: 1\n")
    with pytest.raises(TypeError, match="bytes-like"):
        decoder.feed(junk)
    assert decoder.feed(b"\n") == [Event("1")]


def test_a_mode_or_limit_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match=r'mode: expected "strict" or "llm", got \'loose\''):
        Decoder("loose")
    with pytest.raises(ValueError, match="max_event_bytes: expected 1 or more, got 0"):
        Decoder(max_event_bytes=0)


# Memory and time

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
    """Return the processor time of the best of three runs."""
    times = []
    for _ in range(3):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def assert_linear(work: Callable[[int], Any], small: int) -> None:
    """Four times the bytes take four times as long; were it quadratic, it would be sixteen times."""
    ratio = seconds_of(lambda: work(4 * small)) / seconds_of(lambda: work(small))
    assert ratio < 9, f"four times the bytes took {ratio:.1f} times as long"


def decode_in_pieces(stream: bytes, size: int) -> Outcome:
    return read(stream[place : place + size] for place in range(0, len(stream), size))


def test_a_line_in_single_bytes_takes_time_in_proportion() -> None:
    assert_linear(lambda size: decode_in_pieces(b"data: " + b"x" * size + b"\n\n", 1), 60_000)


def test_many_lines_of_one_event_take_time_in_proportion() -> None:
    assert_linear(lambda size: decode_in_pieces(b"data: x\n" * (size // 8) + b"\n", 1), 60_000)


def test_many_events_take_time_in_proportion() -> None:
    assert_linear(lambda size: decode_in_pieces(b"data: x\n\n" * (size // 9), 1), 60_000)
    assert_linear(lambda size: decode_in_pieces(b"data: x\r\n\r\n" * (size // 11), size), 300_000)


def test_a_line_of_five_megabytes_in_small_pieces_takes_time_in_proportion() -> None:
    assert_linear(lambda size: decode_in_pieces(b"data: " + b"x" * size + b"\n\n", 100), 1_250_000)


def test_searching_for_the_end_of_blocks_takes_time_in_proportion() -> None:
    def relay(size: int) -> None:
        buffer = bytearray()
        for _ in range(size // 100):
            searched = len(buffer)
            buffer += b"x" * 100
            assert end_of_blocks(buffer, searched) == 0

    assert_linear(relay, 1_250_000)


# Events


def test_an_event_is_frozen_hashable_and_equal_by_what_it_says() -> None:
    (decoded,) = Decoder().feed(b"id: 7\nevent: e\nretry: 5\ndata: d\n\n")
    built = Event("d", "e", "7", 5)
    assert decoded == built
    assert hash(decoded) == hash(built)
    assert repr(decoded) == "Event(data='d', event='e', id='7', retry=5, last_event_id='7')"
    assert dataclasses.replace(decoded, data="x") == Event("x", "e", "7", 5)
    with pytest.raises(dataclasses.FrozenInstanceError):
        decoded.data = "other"  # type: ignore[misc]


def test_json_over_several_lines_is_read() -> None:
    (event,) = Decoder().feed(b'data: {\ndata: "a":\ndata: 1}\n\n')
    assert event.json() == {"a": 1}


def test_an_event_whose_data_is_no_json_is_one_error_and_the_next_one_is_read() -> None:
    malformed, after = Decoder().feed(b'data: {"a":1}\ndata: {"b":2}\n\ndata: {"c":3}\n\n')
    with pytest.raises(json.JSONDecodeError):
        malformed.json()
    assert after.json() == {"c": 3}


def test_json_nested_deeper_than_python_follows_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="data: expected JSON, got a nesting too deep"):
        Event("[" * 200_000).json()


LONE = "\ud800"

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"data": b"a"}, "data: expected a str, got bytes: b'a'"),
    ({"data": None}, "data: expected a str, got NoneType: None"),
    ({"data": {"a": 1}}, "data: expected a str, got dict: {'a': 1}"),
    ({"data": LONE}, "data: expected text that UTF-8 can carry, got .*surrogates not allowed"),
    ({"data": "a", "event": "x\ndata: forged"}, r"event: expected no '\\n' in it, got 'x\\ndata: forged'"),
    ({"data": "a", "event": "x\rid: 1"}, r"event: expected no '\\r' in it, got 'x\\rid: 1'"),
    ({"data": "a", "event": ""}, 'event: expected a name, got ""'),
    ({"data": "a", "event": None}, "event: expected a str, got NoneType: None"),
    ({"data": "a", "event": LONE}, "event: expected text that UTF-8 can carry"),
    ({"data": "a", "id": "1\r\n\r\ndata: f"}, r"id: expected no '\\r' in it, got '1\\r\\n\\r\\ndata: f'"),
    ({"data": "a", "id": "1\ndata: f"}, r"id: expected no '\\n' in it, got '1\\ndata: f'"),
    ({"data": "a", "id": "a\x00b"}, r"id: expected no '\\x00' in it, got 'a\\x00b'"),
    ({"data": "a", "id": 7}, "id: expected a str, got int: 7"),
    ({"data": "a", "id": LONE}, "id: expected text that UTF-8 can carry"),
    ({"data": "a", "retry": "5\nid: 9"}, r"retry: expected whole milliseconds, 0 to \d+, got '5\\nid: 9'"),
    ({"data": "a", "retry": -1}, r"retry: expected whole milliseconds, 0 to \d+, got -1"),
    ({"data": "a", "retry": 1.5}, r"retry: expected whole milliseconds, 0 to \d+, got 1.5"),
    ({"data": "a", "retry": True}, r"retry: expected whole milliseconds, 0 to \d+, got True"),
    ({"data": "a", "retry": 10**18}, r"retry: expected whole milliseconds, 0 to 9{18}, got 10{18}"),
]


@pytest.mark.parametrize(("fields", "message"), REFUSED, ids=[str(fields) for fields, _ in REFUSED])
def test_an_event_that_the_wire_cannot_carry_is_refused_with_what_was_expected_and_what_came(
    fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidEvent, match=message):
        Event(**fields)


def test_a_refusal_quotes_only_the_beginning_of_what_came() -> None:
    with pytest.raises(InvalidEvent) as refusal:
        Event("a", event="x" * 10_000 + "\n")
    assert len(str(refusal.value)) < 200


# Encoding


@pytest.mark.parametrize(
    ("event", "wire"),
    [
        (Event("a"), b"data: a\n\n"),
        (Event(""), b"data: \n\n"),
        (Event("a\nb\rc\r\nd"), b"data: a\ndata: b\ndata: c\ndata: d\n\n"),
        (Event("a\n"), b"data: a\ndata: \n\n"),
        (Event("a", "message"), b"data: a\n\n"),
        (Event("a", "tok", "7", 5), b"event: tok\nid: 7\nretry: 5\ndata: a\n\n"),
        (Event("a", id=""), b"id: \ndata: a\n\n"),
        (Event("a", retry=0), b"retry: 0\ndata: a\n\n"),
        (Event("a", last_event_id="7"), b"data: a\n\n"),
        (Event("\U0001f30d"), b"data: \xf0\x9f\x8c\x8d\n\n"),
    ],
)
def test_an_event_is_written_in_the_safe_dialect(event: Event, wire: bytes) -> None:
    assert encode(event) == wire


def test_a_member_of_a_str_enum_is_written_as_its_value() -> None:
    class Kind(str, enum.Enum):
        DONE = "done"

    event = Event(Kind.DONE, Kind.DONE, Kind.DONE)
    assert encode(event) == b"event: done\nid: done\ndata: done\n\n"
    assert encode_comment(Kind.DONE) == b": done\n\n"


def test_a_lone_cr_in_data_injects_nothing() -> None:
    wire = encode(Event("a\rid: 99\revent: x"))
    assert read([wire]).events == (Read("a\nid: 99\nevent: x"),)


def test_text_that_looks_like_a_whole_event_stays_data() -> None:
    text = "\n\nevent: forged\ndata: f\r\r\nid: 1\r\n\r\n"
    assert read([encode(Event(text))]).events == (Read("\n\nevent: forged\ndata: f\n\nid: 1\n\n"),)


def test_a_comment_of_several_lines_stays_a_comment() -> None:
    wire = encode_comment("hi\rdata: f\n\ndata: g\r\nid: 1")
    outcome = read([wire + b"data: 1\n\n"])
    assert outcome.comments == ("hi", "data: f", "", "data: g", "id: 1")
    assert outcome.events == (Read("1"),)


def test_a_comment_that_utf8_cannot_carry_is_refused() -> None:
    with pytest.raises(InvalidEvent, match="comment: expected text that UTF-8 can carry"):
        encode_comment(LONE)
    with pytest.raises(InvalidEvent, match="comment: expected a str, got bytes"):
        encode_comment(b"hb")  # type: ignore[arg-type]


def naive_reader(stream: bytes) -> list[str]:
    """What many a client does: split at blank lines and keep the blocks that begin with data."""
    return [block[6:] for block in stream.decode().split("\n\n") if block.startswith("data: ")]


def test_a_comment_block_keeps_the_event_after_it_from_readers_that_split_at_blank_lines() -> None:
    stream = encode_comment("hb") + encode(Event("1"))
    assert stream == b": hb\n\ndata: 1\n\n"
    assert naive_reader(stream) == ["1"]
    assert read([stream]) == Outcome((Read("1"),), ("hb",))


def test_a_bare_comment_line_is_read_by_the_standard_and_costs_naive_readers_an_event() -> None:
    stream = encode_comment("hb", block=False) + encode(Event("1"))
    assert stream == b": hb\ndata: 1\n\n"
    assert naive_reader(stream) == []
    assert read([stream]) == Outcome((Read("1"),), ("hb",))


def test_what_is_decoded_and_encoded_again_means_the_same() -> None:
    stream = (
        b'event: message_start\nid: 3\ndata: {"type":"message_start"}\n\n: hb\n\n'
        b'event: ping\nretry: 9\ndata: {"type":"ping"}\n\n: OPENROUTER PROCESSING\n\ndata:[DONE]\n\n'
    )
    again = b"".join(encode(event) for event in Decoder().feed(stream))
    assert read([again]).events == read([stream]).events
    assert b": :" not in again


# Round trips

NASTY = "\r\n\0:\t \x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029\ufeff\U0001f30d"
texts = st.text(st.one_of(st.sampled_from(NASTY), st.characters(exclude_categories=["Cs"])))
one_line_texts = texts.map(lambda text: text.replace("\r", "").replace("\n", ""))


def with_lf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


@pytest.mark.parametrize("token", [" world", "  x = 1", "\t", " ", "a ", "", "\n", "# title", ": not a comment"])
def test_a_token_comes_back_with_its_spaces(token: str) -> None:
    assert read([encode(Event(token))]).events == (Read(token),)


@anything
@given(texts)
def test_any_text_comes_back_with_its_line_ends_as_lf(text: str) -> None:
    wire = encode(Event(text))
    assert read([wire]).events == (Read(with_lf(text)),)
    assert read(byte_by_byte(wire)).events == (Read(with_lf(text)),)


@anything
@given(
    st.lists(
        st.builds(
            Event,
            texts,
            one_line_texts.map(lambda name: name or "message"),
            st.none() | one_line_texts.map(lambda text: text.replace("\0", "")),
            st.none() | st.integers(0, 10**18 - 1),
        )
    )
)
def test_any_events_come_back_as_they_were(events: list[Event]) -> None:
    decoder = Decoder()
    decoded = decoder.feed(b"".join(map(encode, events)))
    assert decoder.close() == []
    assert not decoder.truncated
    assert decoded == [dataclasses.replace(event, data=with_lf(event.data)) for event in events]


@anything
@given(texts, st.booleans())
def test_any_comment_comes_back_and_is_no_event(text: str, block: bool) -> None:
    outcome = read([encode_comment(text, block=block)])
    assert outcome == Outcome(comments=tuple(with_lf(text).split("\n")))


any_texts = st.text(st.one_of(st.sampled_from(NASTY + "\ud800\udfff"), st.characters()))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | any_texts,
    lambda children: st.lists(children) | st.dictionaries(any_texts, children),
    max_leaves=10,
)


@anything
@given(values)
def test_any_json_comes_back_exactly_and_is_one_line_in_every_reader(value: Any) -> None:
    text = to_json(value)
    assert len(text.splitlines()) == 1
    (event,) = Decoder().feed(encode(Event(text)))
    assert event.data == text
    assert event.json() == json.loads(json.dumps(value))  # two halves of a pair side by side become the pair


@pytest.mark.parametrize("text", ["\u2028\u2029\x85", "\r\n\r", "\ud800", "a\udfff", "\0\x0b\x0c\x1c", "\U0001f30d"])
def test_json_keeps_what_raw_text_cannot(text: str) -> None:
    (event,) = Decoder().feed(encode(Event(to_json({"t": text}))))
    assert event.json() == {"t": text}


def test_json_is_compact_and_leaves_readable_what_is_safe() -> None:
    assert to_json({"t": "\u4f60\U0001f30d", "n": [1, None]}) == '{"t":"\u4f60\U0001f30d","n":[1,null]}'


def list_that_holds_itself() -> list[Any]:
    items: list[Any] = []
    items.append(items)
    return items


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), {1, 2}, b"bytes", object(), {("a",): 1}, list_that_holds_itself()],
    ids=["nan", "infinity", "set", "bytes", "object", "tuple_key", "circle"],
)
def test_what_json_cannot_say_is_refused(value: Any) -> None:
    with pytest.raises(InvalidEvent, match="expected a value that JSON can carry"):
        to_json(value)


# Blocks of a relay that passes bytes on


def relayed(pieces: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Yield, after each piece, what came so far and what of it was passed on."""
    came = passed_on = buffer = b""
    searched = 0
    for piece in pieces:
        came += piece
        buffer += piece
        end = end_of_blocks(buffer, searched)
        passed_on += buffer[:end]
        buffer = buffer[end:]
        searched = len(buffer)
        yield came, passed_on


def assert_only_and_all_whole_blocks_pass(pieces: list[bytes]) -> None:
    for came, passed_on in relayed(pieces):
        assert came.startswith(passed_on)
        outcome = read([passed_on])
        assert not outcome.truncated, (pieces, passed_on)
        assert outcome.events == read([came]).events, (pieces, passed_on)


@every_vector
def test_a_relay_passes_on_all_whole_blocks_and_only_those(vector: Vector) -> None:
    for cutting in (whole, in_single_bytes, at_every_cut):
        for pieces in cutting(vector):
            assert_only_and_all_whole_blocks_pass(pieces)


@anything
@given(pieces_of())
def test_a_relay_of_any_bytes_passes_on_all_whole_blocks_and_only_those(pieces: list[bytes]) -> None:
    assert_only_and_all_whole_blocks_pass(pieces)
    assert_only_and_all_whole_blocks_pass(byte_by_byte(b"".join(pieces)))


@pytest.mark.parametrize("end", LINE_ENDS, ids=["lf", "cr", "crlf"])
def test_the_end_of_blocks_is_after_the_last_blank_line(end: bytes) -> None:
    blocks = b"data: 1" + end + end + b": hb" + end + end
    assert end_of_blocks(blocks + b"data: 2" + end) == len(blocks)
    assert end_of_blocks(bytearray(blocks)) == len(blocks)
    assert end_of_blocks(b"data: 2" + end) == 0
    assert end_of_blocks(b"") == 0


def test_the_search_looks_only_at_what_is_new_and_one_byte_before() -> None:
    assert end_of_blocks(b"data: 1\n\n", searched=8) == 9
    assert end_of_blocks(b"data: 1\n\nda", searched=10) == 0


# Public decoders read what we write as we do

WITHOUT_IDS = [
    Event("plain"),
    Event(to_json({"t": " \u4f60\U0001f30d\u2028\x85\r\n"}), "token", retry=3000),
    Event("  spaces \t"),
    Event("two\nlines"),
    Event(to_json({"t": "x" * 5000})),
    Event("[DONE]", "done"),
]
WITH_IDS = [dataclasses.replace(event, id=f"e-{n}") for n, event in enumerate(WITHOUT_IDS)]


def written(events: list[Event]) -> bytes:
    """Return the stream with a heartbeat after each event: a block, or a bare line where ids were."""
    return b"".join(encode(event) + encode_comment("hb", block=event.id is None) for event in events)


streams_of_ours = pytest.mark.parametrize("events", [WITHOUT_IDS, WITH_IDS], ids=["without_ids", "with_ids"])
in_pieces = pytest.mark.parametrize("cut", [lambda stream: [stream], byte_by_byte], ids=["whole", "in_single_bytes"])


@streams_of_ours
@in_pieces
def test_httpx_sse_reads_what_we_write(events: list[Event], cut: Callable[[bytes], list[bytes]]) -> None:
    httpx = pytest.importorskip("httpx")
    httpx_sse = pytest.importorskip("httpx_sse")
    stream = written(events)
    response = httpx.Response(200, headers={"Content-Type": "text/event-stream"}, content=iter(cut(stream)))
    theirs = [(e.data, e.event, e.id, e.retry) for e in httpx_sse.EventSource(response).iter_sse()]
    ours = Decoder().feed(stream)
    assert ours == events
    assert theirs == [(event.data, event.event, event.last_event_id, event.retry) for event in ours]


@streams_of_ours
@in_pieces
def test_sseclient_py_reads_what_we_write(events: list[Event], cut: Callable[[bytes], list[bytes]]) -> None:
    sseclient = pytest.importorskip("sseclient")
    theirs = [(e.data, e.event, e.id) for e in sseclient.SSEClient(cut(written(events))).events()]
    assert theirs == [(event.data, event.event, event.id) for event in events]
