"""What the relay makes of an answer, pure: every vector whole, byte by byte, and at every cut."""

from __future__ import annotations

import functools
import json
import logging
from dataclasses import replace
from typing import Any, Callable, Iterable, Iterator

import pytest
from answer_vectors import DONE, ERRORS, MALFORMED, STOP, USAGE, A, Vector, event, said, says
from dialect_vectors import (
    BLOCK_START,
    BLOCK_STOP,
    COMPLETED,
    CREATED,
    LAST,
    MESSAGE,
    MESSAGE_START,
    MESSAGE_STOP,
    PING,
    STOP_REASON,
    TABLE,
    delta,
    line,
    named,
    nameless,
    output,
    spoken,
    words,
)
from hypothesis import given
from hypothesis import strategies as st
from sse_reading import anything, byte_by_byte, cut_at, read
from sse_reference import Read
from sse_vectors import Outcome

from flaskstream.dialects import ANTHROPIC, DIALECTS, OPENAI, RESPONSES, TEXT, Reading, ToolCalls, Usage
from flaskstream.dialects.framings import EVENTS
from flaskstream.errors import EventTooLarge, FlaskStreamError, IdleTimeout, UpstreamError, UpstreamTruncated
from flaskstream.relay.answers import blocks, tokens
from flaskstream.relay.follower import Follower
from flaskstream.sse import MAX_EVENT_BYTES

BOM = b"\xef\xbb\xbf"

VECTORS = [vector for vectors in TABLE.values() for vector in vectors]
every_vector = pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, logger="flaskstream.relay")


def followed(
    follow: Callable[..., Iterator[Any]], chunks: Iterable[bytes], dialect: str = "openai", **how: Any
) -> tuple[list[Any], str]:
    """Return what came of an answer before its end, and the code of its failure."""
    items: list[Any] = []
    try:
        for item in follow(chunks, DIALECTS[dialect], **how):
            items.append(item)
    except FlaskStreamError as error:
        return items, error.code
    return items, ""


def broken_off(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """These chunks, and then an end that is none."""
    yield from chunks
    raise UpstreamTruncated("the connection was lost")


def read_all(dialect: str, stream: bytes) -> Outcome:
    """All that a stream says; the lines of a stream of lines."""
    if DIALECTS[dialect].framing is EVENTS:
        return read([stream], mode="llm")._replace(truncated=False)
    told = [line.strip() for line in stream.split(b"\n") if line.strip() or dialect == "text"]
    return Outcome(tuple(Read(line.decode("utf-8", "replace")) for line in told))


def cuts(vector: Vector) -> Iterator[list[bytes]]:
    yield [vector.stream]
    yield byte_by_byte(vector.stream)
    for place in range(len(vector.stream) + 1):
        yield cut_at(vector.stream, [place])


@every_vector
def test_the_tokens_are_the_same_wherever_the_network_cuts(vector: Vector) -> None:
    for chunks in cuts(vector):
        items, code = followed(tokens, chunks, vector.dialect)
        assert ("".join(items), code) == (vector.text, vector.error), chunks


@every_vector
def test_the_usage_and_the_calls_of_tools_are_the_same_wherever_the_network_cuts(vector: Vector) -> None:
    for chunks in cuts(vector):
        readings: list[Reading] = []
        followed(tokens, chunks, vector.dialect, on_reading=readings.append)
        calls = ToolCalls()
        for reading in readings:
            for fragment in reading.tools:
                calls.add(fragment)
        told = [reading.usage for reading in readings if reading.usage]
        assert tuple((call.id, call.name, call.arguments) for call in calls.calls) == vector.tools, chunks
        assert (functools.reduce(Usage.updated, told) if told else None) == vector.usage, chunks


@every_vector
def test_the_upstream_s_own_bytes_pass_in_whole_events_wherever_the_network_cuts(vector: Vector) -> None:
    told = vector.stream[: len(vector.stream) - vector.dropped]
    told = told[len(BOM) :] if told.startswith(BOM) else told  # a heartbeat may stand before it
    for chunks in cuts(vector):
        items, code = followed(blocks, chunks, vector.dialect)
        passed = b"".join(items)
        assert code == ("upstream_truncated" if vector.cut else "")
        assert told.startswith(passed.rstrip(b"\r\n")), chunks
        assert read_all(vector.dialect, passed) == read_all(vector.dialect, told), chunks
        if DIALECTS[vector.dialect].framing is EVENTS:
            assert all(not read([item]).truncated for item in items), chunks


def test_a_blank_line_passes_whole_so_that_a_heartbeat_of_ours_does_not_part_it() -> None:
    stream = A.replace(b"\n", b"\r\n") + DONE.replace(b"\n", b"\r\n")
    items, code = followed(blocks, [stream[n : n + 1] for n in range(len(stream))], "openai")
    assert (code, b"".join(items)) == ("", stream)
    assert not [item for item in items if item.startswith(b"\n") or item.endswith(b"\r")]


def test_as_many_answers_have_to_be_whole_as_were_asked_for() -> None:
    one = choice(0, "a") + choice(0, None, "stop")
    both = choice(0, "a") + choice(1, "b") + choice(0, None, "stop") + choice(1, None, "stop")
    for follow in (tokens, blocks):
        assert followed(follow, [one], "openai")[1] == ""
        assert followed(follow, [one], "openai", choices=2)[1] == "upstream_truncated"
        assert followed(follow, [both], "openai", choices=2)[1] == ""


def choice(index: int, content: str | None, finish_reason: str | None = None) -> bytes:
    delta = {} if content is None else {"content": content}
    return says({"index": index, "delta": delta, "finish_reason": finish_reason})


def test_what_an_upstream_reports_makes_no_line_of_its_own_in_the_log() -> None:
    forged = says_error("quota\nERROR forged")
    with pytest.raises(UpstreamError) as refused:
        list(tokens([forged], OPENAI))
    assert "\n" not in str(refused.value)


def says_error(kind: str) -> bytes:
    return b"data: " + json.dumps({"error": {"type": kind}}).encode() + b"\n\n"


@every_vector
def test_every_prefix_is_cut_unless_the_end_was_told_in_it(vector: Vector) -> None:
    dialect = DIALECTS[vector.dialect]
    for length in range(len(vector.stream)):
        decoder = dialect.framing.decoder(lambda line: None)
        events = [*decoder.feed(vector.stream[:length]), *decoder.close()]
        readings = [dialect.read(event) for event in events]
        items, code = followed(tokens, broken_off([vector.stream[:length]]), vector.dialect)
        assert vector.text.startswith("".join(items))
        if not any(reading.last or reading.finished or reading.error for reading in readings):
            assert code == "upstream_truncated"
            assert followed(blocks, broken_off([vector.stream[:length]]), vector.dialect)[1] == code
            if not dialect.ends_with_body:
                assert followed(tokens, [vector.stream[:length]], vector.dialect)[1] == code


@pytest.mark.parametrize("follow", [tokens, blocks])
def test_half_a_line_of_text_is_never_passed_on(follow: Any) -> None:
    for chunks in ([b"a\nb"], byte_by_byte(b"a\nb")):
        items, code = followed(follow, broken_off(chunks), "text")
        assert (len(items), code) == (1, "upstream_truncated")
        assert items[0] in ("a\n", b"a\n")


@anything
@given(st.lists(st.one_of(st.sampled_from([A, STOP, DONE, event({"error": "x"}), b"data: x"]), st.binary(max_size=9))))
def test_no_bytes_at_all_make_an_answer_look_whole_without_a_mark(pieces: list[bytes]) -> None:
    stream = b"".join(pieces)
    items, code = followed(tokens, pieces)
    assert (items, code) == followed(tokens, byte_by_byte(stream))
    if b"[DONE]" not in stream and b'"finish_reason": "' not in stream:
        assert code


def test_tokens_come_before_the_next_chunk_is_asked_for() -> None:
    asked = []

    def chunks() -> Iterator[bytes]:
        for number, chunk in enumerate([A, said("b"), STOP, DONE]):
            asked.append(number)
            yield chunk

    assert [(token, len(asked)) for token in tokens(chunks(), OPENAI)] == [("a", 1), ("b", 2)]
    assert len(asked) == 4
    asked.clear()
    assert [len(asked) for _ in blocks(chunks(), OPENAI)] == [1, 2, 3, 4]


def test_nothing_is_asked_for_after_done() -> None:
    def chunks() -> Iterator[bytes]:
        yield A + DONE
        raise AssertionError("it waits for more")

    assert followed(tokens, chunks()) == (["a"], "")
    assert followed(blocks, chunks()) == ([A + DONE], "")


@pytest.mark.parametrize(
    ("dialect", "stream"),
    [
        ("openai", A + DONE + A),
        ("responses", output("a") + COMPLETED + output("b") + DONE),
        ("anthropic", words("a") + MESSAGE_STOP + words("b")),
        ("ollama", spoken("a") + LAST + spoken("b")),
        ("plain", b"data: a\n\n" + DONE + b"data: b\n\n"),
    ],
)
def test_nothing_after_the_end_is_text(dialect: str, stream: bytes) -> None:
    for place in range(len(stream) + 1):
        assert followed(tokens, cut_at(stream, [place]), dialect) == (["a"], "")


@pytest.mark.parametrize("failure", [UpstreamTruncated("x"), IdleTimeout("x")], ids=["cut", "silence"])
@pytest.mark.parametrize("follow", [tokens, blocks])
def test_what_goes_wrong_after_the_last_token_is_an_end(follow: Any, failure: Exception) -> None:
    def chunks(*before: bytes) -> Iterator[bytes]:
        yield from before
        raise failure

    assert followed(follow, chunks(A, STOP))[1] == ""
    assert followed(follow, chunks(A))[1] == failure.code  # type: ignore[attr-defined]


@pytest.mark.parametrize("follow", [tokens, blocks])
def test_the_end_is_told_once_and_before_more_is_awaited(follow: Any) -> None:
    log: list[str] = []

    def chunks() -> Iterator[bytes]:
        for name, chunk in [("a", A), ("stop", STOP), ("usage", event({"choices": [], "usage": {}})), ("done", DONE)]:
            log.append(name)
            yield chunk

    followed(follow, chunks(), on_whole=lambda: log.append("whole"))
    assert log == ["a", "stop", "whole", "usage", "done"]


@pytest.mark.parametrize("follow", [tokens, blocks])
@pytest.mark.parametrize(
    ("dialect", "said_first", "endless"),
    [
        ("openai", A, b"data: " + b"x" * 65530),
        ("ollama", spoken("a"), b" " * 65536),
        ("text", b"a\n", b"x" * 65536),
    ],
)
def test_an_endless_event_is_refused_near_the_limit(
    follow: Any, dialect: str, said_first: bytes, endless: bytes
) -> None:
    taken = 0

    def chunks() -> Iterator[bytes]:
        nonlocal taken
        yield said_first
        while True:
            taken += 65536
            yield endless

    items, code = followed(follow, chunks(), dialect)
    assert (len(items), code) == (1, EventTooLarge.code)
    assert taken < MAX_EVENT_BYTES + 3 * 65536


@pytest.mark.parametrize(
    ("dialect", "large", "last"),
    [("openai", said("x" * 30_000), DONE), ("ollama", spoken("x" * 30_000), LAST)],
    ids=["openai", "ollama"],
)
def test_the_end_of_a_large_event_that_comes_byte_by_byte_is_looked_for_in_new_bytes_only(
    dialect: str, large: bytes, last: bytes
) -> None:
    looked_at = 0

    def end(buffer: bytearray, searched: int) -> int:
        nonlocal looked_at
        looked_at += len(buffer) - searched
        return known.framing.end(buffer, searched)

    known = DIALECTS[dialect]
    watched = replace(known, framing=replace(known.framing, end=end))
    assert list(blocks(byte_by_byte(large + last), watched)) == [large, last]
    assert looked_at <= 2 * len(large + last)  # it would be thousands of times as much


@pytest.mark.parametrize("vector", MALFORMED, ids=lambda vector: vector.name)
def test_what_is_no_event_is_left_out_with_a_warning(vector: Vector, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="flaskstream.relay")
    followed(tokens, [vector.stream])
    warnings = [record.getMessage() for record in caplog.records]
    harmless = vector.name == "every_field_of_a_wrong_type"  # each is an object, and may be an extension
    assert bool(warnings) != harmless
    assert len(warnings) <= 3


def test_a_page_of_html_is_three_warnings_and_no_flood(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="flaskstream.relay")
    followed(tokens, [b"<p>oops</p>\n" * 1000])
    assert len(caplog.records) == 3
    assert "<p>oops</p>" in caplog.text


def test_secrets_are_hidden_before_an_excerpt_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="flaskstream.relay")
    follower = Follower(OPENAI, hide=lambda text: text.replace("sk-secret", "*" * 9))
    stray = b"x" * 75 + b"sk-secret"  # the excerpt ends inside it
    follower.feed(stray + b"\ndata: sk-secret\n\ndata: " + stray + b"\n\n")
    (reading,) = follower.feed(event({"error": {"type": "no sk-secret"}}))
    assert len(caplog.records) == 3
    assert "sk-" not in caplog.text
    assert reading.error == "no *********"


@pytest.mark.parametrize("vector", ERRORS, ids=lambda vector: vector.name)
def test_an_error_s_message_never_becomes_text_of_ours(vector: Vector) -> None:
    stream = vector.stream.replace(b'"x"', b'"secret"').replace(b"quota", b"secret").replace(b"plain", b"secret")
    with pytest.raises(FlaskStreamError) if vector.error else pytest.raises(StopIteration) as caught:
        texts = tokens([stream], OPENAI)
        while True:
            next(texts)
    assert "secret" not in str(caught.value)


def test_our_errors_read_as_an_error_of_the_dialect() -> None:
    for dialect in DIALECTS.values():
        written = dialect.error_event("upstream_truncated", "It broke off.\n\ndata: [DONE]")
        told = [dialect.read(event).error for event in dialect.framing.decoder(lambda line: None).feed(written)]
        assert (told and all(told)) or dialect is TEXT  # where all is text, nothing can be an error


def test_every_dialect_has_its_vectors() -> None:
    assert list(TABLE) == list(DIALECTS)
    assert all(vector.dialect == dialect for dialect, vectors in TABLE.items() for vector in vectors)


# What is part of an answer: after that nothing is asked again, and before it patience may end.

AZURE_S_FILTER = event({"choices": [], "prompt_filter_results": []})
ROLE = says({"index": 0, "delta": {"role": "assistant"}})
THINKS = delta(type="thinking_delta", thinking="hm")
REASONS = named("response.reasoning_summary_text.delta", delta="hm")

PARTS = {
    "openai": [said("a"), said(""), ROLE, STOP, USAGE, DONE, event({"error": {"message": "x"}})],
    "anthropic": [MESSAGE_START, BLOCK_START, words("a"), words(""), THINKS, BLOCK_STOP, STOP_REASON, MESSAGE_STOP],
    "responses": [CREATED, REASONS, output("a"), COMPLETED],
    "ollama": [spoken("a"), spoken(""), line(message={"content": "", "thinking": "hm"}), LAST, line(error="x")],
    "plain": [b"data: a\n\n", DONE],
    "text": [b"a\n"],
}
NO_PARTS = {
    "openai": [AZURE_S_FILTER, event({"id": "1"}), b"data: no json\n\n", b": PROCESSING\n\n"],
    "anthropic": [PING, b"event: ping\ndata: .\n\n", nameless(PING), b": hb\n\n"],
    "responses": [named("keepalive"), b": hb\n\n"],
    "ollama": [line(), b"\n", b"<html>\n"],
    "plain": [b"event: ping\ndata: x\n\n", b": hb\n\n"],
    "text": [],
}


def passed(dialect: str, stream: bytes) -> list[Any]:
    return followed(blocks, [stream], dialect)[0]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_is_part_of_an_answer_and_what_is_not(dialect: str) -> None:
    for part in PARTS[dialect]:
        assert [block.is_answer for block in passed(dialect, part)] == [True], part
    for other in NO_PARTS[dialect]:
        assert not any(block.is_answer for block in passed(dialect, other)), other
        if PARTS[dialect]:
            assert [block.is_answer for block in passed(dialect, other + PARTS[dialect][0])] == [True]


@pytest.mark.parametrize(
    ("dialect", "stream", "count"),
    [
        ("openai", said("a") + said("b") + ROLE + said("") + STOP, 2),
        ("openai", ROLE, 0),
        ("anthropic", MESSAGE, 2),
        ("anthropic", PING + THINKS, 0),
        ("responses", CREATED + REASONS + output("a") + COMPLETED, 1),
        ("ollama", spoken("a") + spoken("b") + spoken("c") + LAST, 3),
        ("plain", b"data: a\n\ndata: b\n\n", 2),
    ],
)
def test_tokens_are_counted_whatever_lies_in_one_piece_and_wherever_it_is_cut(
    dialect: str, stream: bytes, count: int
) -> None:
    for chunks in ([stream], byte_by_byte(stream), cut_at(stream, [len(stream) // 2])):
        items = followed(blocks, chunks, dialect)[0]
        assert sum(block.tokens for block in items) == count
        assert b"".join(items) == stream


# Requests

QUESTION = {"role": "user", "content": "hello"}
SYSTEM = {"role": "system", "content": "be brief"}


@pytest.mark.parametrize("dialect", ["openai", "ollama", "plain", "text"])
def test_most_dialects_are_asked_as_openai_is(dialect: str) -> None:
    payload = {"model": "m", "messages": [SYSTEM, QUESTION], "temperature": 0}
    assert DIALECTS[dialect].request(payload) == payload


def test_responses_are_asked_for_with_an_input() -> None:
    assert RESPONSES.request({"model": "m", "messages": [QUESTION]}) == {"model": "m", "input": [QUESTION]}
    assert RESPONSES.request({"input": "hello", "store": False}) == {"input": "hello", "store": False}


def test_anthropic_is_told_a_limit_and_what_the_system_says() -> None:
    asked = ANTHROPIC.request({"model": "m", "messages": [SYSTEM, QUESTION]})
    system = [{"type": "text", "text": "be brief"}]
    assert asked == {"model": "m", "messages": [QUESTION], "system": system, "max_tokens": 4096}
    own = {"messages": [QUESTION], "system": "be long", "max_tokens": 9}
    assert ANTHROPIC.request(own) == own
    assert "system" not in ANTHROPIC.request({"messages": [QUESTION]})


def test_a_request_of_wrong_types_is_the_upstream_s_to_refuse() -> None:
    for dialect in DIALECTS.values():
        for payload in ({}, {"messages": 5}, {"messages": [5, {"role": "system", "content": 5}, {}]}):
            assert "model" not in dialect.request(payload)
