"""How the tests read a stream, cut it, and make streams up."""

from __future__ import annotations

from itertools import combinations
from typing import Any, Iterable, Iterator

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from sse_reference import Read
from sse_vectors import VECTORS, Outcome, Vector

from flaskstream.errors import EventTooLarge
from flaskstream.sse import MAX_EVENT_BYTES, Decoder, Event

# No clock: a busy machine is no failure.
anything = settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])


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


# The cuts of a vector


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


# Any stream

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
