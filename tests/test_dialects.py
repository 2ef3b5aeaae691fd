"""What the relay makes of an answer, pure: every vector whole, byte by byte, and at every cut."""

from __future__ import annotations

import logging
from typing import Any, Callable, Iterable, Iterator

import pytest
from answer_vectors import DONE, ERRORS, MALFORMED, STOP, VECTORS, A, Vector, event, said
from hypothesis import given
from hypothesis import strategies as st
from sse_reading import anything, byte_by_byte, cut_at, read

from flaskstream.dialects import DIALECTS, OPENAI
from flaskstream.errors import EventTooLarge, FlaskStreamError, IdleTimeout, UpstreamTruncated
from flaskstream.relay import Follower, blocks, tokens
from flaskstream.sse import MAX_EVENT_BYTES, Decoder, Event

every_vector = pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, logger="flaskstream.relay")


def followed(follow: Callable[..., Iterator[Any]], chunks: Iterable[bytes], **how: Any) -> tuple[list[Any], str]:
    """Return what came of an answer before its end, and the code of its failure."""
    items: list[Any] = []
    try:
        for item in follow(chunks, OPENAI, **how):
            items.append(item)
    except FlaskStreamError as error:
        return items, error.code
    return items, ""


def cuts(vector: Vector) -> Iterator[list[bytes]]:
    yield [vector.stream]
    yield byte_by_byte(vector.stream)
    for place in range(len(vector.stream) + 1):
        yield cut_at(vector.stream, [place])


@every_vector
def test_the_tokens_are_the_same_wherever_the_network_cuts(vector: Vector) -> None:
    for chunks in cuts(vector):
        items, code = followed(tokens, chunks)
        assert ("".join(items), code) == (vector.text, vector.error), chunks


@every_vector
def test_the_upstream_s_own_bytes_pass_in_whole_events_wherever_the_network_cuts(vector: Vector) -> None:
    told = vector.stream[: len(vector.stream) - vector.dropped]
    for chunks in cuts(vector):
        items, code = followed(blocks, chunks)
        passed = b"".join(items)
        assert code == ("upstream_truncated" if vector.cut else "")
        assert told.startswith(passed.rstrip(b"\r\n")), chunks
        assert read([passed]) == read([told], mode="llm")._replace(truncated=False), chunks
        assert all(not read([item]).truncated for item in items), chunks


@every_vector
def test_every_prefix_is_cut_unless_the_end_was_told_in_it(vector: Vector) -> None:
    for length in range(len(vector.stream)):
        prefix = vector.stream[:length]
        readings = [OPENAI.read(Event(one.data, one.event)) for one in read([prefix], mode="llm").events]
        items, code = followed(tokens, [prefix])
        assert vector.text.startswith("".join(items))
        if not any(reading.last or reading.finished or reading.error for reading in readings):
            assert code == followed(blocks, [prefix])[1] == "upstream_truncated"


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


def test_nothing_after_done_is_text() -> None:
    for place in range(len(A + DONE + A) + 1):
        assert followed(tokens, cut_at(A + DONE + A, [place])) == (["a"], "")


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
def test_an_endless_event_is_refused_near_the_limit(follow: Any) -> None:
    taken = 0

    def chunks() -> Iterator[bytes]:
        nonlocal taken
        yield A
        while True:
            taken += 65536
            yield b"data: " + b"x" * 65530

    items, code = followed(follow, chunks())
    assert (len(items), code) == (1, EventTooLarge.code)
    assert taken < MAX_EVENT_BYTES + 3 * 65536


def test_a_megabyte_event_that_comes_byte_by_byte_passes_in_linear_time() -> None:
    large = said("x" * 300_000)
    items, code = followed(blocks, byte_by_byte(large + DONE))
    assert (items, code) == ([large, DONE], "")


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
        (told,) = Decoder().feed(dialect.error_event("upstream_truncated", "It broke off.\n\ndata: [DONE]"))
        assert dialect.read(told).error
