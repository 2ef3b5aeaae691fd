"""Lines as events: JSON, or text with its line ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sse_reading import anything, byte_by_byte, pieces_of

from flaskstream.dialects.framings import JSON_LINES, TEXT_LINES, LineDecoder
from flaskstream.errors import EventTooLarge

LIMIT = 8
streams_of_lines = st.lists(st.sampled_from([b"\n", b"\r\n", b"a", b"\xc3\xa9", b"\xc3", b" ", b"{}"])).map(b"".join)


def decoded(pieces: list[bytes], is_text: bool = True, limit: int = LIMIT) -> tuple[list[str], bool]:
    """Return the data of the events, and whether a line was too large."""
    decoder = LineDecoder(is_text, limit)
    events = []
    try:
        for piece in pieces:
            events += decoder.feed(piece)
        events += decoder.close()
    except EventTooLarge:
        return [event.data for event in events], True
    return [event.data for event in events], False


@anything
@given(pieces_of(streams_of_lines))
def test_the_cuts_of_the_network_make_no_difference(pieces: list[bytes]) -> None:
    for is_text in (True, False):
        assert decoded(pieces, is_text) == decoded([b"".join(pieces)], is_text)
        assert decoded(pieces, is_text) == decoded(byte_by_byte(b"".join(pieces)), is_text)


@anything
@given(streams_of_lines)
def test_text_is_the_whole_text(stream: bytes) -> None:
    texts, _ = decoded([stream], limit=10_000)
    assert "".join(texts) == stream.decode("utf-8", "replace").replace("\r\n", "\n")


@pytest.mark.parametrize("line", [b"123456789\n", b"123456789", b"123456789\n4\n"])
def test_what_came_before_a_line_that_is_too_large_is_not_lost(line: bytes) -> None:
    for pieces in ([b"1\n" + line], [b"1\n", line], byte_by_byte(b"1\n" + line)):
        assert decoded(pieces) == (["1\n"], True)
    assert decoded([b"12345678\n"]) == (["12345678\n"], False)


def test_a_line_that_is_too_large_ends_the_connection() -> None:
    decoder = LineDecoder(is_text=True, max_event_bytes=LIMIT)
    assert [event.data for event in decoder.feed(b"1\n123456789")] == ["1\n"]
    for take in (lambda: decoder.feed(b"\n2\n"), decoder.close):
        with pytest.raises(EventTooLarge, match="at most 8 bytes"):
            take()


def test_half_a_line_of_json_is_dropped_and_told() -> None:
    for stream, is_cut in [(b'{"a": 1', True), (b"5", True), (b'{"a": 1}', False), (b"  ", False), (b"", False)]:
        decoder = LineDecoder(is_text=False)
        decoder.feed(stream)
        assert [bool(decoder.close()), decoder.truncated] == [stream.startswith(b"{") and not is_cut, is_cut]


def test_the_end_of_the_last_whole_line_is_found() -> None:
    ends = {b"": 0, b"ab": 0, b"a\n": 2, b"a\nb": 2, b"a\nb\n": 4}
    assert {buffer: JSON_LINES.end(bytearray(buffer), 0) for buffer in ends} == ends
    assert JSON_LINES.end(bytearray(b"ab\nc"), 2) == 3


def test_events_are_written_as_they_were_read() -> None:
    for framing, stream in [(JSON_LINES, b'{"a": 1}\n{"b": 2}\n'), (TEXT_LINES, b"a\n\nb")]:
        decoder = framing.decoder(lambda line: None)
        events = [*decoder.feed(stream), *decoder.close()]
        assert b"".join(map(framing.encode, events)) == stream
