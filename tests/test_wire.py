"""Every response is read whole, byte by byte and at every cut: what is found may not depend on the network."""

from __future__ import annotations

import gzip
import zlib

import pytest

from flaskstream.doctor.coding import content_decoder
from flaskstream.doctor.wire import MAX_LINES_BYTES, Body, End, Head, MalformedResponse, ResponseParser, find_header

OK = "HTTP/1.1 200 OK\r\n"
CHUNKED = f"{OK}Transfer-Encoding: chunked\r\n\r\n"


def read(pieces, method="GET", closes=False):
    """Feed the pieces; return the heads, the body and the end (or None)."""
    parser = ResponseParser(method)
    parts = [part for piece in pieces for part in parser.feed(piece)]
    if closes:
        parts += parser.close()
    ends = [part for part in parts if isinstance(part, End)]
    assert not ends or (parts[-1] is ends[0] and len(ends) == 1)
    heads = [part for part in parts if isinstance(part, Head)]
    return heads, b"".join(part.data for part in parts if isinstance(part, Body)), ends[0] if ends else None


def every_cut(wire):
    yield [wire]
    yield [wire[n : n + 1] for n in range(len(wire))]
    for cut in range(1, len(wire)):
        yield [wire[:cut], wire[cut:]]


# What came, whether the peer then closed, the framing, the body, and the end that is found.
BODIES = {
    "chunked": (CHUNKED + "5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n", False, "chunked", b"hello!", End("final_chunk")),
    "upper-case size": (CHUNKED + "A\r\n0123456789\r\n0\r\n\r\n", False, "chunked", b"0123456789", End("final_chunk")),
    "leading zeros": (CHUNKED + "0005\r\nhello\r\n000\r\n\r\n", False, "chunked", b"hello", End("final_chunk")),
    "chunk extensions": (
        CHUNKED + '5;a=b\r\nhello\r\n0 ; c="d;e"\r\n\r\n',
        False,
        "chunked",
        b"hello",
        End("final_chunk"),
    ),
    "trailers": (
        CHUNKED + "1\r\nx\r\n0\r\nX-Sum: 1\r\nX-Sum: 2\r\n\r\n",
        False,
        "chunked",
        b"x",
        End("final_chunk", trailers=(("X-Sum", "1"), ("X-Sum", "2"))),
    ),
    "line ends inside a chunk": (
        CHUNKED + "4\r\n\r\n\r\n\r\n0\r\n\r\n",
        False,
        "chunked",
        b"\r\n\r\n",
        End("final_chunk"),
    ),
    "bare LF": (
        "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n1\nx\n0\n\n",
        False,
        "chunked",
        b"x",
        End("final_chunk"),
    ),
    "chunked wins over a length": (
        f"{OK}Content-Length: 3\r\nTransfer-Encoding: Chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
        False,
        "chunked",
        b"x",
        End("final_chunk"),
    ),
    "length": (f"{OK}Content-Length: 5\r\n\r\nhello", False, "length", b"hello", End("length")),
    "length said twice": (
        f"{OK}Content-Length: 5\r\ncontent-length: 5\r\n\r\nhello",
        False,
        "length",
        b"hello",
        End("length"),
    ),
    "length of nothing": (f"{OK}Content-Length: 0\r\n\r\n", False, "length", b"", End("length")),
    "close": (f"{OK}\r\nhello", True, "close", b"hello", End("close")),
    "close without a byte": (f"{OK}\r\n", True, "close", b"", End("close")),
    "HTTP/1.0": ("HTTP/1.0 200 OK\r\nServer: old\r\n\r\nhello", True, "close", b"hello", End("close")),
    "a last coding that is not chunked": (f"{OK}Transfer-Encoding: gzip\r\n\r\nzz", True, "close", b"zz", End("close")),
    "204": ("HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n", False, "length", b"", End("length")),
    "304": ("HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", False, "length", b"", End("length")),
    "101": ("HTTP/1.1 101 Switching Protocols\r\n\r\n\x00\x01", True, "close", b"\x00\x01", End("close")),
    "no final chunk": (
        CHUNKED + "5\r\nhello\r\n",
        True,
        "chunked",
        b"hello",
        End("close", "expected the final chunk, got the end"),
    ),
    "cut inside a chunk": (
        CHUNKED + "5\r\nhel",
        True,
        "chunked",
        b"hel",
        End("close", "expected 2 more bytes of a chunk, got the end"),
    ),
    "cut inside the trailers": (
        CHUNKED + "0\r\nX-Sum: 1\r\n",
        True,
        "chunked",
        b"",
        End("close", "expected the end of the trailers, got the end"),
    ),
    "length short": (
        f"{OK}Content-Length: 5\r\n\r\nhel",
        True,
        "length",
        b"hel",
        End("close", "expected 2 more bytes of the body, got the end"),
    ),
    "an error page inside a chunked body": (
        CHUNKED + "1\r\nx\r\nHTTP/1.1 500 Internal Server Error\r\n",
        False,
        "chunked",
        b"x",
        End("malformed", "expected the size of a chunk in hexadecimal, got b'HTTP/1.1 500 Internal Server Error'"),
    ),
    "size with a sign": (
        CHUNKED + "-1\r\n",
        False,
        "chunked",
        b"",
        End("malformed", "expected the size of a chunk in hexadecimal, got b'-1'"),
    ),
    "size of nothing": (
        CHUNKED + "\r\n",
        False,
        "chunked",
        b"",
        End("malformed", "expected the size of a chunk in hexadecimal, got b''"),
    ),
    "chunk longer than its size": (
        CHUNKED + "2\r\nabc",
        False,
        "chunked",
        b"ab",
        End("malformed", "expected a line end after the data of a chunk, got b'c'"),
    ),
    "chunk with half a line end": (
        CHUNKED + "1\r\na\rb",
        False,
        "chunked",
        b"a",
        End("malformed", r"expected a line end after the data of a chunk, got b'\rb'"),
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_body_reads_the_same_wherever_the_network_cuts_it(name):
    text, closes, framing, body, end = BODIES[name]
    for pieces in every_cut(text.encode("latin-1")):
        heads, got, got_end = read(pieces, closes=closes)
        assert ([head.framing for head in heads], got, got_end) == ([framing], body, end), pieces


# What came instead of a head that can be read, and what is said about it.
HEADS = {
    "nothing": ("", "close", "expected a status line, got the end"),
    "half a status line": ("HTTP/1.1 2", "close", "expected a status line, got the end"),
    "half a head": (f"{OK}Server: x\r\n", "close", "expected the rest of the headers, got the end"),
    "only an interim head": ("HTTP/1.1 100 Continue\r\n\r\n", "close", "expected the final status line, got the end"),
    "another protocol": ("SSH-2.0-x\r\n", "malformed", "expected a status line like HTTP/1.1 200 OK, got b'SSH-2.0-x'"),
    "no colon": (f"{OK}hello\r\n", "malformed", "expected a header like name: value, got b'hello'"),
    "no name": (f"{OK}: hello\r\n", "malformed", "expected a header like name: value, got b': hello'"),
    "folding of nothing": (f"{OK} x\r\n", "malformed", "expected a header like name: value, got b' x'"),
    "two lengths": (
        f"{OK}Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
        "malformed",
        "expected one number as Content-Length, got '5, 6'",
    ),
    "a length below 0": (
        f"{OK}Content-Length: -5\r\n\r\n",
        "malformed",
        "expected one number as Content-Length, got '-5'",
    ),
}


@pytest.mark.parametrize("name", HEADS)
def test_what_is_no_head_is_said_with_what_came(name):
    text, how, error = HEADS[name]
    for pieces in every_cut(text.encode()):
        _, body, end = read(pieces, closes=True)
        assert (body, end) == (b"", End(how, error))


def test_a_head_keeps_every_header_in_its_order():
    wire = (
        b"HTTP/1.1 200 Fine \xe9\r\nX-B:  two\t\r\nset-cookie: a\r\nX-A : one\r\nSet-Cookie: b\r\n"
        b"X-Folded: one\r\n  two\r\nX-Empty:\r\nContent-Length: 0\r\n\r\n"
    )
    for pieces in every_cut(wire):
        (head,), _, _ = read(pieces)
        assert (head.http_version, head.status, head.reason, head.length) == ("1.1", 200, "Fine \xe9", 0)
        assert head.headers == (
            ("X-B", "two"),
            ("set-cookie", "a"),
            ("X-A", "one"),
            ("Set-Cookie", "b"),
            ("X-Folded", "one two"),
            ("X-Empty", ""),
            ("Content-Length", "0"),
        )
    assert find_header(head.headers, "SET-COOKIE") == "a, b"
    assert find_header(head.headers, "X-None") is None


def test_a_status_line_may_have_no_reason():
    for line in ("HTTP/1.1 200\r\n", "HTTP/1.1 200 \r\n"):
        (head,), _, _ = read([f"{line}\r\n".encode()])
        assert (head.status, head.reason) == (200, "")


def test_interim_heads_come_before_the_final_one():
    wire = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    wire += f"{OK}Content-Length: 1\r\n\r\nx".encode()
    for pieces in every_cut(wire):
        heads, body, end = read(pieces)
        assert [(head.status, head.interim) for head in heads] == [(100, True), (103, True), (200, False)]
        assert (body, end) == (b"x", End("length"))


def test_the_answer_to_head_has_no_body_whatever_its_headers_say():
    for header in ("Content-Length: 5", "Transfer-Encoding: chunked", "Server: x"):
        (head,), body, end = read([f"{OK}{header}\r\n\r\n".encode()], method="HEAD")
        assert (head.framing, head.length, body, end) == ("length", 0, b"", End("length"))


def test_bytes_of_a_chunk_are_handed_on_before_the_chunk_is_whole():
    parser = ResponseParser()
    parser.feed(CHUNKED.encode() + b"ff\r\n")
    assert parser.feed(b"da") == [Body(b"da")]
    assert parser.feed(b"ta") == [Body(b"ta")]


def test_what_comes_after_the_end_is_kept_apart():
    parser = ResponseParser()
    assert parser.feed(f"{OK}Content-Length: 1\r\n\r\nxyz".encode())[-1] == End("length")
    assert parser.excess == b"yz"
    assert parser.feed(b"!") == []
    assert parser.excess == b"yz!"
    assert parser.close() == []


@pytest.mark.parametrize("begin", ["", OK, CHUNKED, f"{CHUNKED}0\r\n"], ids=["status", "headers", "size", "trailers"])
@pytest.mark.parametrize("line", [b"x" * 1000, b"X: yyyyyyyyyyyyyyyyyyyyyy\r\n"], ids=["one line", "many lines"])
def test_lines_without_end_are_not_kept_without_end(begin, line):
    parser = ResponseParser()
    parts = parser.feed(begin.encode())
    fed = 0
    while not any(isinstance(part, End) for part in parts):
        assert fed <= MAX_LINES_BYTES + len(line)
        fed += len(line)
        parts = parser.feed(line)
    assert parts[-1].how == "malformed"


# Content codings.


def decode(coding, pieces):
    decoder = content_decoder(coding)
    return b"".join(decoder.feed(piece) for piece in pieces), decoder


def bare_deflate(data):
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return compressor.compress(data) + compressor.flush()


TEXT = b"".join(b"data: %d\n\n" % n for n in range(20))
CODED = {
    "none": (None, TEXT),
    "identity": ("Identity", TEXT),
    "gzip": ("gzip", gzip.compress(TEXT)),
    "gzip by its old name": ("X-GZIP", gzip.compress(TEXT)),
    "gzip in two members": ("gzip", gzip.compress(TEXT[:50]) + gzip.compress(TEXT[50:])),
    "deflate": ("deflate", zlib.compress(TEXT)),
    "deflate without its header": ("deflate", bare_deflate(TEXT)),
    "deflate at level 0": ("deflate", zlib.compress(TEXT, 0)),
}


@pytest.mark.parametrize("name", CODED)
def test_content_is_decoded_wherever_the_network_cuts_it(name):
    coding, coded = CODED[name]
    for pieces in every_cut(coded):
        content, decoder = decode(coding, pieces)
        assert content == TEXT
        assert (decoder.complete, decoder.note) == (True, "")


@pytest.mark.parametrize("coding, wbits", [("gzip", 31), ("deflate", 15), ("deflate", -15)])
def test_what_was_flushed_is_there_at_once(coding, wbits):
    compressor = zlib.compressobj(wbits=wbits)
    decoder = content_decoder(coding)
    for n in range(5):
        token = b"data: %d\n\n" % n
        assert decoder.feed(compressor.compress(token) + compressor.flush(zlib.Z_SYNC_FLUSH)) == token
    assert decoder.complete is False
    assert decoder.feed(compressor.flush()) == b""
    assert decoder.complete is True


def test_what_was_not_flushed_is_not_there():
    compressor = zlib.compressobj(wbits=31)
    decoder = content_decoder("gzip")
    assert decoder.feed(compressor.compress(b"data: 1\n\n")) == b""  # its ten bytes of header are
    assert decoder.complete is False
    assert decoder.feed(compressor.flush()) == b"data: 1\n\n"


@pytest.mark.parametrize("coding, coded", [("gzip", gzip.compress(TEXT, mtime=0)), ("deflate", zlib.compress(TEXT))])
def test_a_coding_that_was_cut_is_not_complete(coding, coded):
    for end in range(1, len(coded)):
        assert decode(coding, [coded[:end]])[1].complete is False
    assert decode(coding, [])[1].complete is True  # a body without a byte


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, br", "nonsense"])
def test_a_coding_that_is_not_known_is_left_as_it_is_and_said(coding):
    content, decoder = decode(coding, [b"\x01", b"\x02"])
    assert (content, decoder.coding, decoder.complete) == (b"\x01\x02", coding, None)
    assert repr(coding) in decoder.note
    assert "undecoded" in decoder.note


def test_bytes_after_the_end_of_a_coding_are_left_out_and_said():
    for coding, coded in [("gzip", gzip.compress(TEXT)), ("deflate", zlib.compress(TEXT))]:
        content, decoder = decode(coding, [coded + b"\0\0", b"more"])
        assert (content, decoder.complete) == (TEXT, True)
        assert "after the end" in decoder.note


def test_bytes_that_are_not_in_the_coding_are_refused():
    for coding in ("gzip", "deflate"):
        with pytest.raises(MalformedResponse, match=f"expected content in {coding}, got bytes that are not"):
            decode(coding, [b"<html>" + TEXT])
