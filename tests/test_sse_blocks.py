"""`end_of_blocks`: a relay that passes bytes on passes whole blocks only, and at once."""

from __future__ import annotations

from typing import Iterable, Iterator

import pytest
from hypothesis import given
from sse_reading import (
    LINE_ENDS,
    anything,
    at_every_cut,
    byte_by_byte,
    every_vector,
    in_single_bytes,
    pieces_of,
    read,
    whole,
)
from sse_vectors import Vector

from flaskstream.sse import end_of_blocks


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
