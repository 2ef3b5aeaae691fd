"""`/v1/messages`: the upstream's own bytes, its own errors, and its own JSON, for Anthropic's clients."""

from __future__ import annotations

import json
from typing import Any

import pytest
from conftest import API_KEY
from dialect_vectors import ENDED, MESSAGE, OPENED, OVERLOADED, nameless, words
from raw_upstream import FINAL_CHUNK, Pause, RawUpstream, answer, chunk, head, polite_end
from relay_client import JSON, MESSAGES, complete, events

from flaskstream.dialects import ANTHROPIC
from flaskstream.doctor.measure import Request, record

SPACE_SECONDS = 0.08
FRAMINGS = ("chunked", "close", "http10", "length")


def ask(server: Any, model: str, *headers: tuple[str, str], **more: Any) -> Any:
    return complete(server, model, *headers, path=MESSAGES, max_tokens=16, **more)


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("stream", [MESSAGE, MESSAGE.replace(b"\n", b"\r\n"), nameless(MESSAGE)])
def test_the_bytes_are_the_upstream_s(
    raw_gunicorn: Any, raw_upstream: RawUpstream, framing: str, stream: bytes
) -> None:
    played = answer(framing, stream)
    recording = ask(raw_gunicorn, raw_upstream.plays(played, end=polite_end(played)))
    assert (recording.status, recording.header("Content-Type")) == (200, "text/event-stream")
    assert (recording.body, recording.ended) == (stream, "final_chunk")


def test_events_come_one_by_one(raw_gunicorn: Any, raw_upstream: RawUpstream) -> None:
    steps = [step for word in "abcd" for step in (chunk(words(word)), Pause(SPACE_SECONDS))]
    model = raw_upstream.plays(head("chunked") + chunk(OPENED), *steps, chunk(ENDED) + FINAL_CHUNK)
    recording = ask(raw_gunicorn, model)
    arrivals = [timed.at for timed in recording.events if timed.event.event == "content_block_delta"]
    assert len(arrivals) == 4
    assert arrivals[-1] - arrivals[0] > 2 * SPACE_SECONDS
    assert sum(later - earlier > SPACE_SECONDS / 2 for earlier, later in zip(arrivals, arrivals[1:])) >= 2


def test_the_request_goes_on_as_it_came(raw_gunicorn: Any, raw_upstream: RawUpstream) -> None:
    model = raw_upstream.plays(answer("chunked", MESSAGE))
    told = (("anthropic-version", "2024-10-10"), ("anthropic-beta", "tools-1"), ("x-api-key", "of-the-client"))
    recording = ask(raw_gunicorn, model, *told, ("X-Stainless-Lang", "python"), ("Cookie", "a=b"), system="be brief")
    (asked,) = raw_upstream.asked_for(model)
    assert asked.head.split()[:2] == [b"POST", b"/v1/messages"]
    assert asked.payload == json.loads(recording.request.body or b"")
    assert (asked.header("anthropic-version"), asked.header("anthropic-beta")) == ("2024-10-10", "tools-1")
    assert asked.header("x-api-key") == API_KEY  # ours, and nothing else of the client's
    assert [asked.header(name) for name in ("Authorization", "X-Stainless-Lang", "Cookie")] == [None, None, None]


def test_a_client_that_names_no_version_gets_the_one_that_is_read_here(
    raw_gunicorn: Any, raw_upstream: RawUpstream
) -> None:
    model = raw_upstream.plays(answer("chunked", MESSAGE))
    ask(raw_gunicorn, model)
    (asked,) = raw_upstream.asked_for(model)
    assert asked.header("anthropic-version") == "2023-06-01"


def test_an_error_of_the_upstream_passes(raw_gunicorn: Any, raw_upstream: RawUpstream) -> None:
    stream = OPENED + words("a") + OVERLOADED
    recording = ask(raw_gunicorn, raw_upstream.plays(answer("chunked", stream)))
    assert (recording.body, recording.ended) == (stream, "final_chunk")


@pytest.mark.parametrize("how", ["fin", "reset"])
@pytest.mark.parametrize("framing", FRAMINGS)
def test_a_cut_is_an_error_of_the_api_and_a_cut(
    raw_gunicorn: Any, raw_upstream: RawUpstream, framing: str, how: str
) -> None:
    said = OPENED + words("a")
    body = said + words("b")[:-9]
    played = head(framing, length=9999) + (chunk(body) if framing == "chunked" else body)
    recording = ask(raw_gunicorn, raw_upstream.plays(played, Pause(0.05), end=how))
    assert recording.body.startswith(said) and not recording.framing_complete
    last = events(recording)[-1]
    assert last.event == "error"
    error = last.json()
    assert (error["type"], error["error"]["type"]) == ("error", "api_error")
    assert error["error"]["code"] == "upstream_truncated"
    assert ANTHROPIC.read(last).error


def test_a_status_of_the_upstream_is_passed_on_with_its_body(raw_gunicorn: Any, raw_upstream: RawUpstream) -> None:
    body = b'{"type": "error", "error": {"type": "rate_limit_error", "message": "x"}}'
    played = answer("length", body, status=429, headers=("Retry-After: 7",), content_type="application/json")
    recording = ask(raw_gunicorn, raw_upstream.plays(played))
    assert (recording.status, recording.header("Retry-After"), recording.body) == (429, "7", body)


def test_without_stream_the_answer_is_one_json_object(raw_gunicorn: Any, raw_upstream: RawUpstream) -> None:
    body = b'{"type": "message", "content": [{"type": "text", "text": "a"}]}'
    model = raw_upstream.plays(answer("chunked", body, content_type="application/json"))
    recording = ask(raw_gunicorn, model, ("anthropic-beta", "tools-1"), stream=False)
    assert (recording.status, recording.body) == (200, body)
    (asked,) = raw_upstream.asked_for(model)
    assert (asked.header("x-api-key"), asked.header("anthropic-beta")) == (API_KEY, "tools-1")


def test_what_is_no_request_is_a_clear_400(raw_gunicorn: Any) -> None:
    recording = record(Request(raw_gunicorn.url + MESSAGES, "POST", (JSON,), b"[]", timeout=30))
    assert recording.status == 400
    assert b"expected a JSON object" in recording.body
