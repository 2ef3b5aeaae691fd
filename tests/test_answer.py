"""The planned bytes, without a socket. The oracles are written out here: `json`, `zlib`, and the RFC's framing."""

import json
import zlib

import pytest
from raw_client import chunks_of

from flaskstream.lab.model.answer import answer, for_client, offers_gzip
from flaskstream.lab.model.dialects import ANTHROPIC, DIALECTS, OPENAI
from flaskstream.lab.model.script import CODINGS, FRAMINGS, LINE_ENDS, Script
from flaskstream.sse import Decoder

EACH_DIALECT = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=list(DIALECTS))
SAID = [{"role": "assistant", "content": ""}, {"content": "Each"}, {"content": " word"}, {}]


def payloads(body):
    return [event.data for event in Decoder().feed(body)]


def written(planned):
    return b"".join(step.data for step in planned.steps)


def unframed(planned):
    raw = written(planned)
    if ("Transfer-Encoding", "chunked") not in planned.headers:
        return raw
    chunks, rest = chunks_of(raw)
    return b"".join(chunks) + rest.partition(b"\r\n")[2]


def test_the_body_is_that_of_openai_to_the_byte():
    opening = (
        'data: {"id":"chatcmpl-16af98cc","object":"chat.completion.chunk","created":1700000000,"model":"tick",'
        '"choices":[{"index":0,"delta":'
    )
    assert answer(Script(tokens=2)).body.decode().split("\n\n") == [
        opening + '{"role":"assistant","content":""},"finish_reason":null}]}',
        opening + '{"content":"Each"},"finish_reason":null}]}',
        opening + '{"content":" word"},"finish_reason":null}]}',
        opening + '{},"finish_reason":"stop"}]}',
        "data: [DONE]",
        "",
    ]


def test_the_usage_has_a_chunk_of_its_own_without_choices():
    *_, usage, done = payloads(answer(Script(tokens=2, usage=True)).body)
    assert json.loads(usage)["choices"] == []
    assert json.loads(usage)["usage"] == {"prompt_tokens": 8, "completion_tokens": 2, "total_tokens": 10}
    assert done == "[DONE]"
    assert answer(for_client(Script(tokens=2), usage=True)) == answer(Script(tokens=2, usage=True))


@EACH_DIALECT
def test_a_comment_comes_before_the_first_event(dialect):
    plain = answer(Script(tokens=2), dialect=dialect).body
    assert answer(Script(tokens=2, comments=True), dialect=dialect).body == b": PROCESSING\n\n" + plain


@pytest.mark.parametrize(
    ("dialect", "mark"),
    [(OPENAI, b"data: [DONE]\n\n"), (ANTHROPIC, b'event: message_stop\ndata: {"type":"message_stop"}\n\n')],
    ids=["openai", "anthropic"],
)
def test_the_terminal_mark_can_be_left_out(dialect, mark):
    plain = answer(Script(tokens=2), dialect=dialect).body
    assert answer(Script(tokens=2, no_done=True), dialect=dialect).body + mark == plain


def test_an_error_takes_the_place_of_a_token_and_ends_the_answer():
    planned = answer(Script(tokens=9, interval_ms=100, error_after=2))
    *chunks, error, done = payloads(planned.body)
    assert [json.loads(chunk)["choices"][0]["delta"] for chunk in chunks] == SAID[:3]
    assert set(json.loads(error)["error"]) == {"message", "type", "param", "code"}
    assert done == "[DONE]"
    assert [step.after for step in planned.steps] == pytest.approx([0, 0.1, 0.2, 0.3, 0.3, 0.3])
    assert [step.tokens for step in planned.steps] == [0, 1, 2, 2, 2, 2]


@EACH_DIALECT
@pytest.mark.parametrize("line_end", list(LINE_ENDS))
def test_every_line_end_says_the_same(line_end, dialect):
    plain = answer(Script(comments=True), dialect=dialect).body
    other = answer(Script(comments=True, line_end=line_end), dialect=dialect).body
    assert other == plain.replace(b"\n", LINE_ENDS[line_end])
    assert payloads(plain) == payloads(other)


@EACH_DIALECT
@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("coding", [coding for coding in CODINGS if coding != "auto"])
@pytest.mark.parametrize("piece_bytes", [0, 1, 7])
def test_every_framing_coding_and_cut_carries_the_same_content(framing, coding, piece_bytes, dialect):
    script = Script(framing=framing, coding=coding, piece_bytes=piece_bytes)
    planned = answer(script, dialect=dialect)
    body = unframed(planned)
    wbits = {"gzip": 31, "gzip-unflushed": 31, "deflate": 15}
    plain = body if coding == "identity" else zlib.decompress(body, wbits[coding])
    assert plain == answer(Script(), dialect=dialect).body
    assert planned.body == body
    assert planned.steps[-1].tokens == 24
    if piece_bytes and framing == "chunked":
        assert {len(chunk) for chunk in chunks_of(written(planned))[0][:-1]} <= set(range(1, piece_bytes + 1))


def test_a_chunked_body_has_one_chunk_for_each_event_and_ends_with_an_empty_one():
    chunks, rest = chunks_of(written(answer(Script(tokens=2))))
    assert len(chunks) == 1 + 2 + 1 + 1 + 1
    assert all(chunk.endswith(b"\n\n") for chunk in chunks[:-1])
    assert chunks[-1] == b"" and rest == b""


def test_a_flushed_coding_gives_each_token_at_its_time():
    for coding, wbits in (("gzip", 31), ("deflate", 15)):
        decompressor, plain = zlib.decompressobj(wbits), answer(Script(framing="close"))
        for step, expected in zip(answer(Script(framing="close", coding=coding)).steps, plain.steps):
            assert decompressor.decompress(step.data) == expected.data
            assert step.after == expected.after


def test_an_unflushed_coding_keeps_all_but_its_header_to_the_end():
    steps = answer(Script(coding="gzip-unflushed", framing="close")).steps
    assert len(b"".join(step.data for step in steps[:-1])) == len(b"the header")  # 10 bytes, RFC 1952
    assert len(steps[-1].data) > 100
    assert [step.tokens for step in steps][:3] == [0, 1, 2]


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("key", ["reset_at", "close_at"])
def test_a_cut_stops_after_exactly_so_many_body_bytes(framing, key):
    whole = answer(Script(tokens=2)).body
    for limit in range(len(whole) + 1):
        planned = answer(Script(tokens=2, framing=framing, **{key: limit}))
        assert unframed(planned) == whole[:limit]
        assert planned.scripted
        assert planned.end == ("reset" if key == "reset_at" else "fin")
        assert not written(planned).endswith(b"0\r\n\r\n")
        told = max([step.tokens for step in planned.steps], default=0)
        assert told == whole[:limit].count(b'"},"finish_reason":null}]}\n\n') - (limit >= whole.find(b"\n\n") + 2)


def test_a_cut_inside_a_chunk_leaves_it_begun_and_one_at_its_end_leaves_it_whole():
    first = answer(Script()).body.partition(b"\n\n")[0] + b"\n\n"
    size = f"{len(first):x}\r\n".encode()
    assert written(answer(Script(close_at=20))) == size + first[:20]
    assert written(answer(Script(close_at=len(first)))) == size + first + b"\r\n"


def test_a_cut_past_the_end_is_refused():
    length = len(answer(Script(tokens=2)).body)
    with pytest.raises(ValueError, match=f"at most the {length} bytes of this body, got {length + 1}"):
        answer(Script(tokens=2, reset_at=length + 1))


def test_only_the_final_chunk_is_left_out_without_terminator():
    planned = answer(Script(no_terminator=True))
    assert written(planned) + b"0\r\n\r\n" == written(answer(Script()))
    assert planned.end == "fin" and planned.scripted


def test_the_connection_is_held_open_between_the_last_byte_and_the_end_of_the_body():
    chunked = answer(Script(tokens=2, interval_ms=100, hold_open_ms=500))
    assert chunked.steps[-1].data == b"0\r\n\r\n"
    assert [step.after for step in chunked.steps][-2:] == pytest.approx([0.2, 0.7])
    closed = answer(Script(tokens=2, interval_ms=100, hold_open_ms=500, framing="close"))
    assert (closed.steps[-1].after, closed.end_after) == pytest.approx((0.2, 0.7))


def test_an_answer_in_one_piece_takes_as_long_as_its_stream():
    script = Script(tokens=4, interval_ms=100, slow_headers_ms=50, silence_after=1, silence_ms=1000)
    planned = answer(script, stream=False)
    whole = json.loads(planned.body)
    assert planned.head_after == pytest.approx(1.45)
    assert whole["object"] == "chat.completion"
    assert whole["choices"][0]["message"] == {"role": "assistant", "content": script.text}
    assert whole["choices"][0]["finish_reason"] == "stop"
    assert whole["usage"]["completion_tokens"] == 4
    assert ("Content-Type", "application/json") in planned.headers
    assert planned.steps[0].tokens == 4


def test_an_error_in_a_200_may_be_the_whole_answer():
    planned = answer(Script(error_after=0), stream=False)
    assert planned.status_line == "HTTP/1.1 200 OK"
    assert set(json.loads(planned.body)) == {"error"}


@pytest.mark.parametrize(
    ("status", "line", "code", "retry"),
    [
        (401, "HTTP/1.1 401 Unauthorized", "invalid_api_key", []),
        (429, "HTTP/1.1 429 Too Many Requests", "rate_limit_exceeded", [("Retry-After", "7")]),
        (500, "HTTP/1.1 500 Internal Server Error", "internal_error", []),
        (503, "HTTP/1.1 503 Service Unavailable", "overloaded", [("Retry-After", "7")]),
        (599, "HTTP/1.1 599 Error", "internal_error", []),
    ],
)
def test_an_error_status_has_an_error_object_at_once(status, line, code, retry):
    planned = answer(Script(status=status, retry_after=7))
    assert planned.status_line == line
    assert json.loads(planned.body)["error"]["code"] == code
    assert [header for header in planned.headers if header[0] == "Retry-After"] == retry
    assert ("Content-Type", "application/json") in planned.headers
    assert planned.head_after == planned.end_after == 0.0


def test_the_content_type_can_be_another_or_none():
    assert answer(Script(content_type="text/html")).headers[0] == ("Content-Type", "text/html")
    assert "Content-Type" not in dict(answer(Script(content_type="")).headers)


@pytest.mark.parametrize(
    ("accept_encoding", "offered"),
    [
        ("", False),
        ("identity", False),
        ("gzip", True),
        ("deflate, GZIP, br", True),
        ("gzip;q=0", False),
        ("gzip; q=0.000, *", False),
        ("gzip ; q=0.5", True),
        ("x-gzip", True),
        ("*", True),
        ("*;q=0", False),
        ("gzipped", False),
    ],
)
def test_gzip_is_offered_as_the_rfc_says(accept_encoding, offered):
    assert offers_gzip(accept_encoding) is offered
    settled = for_client(Script(coding="auto"), accept_encoding)
    assert settled.coding == ("gzip-unflushed" if offered else "identity")


def test_a_client_of_http_1_0_gets_no_chunks():
    assert for_client(Script(), http10=True).framing == "close"
    assert for_client(Script(framing="length"), http10=True).framing == "length"
    with pytest.raises(ValueError, match="no_terminator"):
        for_client(Script(no_terminator=True), http10=True)
