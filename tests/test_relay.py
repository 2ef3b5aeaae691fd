"""The relay's ends, through real gunicorn, with an upstream that plays bytes: when they come, and what they say."""

from __future__ import annotations

import json
from typing import Any

import pytest
from answer_vectors import DONE, STOP, USAGE, event, said
from conftest import IDLE_SECONDS
from raw_upstream import FINAL_CHUNK, Pause, RawUpstream, answer, chunk, head
from relay_client import chat, complete, end, error_code, events, text

from flaskstream.doctor.measure import Recording
from flaskstream.sse import MAX_EVENT_BYTES

A = said("a")


def framed(framing: str, *pieces: bytes) -> bytes:
    return head(framing) + b"".join(chunk(piece) if framing == "chunked" else piece for piece in pieces)


def gap_before_the_end(recording: Recording) -> float:
    """Seconds between the last token and what ends the stream."""
    assert recording.ended_at is not None
    return recording.ended_at - recording.events[0].at


# An event is handed on when its blank line is in


@pytest.mark.parametrize(
    "steps",
    [
        [head("close") + A],
        [head("http10") + A],
        [head("length", length=1000) + A],
        [head("chunked") + chunk(A)],
        [head("chunked") + chunk(A[:-1]), Pause(0.02), chunk(b"\n")],
        [head("chunked") + chunk(A)[:-2]],  # the line end of the chunk is still to come
        [head("close") + A[:-1], Pause(0.02), b"\n"],
        [head("close") + A.replace(b"\n", b"\r\n")[:-1]],  # the second half of the last CRLF is still to come
    ],
    ids=["close", "http10", "length", "chunked", "blank_line_alone", "chunk_without_its_end", "newline_alone", "cr"],
)
@pytest.mark.parametrize("ask", [chat, complete])
def test_an_event_does_not_wait_for_the_next_one(
    raw_gunicorn: Any, raw_upstream: RawUpstream, ask: Any, steps: Any
) -> None:
    # Nothing follows it, so it would never come if it waited.
    (event,) = events(ask(raw_gunicorn, raw_upstream.plays(*steps, end="hold"), stop_after=1))
    assert event.json() == ({"t": "a"} if ask is chat else json.loads(A[6:]))


# Done


@pytest.mark.parametrize("ask", [chat, complete])
@pytest.mark.parametrize("framing", ["chunked", "close"])
def test_an_upstream_that_stays_connected_after_done_is_left_at_once(
    raw_gunicorn: Any, raw_upstream: RawUpstream, ask: Any, framing: str
) -> None:
    model = raw_upstream.plays(framed(framing, A, DONE), end="hold")
    recording = ask(raw_gunicorn, model)
    assert recording.ended == "final_chunk"
    assert gap_before_the_end(recording) < IDLE_SECONDS / 3
    asked = raw_upstream.wait_until_over(model)
    assert asked.left_at is not None and recording.ended_at is not None
    assert asked.left_at - recording.ended_at < 2.0


@pytest.mark.parametrize("ask", [chat, complete])
@pytest.mark.parametrize("after", [STOP, STOP + USAGE], ids=["finish_reason", "usage"])
def test_silence_after_finish_reason_is_an_end(
    raw_gunicorn: Any, raw_upstream: RawUpstream, ask: Any, after: bytes
) -> None:
    model = raw_upstream.plays(framed("close", A, after), end="hold")
    recording = ask(raw_gunicorn, model)
    assert recording.ended == "final_chunk"
    assert "error" not in recording.body.decode()
    assert raw_upstream.wait_until_over(model).left_at is not None
    if ask is chat:
        assert (text(recording), end(recording).event) == ("a", "done")
    else:
        assert recording.body == A + after


@pytest.mark.parametrize("framing", ["chunked", "close"])
@pytest.mark.parametrize("how", ["fin", "reset"])
def test_a_missing_end_of_the_framing_after_done_is_a_clean_end(
    raw_gunicorn: Any, raw_upstream: RawUpstream, framing: str, how: str
) -> None:
    model = raw_upstream.plays(framed(framing, A, DONE), end=how)
    assert (text(chat(raw_gunicorn, model)), end(chat(raw_gunicorn, model)).event) == ("a", "done")
    relayed = complete(raw_gunicorn, model)
    assert (relayed.body, relayed.ended) == (A + DONE, "final_chunk")


# Cut


CUTS = {
    "before_done": head("chunked") + chunk(A),
    "inside_a_chunk": head("chunked") + b"40\r\n" + A[:20],
    "inside_a_chunk_after_an_event": head("chunked") + b"400\r\n" + A + A[:20],
    "short_of_its_length": head("length", length=1000) + A,
    "without_framing": head("close") + A + A[:20],
    "whole_by_its_framing": answer("chunked", A),
}
ends = pytest.mark.parametrize("how", ["fin", "reset"])


def cut_play(raw_upstream: RawUpstream, cut: str, how: str) -> str:
    if cut == "whole_by_its_framing":
        return raw_upstream.plays(CUTS[cut])  # and its connection is used again
    return raw_upstream.plays(CUTS[cut], Pause(0.02), end=how)  # what comes before a reset is handed on


@ends
@pytest.mark.parametrize("cut", CUTS)
def test_a_cut_stream_is_one_error_and_never_done(
    raw_gunicorn: Any, raw_upstream: RawUpstream, cut: str, how: str
) -> None:
    model = cut_play(raw_upstream, cut, how)
    recording = chat(raw_gunicorn, model)
    if cut == "inside_a_chunk":
        assert (recording.status, recording.header("Content-Type")) == (502, "application/json")
        assert b'"upstream_truncated"' in recording.body
    else:
        assert (text(recording), error_code(recording)) == ("a", "upstream_truncated")
    # Never asked again where the user has seen tokens, and paid for them.
    assert len(raw_upstream.asked_for(model)) == (2 if cut == "inside_a_chunk" else 1)


@ends
@pytest.mark.parametrize("cut", sorted(CUTS.keys() - {"inside_a_chunk"}))
def test_a_cut_stream_is_cut_for_the_upstream_s_own_clients_too(
    raw_gunicorn: Any, raw_upstream: RawUpstream, cut: str, how: str
) -> None:
    recording = complete(raw_gunicorn, cut_play(raw_upstream, cut, how))
    assert not recording.framing_complete
    assert recording.body.startswith(A)
    assert not recording.cut_inside_event
    ours = recording.body[len(A) :]
    assert ours.count(b"data:") == 1
    assert events(recording)[-1].json()["error"]["code"] == "upstream_truncated"


def test_silence_in_the_middle_is_an_idle_timeout(raw_gunicorn: Any, raw_upstream: RawUpstream) -> None:
    model = raw_upstream.plays(framed("chunked", A), end="hold")
    recording = chat(raw_gunicorn, model)
    assert (text(recording), error_code(recording)) == ("a", "idle_timeout")
    assert gap_before_the_end(recording) > IDLE_SECONDS * 0.9
    assert raw_upstream.wait_until_over(model).left_at is not None


def test_an_error_of_the_upstream_after_text_ends_the_stream_as_failed(
    raw_gunicorn: Any, raw_upstream: RawUpstream
) -> None:
    failed = event({"error": {"message": "quota of sk-secret-0123456789", "type": "insufficient_quota"}})
    model = raw_upstream.plays(framed("chunked", A, failed, said("b"), DONE) + FINAL_CHUNK)
    recording = chat(raw_gunicorn, model)
    assert (text(recording), error_code(recording)) == ("a", "upstream_error")
    relayed = complete(raw_gunicorn, model)
    assert relayed.body == framed("close", A, failed, said("b"), DONE).partition(b"\r\n\r\n")[2].replace(
        b"sk-secret-0123456789", b"*" * 20
    )


# Much at once


def test_a_burst_of_thousands_of_tokens_is_whole(raw_gunicorn: Any, raw_upstream: RawUpstream) -> None:
    words = [f" {number}" for number in range(3000)]
    model = raw_upstream.plays(head("close") + b"".join(map(said, words)) + DONE, end="fin")
    assert text(chat(raw_gunicorn, model)) == "".join(words)


def test_an_event_larger_than_any_read_is_whole(raw_gunicorn: Any, raw_upstream: RawUpstream) -> None:
    large = "\u6771\u4eac" * 200_000
    model = raw_upstream.plays(answer("chunked", said(large), DONE))
    assert text(chat(raw_gunicorn, model)) == large
    assert complete(raw_gunicorn, model).body == said(large) + DONE


@pytest.mark.parametrize("ask", [chat, complete])
def test_an_event_without_end_is_given_up(raw_gunicorn: Any, raw_upstream: RawUpstream, ask: Any) -> None:
    block = b"x" * (1024 * 1024)
    endless = [b"data: ", *[block] * (MAX_EVENT_BYTES // len(block) + 20)]
    model = raw_upstream.plays(head("close") + A, Pause(0.05), *endless, end="hold")
    recording = ask(raw_gunicorn, model)
    assert len(recording.events) == 2
    assert "event_too_large" in recording.events[-1].event.data
    assert raw_upstream.wait_until_over(model).left_at is not None
