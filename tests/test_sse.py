"""The event-stream decoder: the table of `sse_vectors`, the standard, connections and failures."""

from __future__ import annotations

from typing import Any, Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sse_reading import (
    CUTTINGS,
    LINE_ENDS,
    anything,
    as_read,
    byte_by_byte,
    every_vector,
    pieces_of,
    read,
    streams,
    with_empty_pieces,
)
from sse_reference import interpret
from sse_vectors import LIMITS, LLM_ENDS, VECTORS, Outcome, Vector

from flaskstream.errors import EventTooLarge
from flaskstream.sse import Decoder, Event


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


def test_an_event_that_a_failure_broke_never_counts_as_whole() -> None:
    def refuse(text: str) -> None:
        raise LookupError(text)

    decoder = Decoder("llm", on_ignored_line=refuse)
    with pytest.raises(LookupError, match="<html>"):
        decoder.feed(b"data: {}\n<html>\n")
    assert decoder.close() == []
    assert decoder.truncated


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
