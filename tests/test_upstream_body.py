"""Reading what is there: codings and their failures, and how long a read may wait."""

from __future__ import annotations

import gzip
import socket
import zlib
from types import SimpleNamespace
from typing import Any, Iterator

import pytest
from answer_vectors import DONE, said
from raw_upstream import FINAL_CHUNK, RawUpstream, answer, body_of, chunk, head

from flaskstream.errors import UpstreamError
from flaskstream.upstream import Upstream
from flaskstream.upstream.body import Body

BODY = said("\u6771\u4eac") * 2000 + DONE  # more than one read takes, and highly compressible


def raw_deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-15)
    return compressor.compress(data) + compressor.flush()


CODED = {
    "": BODY,
    "identity": BODY,
    "gzip": gzip.compress(BODY),
    "GZIP": gzip.compress(BODY),
    "gzip in two members": gzip.compress(BODY[:100]) + gzip.compress(BODY[100:]),
    "deflate": zlib.compress(BODY),
    "deflate without its wrapper": raw_deflate(BODY),
    "deflate, gzip": gzip.compress(zlib.compress(BODY)),
}


@pytest.mark.parametrize("framing", ["chunked", "close", "length"])
@pytest.mark.parametrize("coding", CODED)
def test_every_coding_in_every_framing_is_read_whole(
    upstream: Upstream, raw_upstream: RawUpstream, framing: str, coding: str
) -> None:
    header = coding.replace(" in two members", "").replace(" without its wrapper", "")
    headers = (f"Content-Encoding: {header}",) if header else ()
    played = answer(framing, CODED[coding], headers=headers)
    model = raw_upstream.plays(played, end="fin" if framing == "close" else "keep")
    assert body_of(upstream, model) == BODY


def test_no_piece_is_empty_however_little_comes_at_once(upstream: Upstream, raw_upstream: RawUpstream) -> None:
    zipped = gzip.compress(BODY * 50)
    one_by_one = b"".join(chunk(zipped[place : place + 1]) for place in range(len(zipped)))
    model = raw_upstream.plays(head("chunked", "Content-Encoding: gzip") + one_by_one + FINAL_CHUNK)
    with upstream.open("chat/completions", {"model": model}) as opened:
        sizes = [len(piece) for piece in opened.chunks()]
    assert sum(sizes) == 50 * len(BODY)
    assert min(sizes) > 0


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("rot13", b"hello"),
        ("gzip, rot13", b"hello"),
        ("gzip", b"hello"),
        ("gzip", gzip.compress(BODY, mtime=0)[:50] + b"\0" * 50),
        ("deflate", b"\xff" * 9),
    ],
)
@pytest.mark.parametrize("framing", ["chunked", "close"])
def test_what_cannot_be_decompressed_is_the_upstream_s_error(
    upstream: Upstream, raw_upstream: RawUpstream, framing: str, coding: str, body: bytes
) -> None:
    model = raw_upstream.plays(answer(framing, body, headers=(f"Content-Encoding: {coding}",)), end="fin")
    with pytest.raises(UpstreamError) as caught:
        body_of(upstream, model)
    assert caught.value.code == "upstream_error"


@pytest.fixture
def connection() -> Iterator[socket.socket]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours


def raw(connection: Any) -> Any:
    """As much of a response of urllib3 as the timeout needs."""
    file = SimpleNamespace(raw=SimpleNamespace(_sock=connection))
    return SimpleNamespace(
        headers={}, CONTENT_DECODERS=[], _fp=SimpleNamespace(fp=file), read1=None, _connection=connection
    )


@pytest.mark.parametrize(("before", "asked", "during"), [(60.0, 2.0, 2.0), (1.0, 2.0, 1.0), (None, 2.0, 2.0)])
def test_a_read_waits_no_longer_than_before_and_the_next_request_as_long_as_ever(
    connection: socket.socket, before: float | None, asked: float, during: float
) -> None:
    connection.settimeout(before)
    body = Body(raw(connection))
    body.wait_at_most(asked)
    assert connection.gettimeout() == during
    body.release()
    assert connection.gettimeout() == before


def test_a_connection_that_is_closed_or_of_an_unknown_kind_keeps_its_timeout(connection: socket.socket) -> None:
    body = Body(raw(connection))
    connection.close()
    body.wait_at_most(1.0)
    for unknown in (None, object()):
        Body(raw(unknown)).wait_at_most(1.0)
