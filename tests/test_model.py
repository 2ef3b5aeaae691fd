"""The embedded model over raw sockets: what is on the wire, and when."""

import concurrent.futures
import json
import statistics
import time
import zlib
from dataclasses import replace

import pytest
from raw_client import ROLE, TOKEN, Connection, ask, chat, chunks_of, logged, request

from flaskstream.lab.model.answer import answer
from flaskstream.lab.model.dialects import ANTHROPIC
from flaskstream.lab.model.script import Script
from flaskstream.lab.processes import ModelProcess

INTERVAL = 0.05


@pytest.fixture(scope="module")
def model():
    with ModelProcess() as process:
        yield process
        assert process.errors() == ""


def head(status, *lines):
    return "\r\n".join([status, *lines, "", ""]).encode()


@pytest.mark.parametrize(
    ("framing", "status", "framed_by"),
    [
        ("chunked", "HTTP/1.1 200 OK", ["Transfer-Encoding: chunked"]),
        ("close", "HTTP/1.1 200 OK", ["Connection: close"]),
        ("http10", "HTTP/1.0 200 OK", []),
        ("length", "HTTP/1.1 200 OK", ["Content-Length: {length}"]),
    ],
)
def test_every_byte_of_each_framing_is_as_planned(model, framing, status, framed_by):
    script = Script(name=f"byte-{framing}", tokens=5, interval_ms=1, framing=framing)
    got = ask(model.url, script.model)
    body = answer(Script(name=script.name, tokens=5)).body
    entry = logged(model, script.model)
    asked_to_close = ["Connection: close"] if framing in ("chunked", "length") else []
    assert got.head == head(
        status,
        "Content-Type: text/event-stream; charset=utf-8",
        "Cache-Control: no-cache",
        *[line.format(length=len(body)) for line in framed_by],
        f"X-Request-Id: req-{entry['id']}",
        *asked_to_close,
    )
    events = [event + b"\n\n" for event in body.split(b"\n\n")[:-1]]
    chunked = b"".join(f"{len(event):x}\r\n".encode() + event + b"\r\n" for event in events) + b"0\r\n\r\n"
    assert got.raw_body == (chunked if framing == "chunked" else body)
    assert got.ended == "fin"
    assert (entry["ended"], entry["sent_tokens"], entry["tokens_total"]) == ("complete", 5, 5)


@pytest.mark.parametrize("framing", ["chunked", "close", "http10", "length"])
@pytest.mark.parametrize("coding", ["identity", "gzip", "deflate"])
def test_tokens_leave_one_by_one_in_every_framing(model, framing, coding):
    got = ask(model.url, f"pace?tokens=12&framing={framing}&coding={coding}")
    arrivals = [at for at, _ in got.reads]
    gaps = [later - earlier for earlier, later in zip(arrivals, arrivals[1:])]
    paced = sorted(gaps)[-12:]  # the others are the events that come together at the beginning and the end
    assert 0.5 * INTERVAL < statistics.median(paced) < 1.5 * INTERVAL


def test_no_token_comes_before_its_time_and_lateness_does_not_grow(model):
    got = ask(model.url, "pace?tokens=100&interval_ms=10")
    lateness = [got.arrival(TOKEN, n + ROLE) - got.sent_at - n * 0.01 for n in range(1, 101)]
    assert min(lateness) >= 0
    assert min(lateness[75:]) < min(lateness[:25]) + 0.01  # a sleep after each token loses a tick in fifty


def test_an_unflushed_gzip_comes_in_one_lump_at_the_end(model):
    got = ask(model.url, "lump?tokens=12&framing=close&coding=gzip-unflushed")
    early = b"".join(data for at, data in got.reads if at - got.sent_at < 12 * INTERVAL)
    assert early.partition(b"\r\n\r\n")[2] == got.raw_body[:10]  # the header of gzip: 10 bytes (RFC 1952)
    assert zlib.decompress(got.raw_body, 31) == answer(Script(name="lump", tokens=12)).body


def test_the_upstream_that_compresses_when_it_may(model):
    body = answer(Script(name="auto", tokens=3)).body
    script = "auto?tokens=3&coding=auto&interval_ms=1"
    with_gzip = ask(model.url, script, "Connection: close", "Accept-Encoding: gzip, br")
    without = ask(model.url, script, "Connection: close", "Accept-Encoding: identity")
    assert b"Content-Encoding: gzip\r\n" in with_gzip.head
    assert b"Content-Encoding" not in without.head
    assert b"".join(chunks_of(without.raw_body)[0]) == body
    assert logged(model, script)["headers"]["accept-encoding"] == "identity"


def test_slow_headers_hold_the_status_line(model):
    got = ask(model.url, "slow?tokens=1&slow_headers_ms=300")
    assert got.reads[0][0] - got.sent_at >= 0.3


def test_a_silence_shifts_the_tokens_after_it(model):
    got = ask(model.url, "hush?tokens=4&silence_after=2&silence_ms=1000")
    assert got.arrival(TOKEN, 2 + ROLE) - got.sent_at < 1
    assert got.arrival(TOKEN, 3 + ROLE) - got.sent_at >= 3 * INTERVAL + 1
    assert b"[DONE]" in got.received


@pytest.mark.parametrize("framing", ["chunked", "close", "http10", "length"])
@pytest.mark.parametrize("limit", [0, 1, 200, 500])
def test_a_reset_comes_after_exactly_so_many_bytes(model, framing, limit):
    script = f"rst-{framing}?tokens=3&interval_ms=1&framing={framing}&reset_at={limit}"
    got = ask(model.url, script)
    assert got.ended == "reset"
    body = answer(Script(name=f"rst-{framing}", tokens=3)).body
    assert got.raw_body == b"".join(step.data for step in answer(Script.parse(script)).steps)
    if framing != "chunked":
        assert got.raw_body == body[:limit]
    assert logged(model, script)["ended"] == "scripted"


def wait_until_it_writes_no_more(model, script):
    before, now = -1, 0
    while now != before or not now:
        before, now = now, [entry["sent_tokens"] for entry in model.requests() if entry["model"] == script][-1]
        time.sleep(0.02)


def test_a_reset_waits_until_a_slow_reader_has_every_byte(model):
    script = Script(name="late", tokens=1000, interval_ms=0, framing="close")
    body = answer(script).body
    script = replace(script, reset_at=len(body))
    with Connection(model.url, receive_bytes=4096) as connection:
        connection.send(chat(script.model))
        connection.read_until(b"\r\n\r\n")
        wait_until_it_writes_no_more(model, script.model)
        connection.read_to_end()
    assert connection.ended == "reset"
    assert connection.raw_body == body


def test_a_close_comes_after_exactly_so_many_bytes_without_the_final_chunk(model):
    script = "fin?tokens=3&interval_ms=1&close_at=300"
    got = ask(model.url, script)
    assert got.ended == "fin"
    chunks, begun = chunks_of(got.raw_body)
    cut = b"".join(chunks) + begun.partition(b"\r\n")[2]
    assert cut == answer(Script(name="fin", tokens=3)).body[:300]
    entry = logged(model, script)
    assert (entry["ended"], entry["sent_tokens"], entry["tokens_total"]) == ("scripted", 0, 3)


def test_a_missing_terminator_is_only_that(model):
    script = "bare?tokens=3&interval_ms=1&no_terminator=1"
    got = ask(model.url, script)
    chunks, rest = chunks_of(got.raw_body)
    assert b"".join(chunks) == answer(Script(name="bare", tokens=3)).body
    assert chunks[-1] == b"data: [DONE]\n\n"
    assert (rest, got.ended) == (b"", "fin")
    assert logged(model, script)["ended"] == "scripted"


def test_an_open_connection_after_done_ends_later(model):
    got = ask(model.url, "held?tokens=1&interval_ms=1&hold_open_ms=1000")
    assert got.arrival(b"[DONE]") - got.sent_at < 1
    assert got.arrival(b"0\r\n\r\n") - got.sent_at >= 1


def test_an_error_comes_inside_a_200(model):
    got = ask(model.url, "oops?tokens=5&interval_ms=1&error_after=2&framing=close")
    assert got.head.startswith(b"HTTP/1.1 200 OK\r\n")
    events = got.raw_body.split(b"\n\n")
    assert json.loads(events[3][len("data: ") :])["error"]["code"] == "internal_error"
    assert events[4:] == [b"data: [DONE]", b""]
    entry = logged(model, "oops?tokens=5&interval_ms=1&error_after=2&framing=close")
    assert (entry["ended"], entry["sent_tokens"]) == ("complete", 2)


@pytest.mark.parametrize("status", [401, 429, 500, 503])
def test_an_error_status_comes_with_its_json_and_its_headers(model, status):
    got = ask(model.url, f"no?status={status}&framing=length")
    assert got.head.startswith(f"HTTP/1.1 {status} ".encode())
    assert (b"Retry-After: 1\r\n" in got.head) == (status in (429, 503))
    assert set(json.loads(got.raw_body)) == {"error"}
    assert f"Content-Length: {len(got.raw_body)}".encode() in got.head


def test_pieces_are_chunks_of_their_own(model):
    got = ask(model.url, "bits?tokens=2&interval_ms=1&piece_bytes=1")
    chunks, _ = chunks_of(got.raw_body)
    assert {len(chunk) for chunk in chunks[:-1]} == {1}
    assert b"".join(chunks) == answer(Script(name="bits", tokens=2)).body


def test_an_answer_in_one_piece_comes_when_its_stream_would_have_ended(model):
    got = ask(model.url, "whole?tokens=6&framing=length", stream=False)
    assert got.reads[0][0] - got.sent_at >= 6 * INTERVAL
    assert json.loads(got.raw_body)["choices"][0]["message"]["content"] == Script(tokens=6).text


def test_the_official_clients_option_asks_for_the_usage(model):
    got = ask(model.url, "sdk?tokens=2&interval_ms=1&framing=close", stream_options={"include_usage": True})
    assert b'"choices":[],"usage":{"prompt_tokens":8,' in got.raw_body


@pytest.mark.parametrize("path", ["/v1/messages", "/messages"])
def test_messages_are_answered_as_anthropic_does(model, path):
    script = Script(name="claude", tokens=3, interval_ms=20, tool_calls=1, framing="close")
    got = ask(model.url, script.model, path=path, max_tokens=9)
    assert got.raw_body == answer(script, dialect=ANTHROPIC).body
    assert got.arrival(b"message_stop") - got.sent_at >= script.length * 0.02
    entry = logged(model, script.model)
    assert f"request-id: req-{entry['id']}\r\n".encode() in got.head
    assert (entry["path"], entry["ended"]) == (path, "complete")
    assert entry["sent_tokens"] == entry["tokens_total"] == script.length


def test_a_message_in_one_piece(model):
    script = Script(name="claude", tokens=3, interval_ms=1, framing="length")
    got = ask(model.url, script.model, path="/v1/messages", stream=False, max_tokens=9)
    assert json.loads(got.raw_body)["content"] == [{"type": "text", "text": script.text}]


@pytest.mark.parametrize("framing", ["chunked", "length"])
def test_a_framed_answer_keeps_the_connection_for_the_next(model, framing):
    script = f"keep?tokens=1&interval_ms=1&framing={framing}"
    with Connection(model.url) as connection:
        for _ in range(3):
            connection.reads.clear()
            connection.send(chat(script, "X-A: 1"))
            connection.read_until(b"data: [DONE]\n\n" + (b"\r\n0\r\n\r\n" if framing == "chunked" else b""))
            assert b"Connection" not in connection.head
            # Who has seen the last byte finds the end in the log.
            assert [entry for entry in model.requests() if entry["model"] == script][-1]["ended"] == "complete"


def test_a_client_of_http_1_0_gets_a_body_that_ends_with_the_connection(model):
    got = ask(model.url, "old?tokens=2&interval_ms=1", "X-A: 1", version="HTTP/1.0")
    assert b"Transfer-Encoding" not in got.head
    assert got.raw_body == answer(Script(name="old", tokens=2)).body


def test_a_hundred_streams_at_once_keep_their_pace(model):
    with concurrent.futures.ThreadPoolExecutor(100) as pool:
        scripts = [f"many-{n}?tokens=20&interval_ms=100&framing=close" for n in range(100)]
        answers = list(pool.map(lambda script: ask(model.url, script), scripts))
    for n, got in enumerate(answers):
        assert got.raw_body == answer(Script(name=f"many-{n}", tokens=20)).body
        assert got.arrival(TOKEN, 20 + ROLE) - got.sent_at >= 20 * 0.1
    gaps = [got.arrival(TOKEN, n + 1) - got.arrival(TOKEN, n) for got in answers for n in range(2, 20)]
    assert 0.05 < statistics.median(gaps) < 0.15


def test_the_models_are_listed(model):
    with Connection(model.url) as connection:
        connection.send(request("GET", "/v1/models", headers=["Connection: close"]))
        connection.read_to_end()
    assert [entry["id"] for entry in json.loads(connection.raw_body)["data"]] == ["tick"]
