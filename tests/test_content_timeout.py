"""How long an upstream may be silent, or say nothing of an answer: never how long a healthy answer may take."""

from __future__ import annotations

import time
from typing import Any, Iterator

import pytest
from answer_vectors import DONE, A, B, said
from apps.relays import CONTENT_SECONDS
from conftest import IDLE_SECONDS
from dialect_vectors import ENDED, MESSAGE, OPENED, PING, delta, words
from raw_upstream import FINAL_CHUNK, Pause, RawUpstream, chunk, head
from relay_client import chat, complete, end, error_code, text

from flaskstream.dialects import OPENAI
from flaskstream.doctor.measure import Recording
from flaskstream.errors import IdleTimeout, InvalidSetting
from flaskstream.relay.answers import blocks, tokens
from flaskstream.upstream import Upstream

CHAT, COMPLETIONS, MESSAGES = "/impatient/chat", "/impatient/v1/chat/completions", "/impatient/v1/messages"
COMMENT = b": ping\n\n"
SPACE = Pause(0.3)


def lasted(seen: Recording) -> float:
    return seen.ended_at - seen.sent_at


def play(upstream: RawUpstream, *events: bytes, end: str = "hold") -> str:
    return upstream.plays(head("chunked"), *[step for event in events for step in (chunk(event), SPACE)], end=end)


def test_an_answer_that_takes_longer_than_both_limits_is_whole(relays: Any, raw_upstream: RawUpstream) -> None:
    words = [said("a")] * 8
    model = play(raw_upstream, *words, DONE + FINAL_CHUNK)
    seen = chat(relays, model, path=CHAT)
    assert (text(seen), end(seen).event) == ("a" * 8, "done")
    assert lasted(seen) > max(CONTENT_SECONDS, IDLE_SECONDS)


def test_silence_after_an_event_is_ended_though_no_byte_comes(relays: Any, raw_upstream: RawUpstream) -> None:
    seen = chat(relays, play(raw_upstream, A), path=CHAT)
    assert (text(seen), error_code(seen)) == ("a", "idle_timeout")
    assert IDLE_SECONDS * 0.9 < lasted(seen) < IDLE_SECONDS * 4


PINGS = {CHAT: COMMENT, COMPLETIONS: COMMENT, MESSAGES: PING}


@pytest.mark.parametrize(("path", "ping"), PINGS.items())
def test_comments_and_pings_alone_are_ended(relays: Any, raw_upstream: RawUpstream, path: str, ping: bytes) -> None:
    model = play(raw_upstream, *[ping] * 20)
    if path == CHAT:
        seen = chat(relays, model, path=path)
        assert seen.status == 504 and b'"idle_timeout"' in seen.body  # a real status: nothing has gone out yet
    else:
        seen = complete(relays, model, path=path)
        assert b'"idle_timeout"' in seen.body and not seen.framing_complete
    assert CONTENT_SECONDS * 0.9 < lasted(seen) < CONTENT_SECONDS * 4
    assert raw_upstream.wait_until_over(model).left_at is not None
    assert len(raw_upstream.asked_for(model)) == 1


def test_comments_after_some_of_an_answer_are_ended_too(relays: Any, raw_upstream: RawUpstream) -> None:
    seen = chat(relays, play(raw_upstream, A, *[COMMENT] * 20), path=CHAT)
    assert (text(seen), error_code(seen)) == ("a", "idle_timeout")


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
def test_comments_between_the_words_of_a_slow_answer_end_nothing(
    relays: Any, raw_upstream: RawUpstream, path: str
) -> None:
    if path == CHAT:
        seen = chat(relays, play(raw_upstream, *[A, COMMENT, COMMENT] * 3, DONE, end="fin"), path=path)
        assert (text(seen), end(seen).event) == ("aaa", "done")
    else:
        seen = complete(relays, play(raw_upstream, *[PING, PING], MESSAGE, end="fin"), path=path)
        assert seen.body == PING * 2 + MESSAGE


def test_a_model_that_thinks_for_longer_is_at_work(relays: Any, raw_upstream: RawUpstream) -> None:
    thinks = delta(type="thinking_delta", thinking="hm")
    model = play(raw_upstream, OPENED, *[thinks] * 6, words("a") + ENDED, end="fin")
    seen = complete(relays, model, path=MESSAGES)
    assert seen.body == OPENED + thinks * 6 + words("a") + ENDED
    assert lasted(seen) > CONTENT_SECONDS


def test_without_a_limit_comments_keep_an_answer_alive(relays: Any, raw_upstream: RawUpstream) -> None:
    model = play(raw_upstream, *[COMMENT] * 8, A, DONE, end="fin")
    seen = chat(relays, model, path="/plain/chat")
    assert (text(seen), end(seen).event) == ("a", "done")
    assert lasted(seen) > max(CONTENT_SECONDS, IDLE_SECONDS)


def test_comments_after_the_end_of_an_answer_do_not_fail_it(relays: Any, raw_upstream: RawUpstream) -> None:
    stop = b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\n'
    seen = chat(relays, play(raw_upstream, A, stop, *[COMMENT] * 20), path=CHAT)
    assert (text(seen), end(seen).event) == ("a", "done")


# The pure part.


def comments(count: int, seconds: float) -> Iterator[bytes]:
    for _ in range(count):
        time.sleep(seconds)
        yield COMMENT


@pytest.mark.parametrize("follow", [tokens, blocks])
def test_the_time_that_a_client_takes_is_not_the_upstream_s(follow: Any) -> None:
    def chunks() -> Iterator[bytes]:
        yield A
        yield from comments(2, 0.001)
        yield B + COMMENT
        yield from comments(2, 0.001)
        yield DONE

    came = []
    for item in follow(chunks(), OPENAI, content_timeout=0.1):
        time.sleep(0.2)  # it takes its time
        came.append(item)
    assert "".join(came) == "ab" if follow is tokens else b"".join(came) == A + COMMENT * 2 + B + COMMENT * 3 + DONE


@pytest.mark.parametrize("follow", [tokens, blocks])
def test_the_limit_holds_for_the_upstream_alone(follow: Any) -> None:
    with pytest.raises(IdleTimeout, match=r"within 0\.1 s, got comments and pings only"):
        list(follow(comments(100, 0.03), OPENAI, content_timeout=0.1))


@pytest.mark.parametrize("value", [-1, float("inf"), float("nan"), "1", None, True])
def test_a_limit_that_is_none_is_refused(value: Any) -> None:
    with pytest.raises(InvalidSetting, match="content_timeout: expected seconds"):
        Upstream("http://127.0.0.1:9/v1", content_timeout=value)
    with pytest.raises(InvalidSetting, match="retries: expected a number from 0 to 10"):
        Upstream("http://127.0.0.1:9/v1", retries=value if value != "1" else 11)
