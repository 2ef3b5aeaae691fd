"""The upstream is asked again only while nothing of an answer has come: the table, and through real servers."""

from __future__ import annotations

import time
from email.utils import formatdate
from typing import Any, Iterator

import pytest
from answer_vectors import DONE, A, said, says
from dialect_vectors import MESSAGE, MESSAGE_START, OPENED, PING, words
from raw_upstream import Pause, RawUpstream, answer, chunk, head, wait_for
from relay_client import chat, complete, end, error_code, events, post, text

from flaskstream.doctor.measure import Recording, open_exchange
from flaskstream.errors import (
    IdleTimeout,
    UpstreamError,
    UpstreamRefused,
    UpstreamStatus,
    UpstreamTimeout,
    UpstreamTruncated,
)
from flaskstream.testing import open_stream
from flaskstream.upstream.retries import FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS, PASSING_STATUSES, wait_before_retry

NOW = 1_800_000_000.0
CHAT, COMPLETIONS, MESSAGES = "/plain/chat", "/plain/v1/chat/completions", "/plain/v1/messages"

COMMENT = b": ping\n\n"
OK = answer("chunked", A, DONE)
ROLE = says({"index": 0, "delta": {"role": "assistant"}})


# The table.


def after(error: UpstreamError, failures: int = 1, now: float = NOW, chance: float = 1.0) -> float | None:
    return wait_before_retry(error, failures, now, chance)


def told(value: str, status: int = 429, name: str = "Retry-After") -> UpstreamStatus:
    return UpstreamStatus(status, headers={name: value})


@pytest.mark.parametrize("status", sorted(PASSING_STATUSES))
def test_what_passes_by_itself_is_asked_again(status: int) -> None:
    assert after(UpstreamStatus(status)) == FIRST_WAIT_SECONDS


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 422, 500, 501])
def test_what_would_fail_again_is_not_whatever_it_says(status: int) -> None:
    assert after(UpstreamStatus(status)) is None
    assert after(told("1", status)) is None


@pytest.mark.parametrize("error", [UpstreamTimeout("x"), IdleTimeout("x"), UpstreamError("x")])
def test_who_has_waited_in_vain_and_what_is_no_answer_is_not_asked_again(error: UpstreamError) -> None:
    assert after(error) is None


@pytest.mark.parametrize("error", [UpstreamRefused("x"), UpstreamTruncated("x")])
def test_a_lost_connection_is(error: UpstreamError) -> None:
    assert after(error) == FIRST_WAIT_SECONDS


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("0", 0.0), ("2", 2.0), (" 1 ", 1.0), (f"{LONGEST_WAIT_SECONDS:.0f}", LONGEST_WAIT_SECONDS)],
)
def test_the_number_of_seconds_is_waited_and_not_by_all_the_same(value: str, seconds: float) -> None:
    least = max(seconds, FIRST_WAIT_SECONDS / 2)  # who says "at once" is not asked again in the same instant
    assert after(told(value), chance=0.0) == after(told(value, name="retry-after"), chance=0.0) == least
    assert after(told(value), chance=1.0) == seconds + FIRST_WAIT_SECONDS


@pytest.mark.parametrize("value", ["4", "3600", "9" * 5000])
def test_a_wait_that_is_too_long_is_the_client_s(value: str) -> None:
    assert after(told(value)) is None


DATES = {
    "imf": formatdate(NOW + 2, usegmt=True),
    "rfc850": time.strftime("%A, %d-%b-%y %H:%M:%S GMT", time.gmtime(NOW + 2)),
    "asctime": time.asctime(time.gmtime(NOW + 2)),
}


@pytest.mark.parametrize("value", DATES.values(), ids=DATES)
@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "XYZ-9"])
def test_a_date_is_waited_for_in_each_form_and_every_time_zone(
    monkeypatch: pytest.MonkeyPatch, value: str, zone: str
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert after(told(value), chance=0.0) == 2.0
        assert after(told(value), now=NOW + 60, chance=0.0) == FIRST_WAIT_SECONDS / 2
        assert after(told(value), now=NOW - 60) is None
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("value", ["", "soon", "-1", "1.5", "\u0663", "Mon, 99 Foo 2026 00:00:00 GMT", "0x2"])
def test_what_is_neither_counts_as_nothing_said(value: str) -> None:
    assert after(told(value)) == FIRST_WAIT_SECONDS


def test_the_waits_double_up_to_a_limit_and_are_spread_over_half_of_it() -> None:
    for failures in range(1, 12):
        most = min(FIRST_WAIT_SECONDS * 2 ** (failures - 1), LONGEST_WAIT_SECONDS)
        assert after(UpstreamTruncated("x"), failures) == most
        assert after(UpstreamTruncated("x"), failures, chance=0.0) == most / 2


# Through a server: what came, and how often the upstream was asked.


def reset_after(*sent: bytes) -> Any:
    """What to play: a head, these chunks, and a reset."""
    return [head("chunked"), *map(chunk, sent)]


def first_then(upstream: RawUpstream, first: str, *later: bytes) -> str:
    return upstream.plays_in_turn(first, *map(upstream.plays, later))


def count(upstream: RawUpstream, model: str) -> int:
    return len(upstream.asked_for(model))


NOTHING_YET = {
    "the head alone": [],
    "a comment": [COMMENT],
    "many comments": [COMMENT] * 5,
    "a comment and half an event": [COMMENT, A[:-9]],
}


@pytest.mark.parametrize("sent", NOTHING_YET.values(), ids=NOTHING_YET)
@pytest.mark.parametrize("how", ["reset", "fin"])
def test_a_stream_that_breaks_before_it_says_anything_is_asked_for_again_unseen(
    relays: Any, raw_upstream: RawUpstream, sent: list[bytes], how: str
) -> None:
    model = first_then(raw_upstream, raw_upstream.plays(*reset_after(*sent), end=how), OK)
    seen = chat(relays, model, path=CHAT)
    assert (text(seen), end(seen).event) == ("a", "done")
    model = first_then(raw_upstream, raw_upstream.plays(*reset_after(*sent), end=how), OK)
    faithful = complete(relays, model, path=COMPLETIONS)
    assert faithful.body.replace(COMMENT, b"") == A + DONE
    assert faithful.ended == "final_chunk"
    assert count(raw_upstream, model) == 2


@pytest.mark.parametrize("how", ["reset", "fin"])
def test_once_a_token_went_out_nothing_is_asked_for_again(relays: Any, raw_upstream: RawUpstream, how: str) -> None:
    model = first_then(raw_upstream, raw_upstream.plays(*reset_after(said("Hel")), end=how), OK)
    seen = chat(relays, model, path=CHAT)
    assert (text(seen), error_code(seen), count(raw_upstream, model)) == ("Hel", "upstream_truncated", 1)
    model = first_then(raw_upstream, raw_upstream.plays(*reset_after(said("Hel")), end=how), OK)
    faithful = complete(relays, model, path=COMPLETIONS)
    assert faithful.body.startswith(said("Hel")) and b"upstream_truncated" in faithful.body
    assert not faithful.framing_complete
    assert count(raw_upstream, model) == 1


def test_the_first_event_of_an_answer_is_one_also_without_a_token_where_the_client_has_seen_it(
    relays: Any, raw_upstream: RawUpstream
) -> None:
    model = first_then(raw_upstream, raw_upstream.plays(*reset_after(ROLE), end="reset"), OK)
    assert b"upstream_truncated" in complete(relays, model, path=COMPLETIONS).body
    assert count(raw_upstream, model) == 1


@pytest.mark.parametrize(
    ("sent", "asked"),
    [([PING], 2), ([PING, PING, MESSAGE_START[:-20]], 2), ([PING, MESSAGE_START], 1), ([OPENED, words("Hel")], 1)],
    ids=["ping", "ping and half an event", "message_start", "a token"],
)
def test_a_ping_is_no_answer_of_anthropic_s_and_what_follows_is(
    relays: Any, raw_upstream: RawUpstream, sent: list[bytes], asked: int
) -> None:
    model = first_then(raw_upstream, raw_upstream.plays(*reset_after(*sent), end="reset"), answer("chunked", MESSAGE))
    seen = complete(relays, model, path=MESSAGES, max_tokens=9)
    assert count(raw_upstream, model) == asked
    if asked == 2:
        assert seen.body == PING * sent.count(PING) + MESSAGE
        assert seen.ended == "final_chunk"
    else:
        assert events(seen)[-1].event == "error" and not seen.framing_complete
        assert MESSAGE not in seen.body


def test_a_connection_that_is_reset_before_its_head_is_asked_again(relays: Any, raw_upstream: RawUpstream) -> None:
    model = first_then(raw_upstream, raw_upstream.plays(end="reset"), OK)
    assert text(chat(relays, model, path=CHAT)) == "a"
    assert count(raw_upstream, model) == 2


@pytest.mark.parametrize("status", [429, 503, 529])
def test_what_passes_is_asked_again_not_before_the_time_it_names(
    relays: Any, raw_upstream: RawUpstream, status: int
) -> None:
    busy = answer("length", b"{}", status=status, headers=("Retry-After: 1",), content_type="application/json")
    model = first_then(raw_upstream, raw_upstream.plays(busy), OK)
    assert text(chat(relays, model, path=CHAT)) == "a"
    first, second = raw_upstream.asked_for(model)
    assert 1.0 <= second.at - first.at < 1.0 + LONGEST_WAIT_SECONDS


def test_a_date_is_honoured_too(relays: Any, raw_upstream: RawUpstream) -> None:
    came_back_at = int(time.time()) + 2
    date = formatdate(came_back_at, usegmt=True)
    busy = answer("length", b"{}", status=503, headers=(f"Retry-After: {date}",), content_type="application/json")
    model = first_then(raw_upstream, raw_upstream.plays(busy), OK)
    assert text(chat(relays, model, path=CHAT)) == "a"
    ago = time.monotonic() - raw_upstream.asked_for(model)[-1].at
    assert time.time() - ago > came_back_at - 0.05


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_a_wait_that_is_too_long_is_handed_on_with_its_status(
    relays: Any, raw_upstream: RawUpstream, path: str
) -> None:
    busy = answer("length", b'{"a": 1}', status=429, headers=("Retry-After: 30",), content_type="application/json")
    model = raw_upstream.plays(busy)
    seen = ask(relays, model, path)
    assert (seen.status, seen.header("Retry-After"), seen.body) == (429, "30", b'{"a": 1}')
    assert count(raw_upstream, model) == 1


def ask(server: Any, model: str, path: str) -> Recording:
    return (chat if path.endswith("/chat") else complete)(server, model, path=path)


def test_the_head_of_a_failure_is_that_of_the_last_attempt_alone(relays: Any, raw_upstream: RawUpstream) -> None:
    first = raw_upstream.plays(head("chunked", "X-Request-Id: one"), end="reset")
    busy = ("X-Request-Id: two", "Retry-After: 9")
    model = first_then(raw_upstream, first, answer("length", b"{}", status=503, headers=busy))
    seen = complete(relays, model, path=COMPLETIONS)
    assert (seen.status, seen.header("Retry-After")) == (503, "9")
    assert [value for name, value in seen.headers if name == "X-Request-Id"] == ["two"]
    model = first_then(raw_upstream, first, OK)
    assert [value for name, value in complete(relays, model, path=COMPLETIONS).headers if name == "X-Request-Id"] == []


@pytest.mark.parametrize("status", [400, 401, 404, 500])
def test_what_would_fail_again_is_asked_once(relays: Any, raw_upstream: RawUpstream, status: int) -> None:
    model = raw_upstream.plays(answer("length", b"{}", status=status, content_type="application/json"))
    assert chat(relays, model, path=CHAT).status == status
    assert count(raw_upstream, model) == 1


def test_silence_is_not_asked_again(relays: Any, raw_upstream: RawUpstream) -> None:
    model = raw_upstream.plays(head("chunked") + chunk(COMMENT), end="hold")
    seen = complete(relays, model, path=COMPLETIONS)
    assert b"idle_timeout" in seen.body
    assert count(raw_upstream, model) == 1


@pytest.mark.parametrize(("setup", "asked"), [("never_again", 1), ("plain", 2), ("three_more", 4)])
def test_how_often_is_bounded_and_then_the_status_is_told(
    relays: Any, raw_upstream: RawUpstream, setup: str, asked: int
) -> None:
    model = raw_upstream.plays(answer("length", b'{"a": 1}', status=503, content_type="application/json"))
    seen = chat(relays, model, path=f"/{setup}/chat")
    assert (seen.status, seen.body) == (503, b'{"a": 1}')
    assert count(raw_upstream, model) == asked


def test_the_waits_of_one_request_grow(relays: Any, raw_upstream: RawUpstream) -> None:
    model = raw_upstream.plays(*reset_after(COMMENT), end="reset")
    seen = chat(relays, model, path="/three_more/chat")
    assert (seen.status, seen.body.count(b"upstream_truncated")) == (502, 1)
    at = [asked.at for asked in raw_upstream.asked_for(model)]
    waits = [later - earlier for earlier, later in zip(at, at[1:])]
    assert len(waits) == 3
    assert all(wait >= FIRST_WAIT_SECONDS * 2**n / 2 for n, wait in enumerate(waits))


@pytest.mark.parametrize(("setup", "again"), [("nowhere", 0), ("away", 2)])
def test_a_refused_connection_is_tried_again_and_told_in_the_end(relays: Any, setup: str, again: int) -> None:
    before = figures(relays)["upstream_retries"]
    seen = chat(relays, "tick", path=f"/{setup}/chat")
    assert seen.status == 502 and b"upstream_refused" in seen.body
    assert figures(relays)["upstream_retries"] == before + again


WHOLE = b'{"choices": []}'


@pytest.mark.parametrize(
    "first",
    [
        ((answer("length", b"{}", status=503, content_type="application/json"),), "keep"),
        ((head("length", length=len(WHOLE), content_type="application/json"),), "reset"),
        ((), "fin"),
    ],
    ids=["503", "cut before its body", "no answer"],
)
def test_an_answer_that_does_not_stream_is_asked_for_again_too(
    relays: Any, raw_upstream: RawUpstream, first: tuple[tuple[bytes, ...], str]
) -> None:
    steps, how = first
    whole = answer("length", WHOLE, content_type="application/json")
    model = first_then(raw_upstream, raw_upstream.plays(*steps, end=how), whole)
    seen = complete(relays, model, path=COMPLETIONS, stream=False)
    assert (seen.status, seen.body, count(raw_upstream, model)) == (200, WHOLE, 2)


def test_an_answer_that_does_not_stream_is_not_asked_for_again_once_it_has_begun(
    relays: Any, raw_upstream: RawUpstream
) -> None:
    cut = head("length", length=len(WHOLE), content_type="application/json") + WHOLE[:5]
    model = raw_upstream.plays(cut, end="reset")
    assert complete(relays, model, path=COMPLETIONS, stream=False).status == 502
    assert count(raw_upstream, model) == 1


CALL = {"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}
TOOL = says({"index": 0, "delta": {"tool_calls": [CALL]}})


def test_a_call_of_a_tool_is_an_answer_also_where_it_is_not_shown(relays: Any, raw_upstream: RawUpstream) -> None:
    model = raw_upstream.plays(head("chunked") + chunk(ROLE + TOOL), Pause(0.05), end="reset")
    seen = chat(relays, model, path=CHAT)
    assert count(raw_upstream, model) == 1
    assert b"upstream_truncated" in seen.body


def test_the_beginning_of_an_answer_is_none_where_it_is_not_shown(relays: Any, raw_upstream: RawUpstream) -> None:
    begins = raw_upstream.plays(head("chunked") + chunk(ROLE), Pause(0.05), end="reset")
    model = first_then(raw_upstream, begins, OK)
    assert text(chat(relays, model, path=CHAT)) == "a"
    assert count(raw_upstream, model) == 2


def test_an_answer_that_does_not_stream_and_fails_twice_is_a_status(relays: Any, raw_upstream: RawUpstream) -> None:
    busy = answer("length", b'{"a": 1}', status=429, headers=("Retry-After: 0",), content_type="application/json")
    model = raw_upstream.plays(busy)
    seen = complete(relays, model, path=COMPLETIONS, stream=False)
    assert (seen.status, seen.header("Retry-After"), seen.body) == (429, "0", b'{"a": 1}')
    assert count(raw_upstream, model) == 2


@pytest.fixture
def busy(raw_upstream: RawUpstream) -> Iterator[str]:
    """A model that is there after two seconds."""
    first = answer("length", b"{}", status=503, headers=("Retry-After: 2",), content_type="application/json")
    yield first_then(raw_upstream, raw_upstream.plays(first), OK)


def test_heartbeats_go_on_while_it_is_waited(relays: Any, raw_upstream: RawUpstream, busy: str) -> None:
    seen = chat(relays, busy, path="/beats/chat")
    first, second = raw_upstream.asked_for(busy)
    meanwhile = [comment for comment in seen.comments if first.at < comment.at < second.at]
    assert len(meanwhile) > 5
    assert text(seen) == "a"


def test_who_leaves_while_it_is_waited_is_not_asked_for_again(
    relays: Any, raw_upstream: RawUpstream, busy: str
) -> None:
    before = ended_by_going(relays)
    with open_exchange(post(relays, "/beats/chat", {"q": "hello", "model": busy})) as exchange:
        next(exchange.chunks())
        wait_for(lambda: count(raw_upstream, busy) == 1)
        exchange.leave()
    wait_for(lambda: ended_by_going(relays) == before + 1)
    asked_at = raw_upstream.asked_for(busy)[0].at
    control = chat(relays, first_then(raw_upstream, *fresh(raw_upstream)), path="/beats/chat")
    assert text(control) == "a"  # asked later, and by now asked again
    assert time.monotonic() - asked_at > 2
    assert count(raw_upstream, busy) == 1


def fresh(upstream: RawUpstream) -> tuple[str, bytes]:
    first = answer("length", b"{}", status=503, headers=("Retry-After: 2",), content_type="application/json")
    return upstream.plays(first), OK


def ended_by_going(server: Any) -> int:
    return int(figures(server)["ended"].get("client_gone", 0))


def figures(server: Any) -> Any:
    with open_stream(server.url + "/plain/stats") as stream:
        return stream.json()


def test_it_is_counted_and_told_in_the_log(relays: Any, raw_upstream: RawUpstream) -> None:
    before = figures(relays)["upstream_retries"]
    model = first_then(raw_upstream, raw_upstream.plays(*reset_after(COMMENT), end="reset"), OK)
    assert text(chat(relays, model, path=CHAT)) == "a"
    assert figures(relays)["upstream_retries"] == before + 1
    assert "upstream_truncated" in relays.errors() and "asked again in 0." in relays.errors()
