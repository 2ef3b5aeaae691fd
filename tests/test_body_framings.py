"""The ends of a body, byte by byte."""

from __future__ import annotations

import pytest

from flaskstream.errors import UpstreamTruncated
from flaskstream.upstream.framings import MAX_LINE_BYTES, Chunked, Counted, UntilItsEnd

CHUNKED = b'5\r\nhello\r\n1;name="a;b"\r\n \r\n00A\r\nworld wide\r\n0\r\nTrailer: x\r\n\r\n'
CONTENT = b"hello world wide"


def fed(framing, pieces):
    return b"".join(framing.feed(piece) for piece in pieces)


def cuts(data):
    for at in range(len(data) + 1):
        yield [data[:at], data[at:]]
    yield [data[at : at + 1] for at in range(len(data))]


def test_chunks_are_read_wherever_they_are_cut():
    for pieces in cuts(CHUNKED):
        framing = Chunked()
        assert fed(framing, pieces) == CONTENT
        assert framing.is_over and framing.failure is None and not framing.surplus


@pytest.mark.parametrize("end", range(1, len(CHUNKED)))
def test_a_cut_is_no_end(end):
    framing = Chunked()
    assert CONTENT.startswith(fed(framing, [CHUNKED[:end]]))
    assert not framing.is_over
    if end >= CHUNKED.index(b"0\r\nTrailer") + 3:  # the last chunk has come
        framing.close()
        assert framing.is_over
    else:
        with pytest.raises(UpstreamTruncated):
            framing.close()


@pytest.mark.parametrize(
    "bad",
    [
        b"zz\r\n",
        b"-5\r\nhello",
        b"+5\r\n",
        b"0x5\r\nhello\r\n",
        b"1_0\r\n",
        b"\r\n",
        b"5\r\nhelloXX\r\n",
        b"f" * 16 + b"\r\n",
    ],
)
def test_what_is_no_chunk_fails_behind_what_came_before_it(bad):
    for pieces in ([b"2\r\nhi\r\n" + bad], [b"2\r\nhi\r\n", bad], [b"2\r\nhi\r\n" + bad, b"more"]):
        framing = Chunked()
        assert fed(framing, pieces) in (b"hi", b"hihello")
        assert isinstance(framing.failure, UpstreamTruncated) and not framing.is_over


def test_a_size_without_an_end_fails():
    framing = Chunked()
    for _ in range(MAX_LINE_BYTES // 1024 + 2):
        framing.feed(b"1" * 1024)
    assert framing.failure is not None


def test_what_follows_a_whole_body_is_counted():
    for framing, data in ((Chunked(), b"1\r\na\r\n0\r\n\r\nmore"), (Counted(1), b"amore")):
        assert framing.feed(data) == b"a"
        assert framing.is_over and framing.surplus == 4


def test_a_length_that_was_told():
    for pieces in cuts(CONTENT):
        framing = Counted(len(CONTENT))
        assert fed(framing, pieces) == CONTENT and framing.is_over
    framing = Counted(3)
    framing.feed(b"ab")
    with pytest.raises(UpstreamTruncated, match="1 more"):
        framing.close()
    assert Counted(0).is_over


def test_without_either_the_connection_s_end_is_the_body_s():
    framing = UntilItsEnd()
    assert framing.feed(b"abc") == b"abc" and not framing.is_over
    framing.close()
    assert framing.is_over
