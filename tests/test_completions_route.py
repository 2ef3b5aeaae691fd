"""`/v1/chat/completions`: the upstream's own bytes, its own errors, and its own JSON, for its own clients."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

import pytest
from answer_vectors import DONE, said
from flask import Flask
from raw_upstream import RawUpstream, answer, head, polite_end
from relay_client import CHAT, COMPLETIONS, JSON, MESSAGES, complete, post

from flaskstream import create_blueprint
from flaskstream.chat_request import MAX_DEPTH
from flaskstream.dialects import OPENAI
from flaskstream.doctor.measure import Request, record
from flaskstream.lab.model.answer import answer as model_answer
from flaskstream.lab.model.script import Script
from flaskstream.sse import MAX_EVENT_BYTES
from flaskstream.testing import serve
from flaskstream.upstream import Upstream
from flaskstream.wire import FaithfulWire

FRAMINGS = ("chunked", "close", "http10", "length")
WHOLE = b'{"choices": [{"message": {"content": "a"}}]}'


# A stream


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("line_end", ["lf", "crlf", "cr"])
def test_the_bytes_are_the_upstream_s(gunicorn: Any, framing: str, line_end: str) -> None:
    script = Script(tokens=4, interval_ms=5, framing=framing, line_end=line_end, comments=True, usage=True)
    recording = complete(gunicorn, script.model)
    assert (recording.status, recording.header("Content-Type")) == (200, "text/event-stream")
    assert recording.ended == "final_chunk"
    # The last half of the last CRLF may come alone, and is not waited for: its client knows the end already.
    assert recording.body.rstrip() == model_answer(script).body.rstrip()


@pytest.mark.parametrize("piece_bytes", [1, 7])
def test_events_come_whole_however_small_the_upstream_s_pieces_are(gunicorn: Any, piece_bytes: int) -> None:
    script = Script(tokens=3, interval_ms=5, piece_bytes=piece_bytes)
    recording = complete(gunicorn, script.model)
    assert recording.body == model_answer(script).body
    assert all(piece.data.endswith(b"\n\n") for piece in recording.chunks)


def test_events_come_one_by_one(gunicorn: Any) -> None:
    script = Script(tokens=6, interval_ms=60)
    _, first, *_, done = complete(gunicorn, script.model).events  # before the first token, the role comes
    assert first.event.json()["choices"][0]["delta"]["content"] == script.token_texts[0]
    assert done.event.data == "[DONE]"
    assert done.at - first.at > 2 * script.interval_ms / 1000


def test_the_request_goes_on_as_it_came(raw_gunicorn: Any, raw_upstream: RawUpstream) -> None:
    model = raw_upstream.plays(answer("chunked", said("a"), DONE, headers=("X-Request-Id: abc", "Set-Cookie: a=b")))
    recording = complete(raw_gunicorn, model, temperature=0.5, tools=[{"type": "function"}], user="\u6771")
    assert recording.header("X-Request-Id") == "abc"
    assert recording.header("Set-Cookie") is None
    (asked,) = raw_upstream.asked_for(model)
    sent = json.loads(recording.request.body or b"")
    assert asked.payload == sent


def test_a_request_that_names_no_model_gets_the_upstream_s(raw_upstream: RawUpstream) -> None:
    model, app = raw_upstream.plays(answer("chunked", said("a"), DONE)), Flask(__name__)
    with closing(Upstream(raw_upstream.url, model=model)) as upstream:
        app.register_blueprint(create_blueprint(upstream), url_prefix="/stream")
        with serve(app) as server:
            record(post(server, COMPLETIONS, {"messages": [{"role": "user", "content": "hello"}], "stream": True}))
    assert len(raw_upstream.asked_for(model)) == 1


def test_comments_of_ours_are_lines_where_the_upstream_sends_ids() -> None:
    wire = FaithfulWire(OPENAI)
    assert wire.heartbeat() == b": hb\n\n"
    wire.frame(b'data: {"id: 1": "\\nid: 2"}\n\n')
    assert wire.heartbeat() == b": hb\n\n"
    wire.frame(b"data: 1\r\nid: 7\r\n\r\n")
    assert wire.heartbeat() == b": hb\n"


# One object


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("coding", ["identity", "gzip"])
def test_without_stream_the_answer_is_one_json_object(gunicorn: Any, framing: str, coding: str) -> None:
    script = Script(tokens=4, interval_ms=5, framing=framing, coding=coding)
    recording = complete(gunicorn, script.model, stream=False)
    assert (recording.status, recording.header("Content-Type")) == (200, "application/json")
    assert recording.header("Content-Encoding") is None
    assert json.loads(recording.body)["choices"][0]["message"]["content"] == script.text


@pytest.mark.parametrize(
    ("played", "status", "code"),
    [
        (answer("length", b'{"error": {"code": "no"}}', status=429, content_type="application/json"), 429, "no"),
        (answer("length", b"<html>", content_type="text/html"), 502, "upstream_error"),
        (answer("length", said("a"), DONE), 502, "upstream_error"),
        (answer("length", WHOLE, content_type=""), 502, "upstream_error"),
        (answer("length", b"[1]", content_type="application/json"), 502, "upstream_truncated"),
        (head("length", length=99, content_type="application/json") + WHOLE, 502, "upstream_truncated"),
        (head("close", content_type="application/json") + WHOLE[:-1], 502, "upstream_truncated"),
    ],
    ids=["429", "html", "stream", "no_type", "no_object", "short", "cut"],
)
def test_what_is_no_json_object_is_an_error(
    raw_gunicorn: Any, raw_upstream: RawUpstream, played: bytes, status: int, code: str
) -> None:
    recording = complete(raw_gunicorn, raw_upstream.plays(played, end=polite_end(played)), stream=False)
    assert (recording.status, recording.header("Content-Type")) == (status, "application/json")
    assert json.loads(recording.body)["error"]["code"] == code


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("told", ["application/json; a=\x01", "application/json\x0b", "\x7f"])
def test_a_type_that_no_server_sends_on_is_left_out_of_an_error(
    raw_gunicorn: Any, raw_upstream: RawUpstream, told: str, stream: bool
) -> None:
    model = raw_upstream.plays(answer("length", b'{"error": {"code": "no"}}', status=403, content_type=told))
    recording = complete(raw_gunicorn, model, stream=stream)
    assert (recording.status, recording.body) == (403, b'{"error": {"code": "no"}}')
    assert recording.header("Content-Type") in ("text/plain; charset=utf-8", "application/json")


def test_a_json_answer_without_end_is_given_up(raw_gunicorn: Any, raw_upstream: RawUpstream) -> None:
    block = b" " * (1024 * 1024)
    endless = [block] * (MAX_EVENT_BYTES // len(block) + 20)
    model = raw_upstream.plays(head("close", content_type="application/json"), *endless, end="hold")
    recording = complete(raw_gunicorn, model, stream=False)
    assert (recording.status, json.loads(recording.body)["error"]["code"]) == (502, "event_too_large")
    assert raw_upstream.wait_until_over(model).left_at is not None


def test_the_headers_of_one_object(raw_gunicorn: Any, raw_upstream: RawUpstream) -> None:
    headers = ("X-Request-Id: abc", "Set-Cookie: a=b", "ETag: x")
    played = answer("chunked", WHOLE, headers=headers, content_type="application/json; charset=utf-8")
    recording = complete(raw_gunicorn, raw_upstream.plays(played), stream=False)
    assert recording.body == WHOLE
    assert recording.header("X-Request-Id") == "abc"
    assert recording.header("Cache-Control") == "no-store"
    assert (recording.header("Set-Cookie"), recording.header("ETag")) == (None, None)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"5", b"null", b'{"a": Infinity}', b"[" * 100_000])
def test_what_is_no_request_is_a_clear_400(raw_gunicorn: Any, raw_upstream: RawUpstream, body: bytes) -> None:
    before = len(raw_upstream.asked)
    recording = record(Request(raw_gunicorn.url + COMPLETIONS, "POST", (JSON,), body, timeout=30))
    assert recording.status == 400
    error = json.loads(recording.body)["error"]
    assert (error["type"], error["code"]) == ("invalid_request_error", "bad_request")
    assert "expected a JSON object" in error["message"]
    assert len(raw_upstream.asked) == before


@pytest.mark.parametrize(("path", "field"), [(COMPLETIONS, "metadata"), (MESSAGES, "metadata"), (CHAT, "messages")])
def test_json_that_is_nested_too_deep_is_a_400_at_every_depth_above_the_limit(
    raw_gunicorn: Any, raw_upstream: RawUpstream, path: str, field: str
) -> None:
    """Python reads JSON that is nested a little deeper than what it can write."""
    model = raw_upstream.plays(answer("length", WHOLE, status=403, content_type="application/json"))

    def status(depth: int) -> int:
        nested = "[" * (depth - 1) + "1" + "]" * (depth - 1)  # and the object around it
        body = f'{{"model": "{model}", "{field}": {nested}}}'.encode()
        return record(Request(raw_gunicorn.url + path, "POST", (JSON,), body, timeout=30)).status

    assert [status(depth) for depth in (2, MAX_DEPTH)] == [403, 403]
    assert {status(depth) for depth in (MAX_DEPTH + 1, *range(930, 1000, 3))} == {400}
    assert len(raw_upstream.asked_for(model)) == 2


def test_a_form_of_another_site_is_no_request(raw_gunicorn: Any, raw_upstream: RawUpstream) -> None:
    """Browsers send text/plain from anywhere without asking first."""
    headers = (("Content-Type", "text/plain"),)
    assert record(Request(raw_gunicorn.url + COMPLETIONS, "POST", headers, b"{}", timeout=30)).status == 400
