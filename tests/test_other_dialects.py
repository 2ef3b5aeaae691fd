"""`/chat` with upstreams that do not speak OpenAI's chat completions: through real gunicorn, with their own bytes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Iterator

import pytest
from answer_vectors import DONE, event, said
from conftest import API_KEY, IDLE_SECONDS
from dialect_vectors import COMPLETED, ENDED, LAST, OPENED, OVERLOADED, PING, line, output, spoken, words
from raw_upstream import FINAL_CHUNK, Pause, RawUpstream, answer, chunk, head, polite_end
from relay_client import chat, end, error_code, text
from servers import TESTS

from flaskstream import create_blueprint
from flaskstream.dialects import ANTHROPIC, DIALECTS
from flaskstream.doctor.measure import Recording
from flaskstream.errors import InvalidSetting
from flaskstream.lab.gunicorn import GunicornProcess
from flaskstream.relay import Relay
from flaskstream.upstream import Upstream

SPACE_SECONDS = 0.08
WORDS = ("a", "b", "c", "d")


@dataclass(frozen=True)
class Speech:
    """How an upstream says the four words."""

    path: bytes
    content_type: str
    said: tuple[bytes, ...]
    last: bytes
    error: bytes
    begin: bytes = b""

    def steps(self) -> Iterator[bytes | Pause]:
        yield head("chunked", content_type=self.content_type)
        yield from (chunk(self.begin),) if self.begin else ()
        for piece in self.said:
            yield chunk(piece)
            yield Pause(SPACE_SECONDS)
        yield from (chunk(self.last),) if self.last else ()
        yield FINAL_CHUNK


EVENTS, JSON_LINES, LINES = "text/event-stream; charset=utf-8", "application/x-ndjson", "text/plain"
SPEECHES = {
    "openai": Speech(
        b"/v1/chat/completions", EVENTS, tuple(map(said, WORDS)), DONE, event({"error": {"message": "x"}})
    ),
    "responses": Speech(
        b"/v1/responses", EVENTS, tuple(map(output, WORDS)), COMPLETED, b"event: error\n" + event({"type": "error"})
    ),
    "anthropic": Speech(b"/v1/messages", EVENTS, tuple(map(words, WORDS)), ENDED, OVERLOADED, OPENED + PING),
    "ollama": Speech(b"/v1/api/chat", JSON_LINES, tuple(map(spoken, WORDS)), LAST, line(error="x")),
    "plain": Speech(
        b"/v1",
        EVENTS,
        tuple(f"data: {word}\n\n".encode() for word in WORDS),
        b"",
        b"event: error\ndata: x\n\n",
        b": hello\n\n",
    ),
    "text": Speech(b"/v1", LINES, tuple(f"{word}\n".encode() for word in WORDS), b"", b""),
}
every_dialect = pytest.mark.parametrize("dialect", SPEECHES)
MARKED = [name for name in SPEECHES if not DIALECTS[name].ends_with_body]
UNMARKED = [name for name in SPEECHES if DIALECTS[name].ends_with_body]


@pytest.fixture(scope="module")
def server(raw_upstream: RawUpstream) -> Iterator[GunicornProcess]:
    settings = {"upstream": raw_upstream.url, "api_key": API_KEY, "idle_timeout": str(IDLE_SECONDS)}
    with GunicornProcess(settings, app="apps.dialects:app", folder=TESTS) as process:
        process.wait_until_it_answers("/openai/chat")
        yield process


def ask(server: Any, dialect: str, model: str) -> Recording:
    return chat(server, model, path=f"/{dialect}/chat")


def spoken_text(recording: Recording) -> str:
    """The text, without the line ends that belong to it where lines are spoken."""
    return text(recording).replace("\n", "")


def test_every_dialect_is_asked_here() -> None:
    assert list(SPEECHES) == list(DIALECTS)


@every_dialect
def test_tokens_come_one_by_one(server: Any, raw_upstream: RawUpstream, dialect: str) -> None:
    recording = ask(server, dialect, raw_upstream.plays(*SPEECHES[dialect].steps()))
    assert (spoken_text(recording), end(recording).event) == ("abcd", "done")
    arrivals = [timed.at for timed in recording.events if timed.event.event == "message"]
    assert len(arrivals) == len(WORDS)
    gaps = [later - earlier for earlier, later in zip(arrivals, arrivals[1:])]
    assert sum(gap > SPACE_SECONDS / 2 for gap in gaps) >= 2, gaps  # a busy machine may bring two together, not all
    assert arrivals[-1] - arrivals[0] > 2 * SPACE_SECONDS


@every_dialect
def test_the_request_is_one_of_the_dialect(server: Any, raw_upstream: RawUpstream, dialect: str) -> None:
    model = raw_upstream.plays(*SPEECHES[dialect].steps())
    ask(server, dialect, model)
    (asked,) = raw_upstream.asked_for(model)
    assert asked.head.split()[:2] == [b"POST", SPEECHES[dialect].path]
    question = [{"role": "user", "content": "hello"}]
    assert asked.payload["stream"] is True
    assert asked.payload.get("input" if dialect == "responses" else "messages") == question
    assert ("max_tokens" in asked.payload) == (dialect == "anthropic")
    own = (asked.header("x-api-key"), asked.header("anthropic-version"), asked.header("Authorization"))
    if dialect == "anthropic":
        assert own == (API_KEY, "2023-06-01", None)
    else:
        assert own == (None, None, f"Bearer {API_KEY}")


@pytest.mark.parametrize("dialect", [name for name, speech in SPEECHES.items() if speech.error])
def test_an_error_of_the_upstream_after_text_ends_the_stream_as_failed(
    server: Any, raw_upstream: RawUpstream, dialect: str
) -> None:
    speech = SPEECHES[dialect]
    played = answer("chunked", speech.begin + speech.said[0], speech.error, speech.last or b"\n")
    played = played.replace(b"text/event-stream", speech.content_type.encode())
    recording = ask(server, dialect, raw_upstream.plays(played))
    assert (spoken_text(recording), error_code(recording)) == ("a", "upstream_error")


@pytest.mark.parametrize("framing", ["chunked", "close", "http10", "length"])
@pytest.mark.parametrize("dialect", MARKED)
def test_a_mark_ends_the_answer_in_every_framing(
    server: Any, raw_upstream: RawUpstream, dialect: str, framing: str
) -> None:
    speech = SPEECHES[dialect]
    whole = answer(framing, *speech.said, speech.last, content_type=speech.content_type)
    recording = ask(server, dialect, raw_upstream.plays(whole, end=polite_end(whole)))
    assert (spoken_text(recording), end(recording).event) == ("abcd", "done")
    cut = answer(framing, *speech.said, content_type=speech.content_type)
    recording = ask(server, dialect, raw_upstream.plays(cut, end=polite_end(cut)))
    assert (spoken_text(recording), error_code(recording)) == ("abcd", "upstream_truncated")


@pytest.mark.parametrize("dialect", MARKED)
def test_the_end_does_not_wait_for_that_of_the_connection(server: Any, raw_upstream: RawUpstream, dialect: str) -> None:
    speech = SPEECHES[dialect]
    model = raw_upstream.plays(
        head("chunked", content_type=speech.content_type), *map(chunk, [*speech.said, speech.last]), end="hold"
    )
    recording = ask(server, dialect, model)
    assert end(recording).event == "done"
    assert recording.ended_at is not None
    assert recording.ended_at - recording.events[0].at < IDLE_SECONDS
    assert raw_upstream.wait_until_over(model).left_at is not None  # and the connection is not kept


@pytest.mark.parametrize("dialect", UNMARKED)
@pytest.mark.parametrize("framing", ["chunked", "length"])
def test_the_end_of_a_framed_body_is_an_end_of_text(
    server: Any, raw_upstream: RawUpstream, dialect: str, framing: str
) -> None:
    speech = SPEECHES[dialect]
    model = raw_upstream.plays(answer(framing, *speech.said, content_type=speech.content_type))
    recording = ask(server, dialect, model)
    assert (spoken_text(recording), end(recording).event) == ("abcd", "done")


@pytest.mark.parametrize("dialect", UNMARKED)
@pytest.mark.parametrize("how", ["fin", "reset"])
@pytest.mark.parametrize("cut", ["no_final_chunk", "inside_a_chunk", "short", "close", "http10"])
def test_an_end_that_may_be_a_cut_is_a_cut(
    server: Any, raw_upstream: RawUpstream, dialect: str, cut: str, how: str
) -> None:
    speech = SPEECHES[dialect]
    body = b"".join(speech.said)
    played = {
        "no_final_chunk": head("chunked", content_type=speech.content_type) + chunk(body),
        "inside_a_chunk": head("chunked", content_type=speech.content_type) + b"400\r\n" + body,
        "short": head("length", length=len(body) + 1, content_type=speech.content_type) + body,
        "close": head("close", content_type=speech.content_type) + body,
        "http10": head("http10", content_type=speech.content_type) + body,
    }[cut]
    recording = ask(server, dialect, raw_upstream.plays(played, Pause(0.05), end=how))
    assert (spoken_text(recording), error_code(recording)) == ("abcd", "upstream_truncated")


@every_dialect
def test_a_body_of_another_type_is_no_answer(server: Any, raw_upstream: RawUpstream, dialect: str) -> None:
    recording = ask(server, dialect, raw_upstream.plays(answer("length", b"<html>", content_type="text/html")))
    assert recording.status == 502
    assert json.loads(recording.body)["error"]["code"] == "upstream_error"


def test_what_chat_does_not_show_is_read_from_the_relay(upstream: Upstream, raw_upstream: RawUpstream) -> None:
    model = raw_upstream.plays(answer("chunked", OPENED, words("a"), ENDED))
    read: list[Any] = []
    relay = Relay(upstream, ANTHROPIC)
    assert list(relay.tokens({"model": model, "messages": []}, read.append)) == ["a"]
    assert [reading.usage.output_tokens for reading in read if reading.usage] == [None, 2]


def test_what_the_upstream_was_given_wins_over_the_dialect(raw_upstream: RawUpstream) -> None:
    upstream = Upstream(raw_upstream.url, headers={"Anthropic-Version": "2030-01-01"})
    model = raw_upstream.plays(answer("chunked", OPENED, words("a"), ENDED))
    assert list(Relay(upstream, ANTHROPIC).tokens({"model": model, "messages": []})) == ["a"]
    upstream.close()
    (asked,) = raw_upstream.asked_for(model)
    assert asked.header("anthropic-version") == "2030-01-01"
    assert (asked.header("x-api-key"), asked.header("Authorization")) == (None, None)


def test_a_dialect_that_is_not_there_is_refused() -> None:
    upstream = Upstream("http://127.0.0.1:1")
    with pytest.raises(InvalidSetting, match=r"expected one of openai, responses, anthropic.*got 'klingon'"):
        create_blueprint(upstream, dialect="klingon")
    with pytest.raises(InvalidSetting, match="beside a relay"):
        create_blueprint(dialect="openai", relay=Relay(upstream))
