"""`Upstream` when there is no answer, or an answer that is an error: against a server that plays bytes."""

from __future__ import annotations

import gzip
import time
from contextlib import closing

import pytest
from answer_vectors import DONE
from conftest import API_KEY
from raw_upstream import FRAMINGS, Pause, RawUpstream, answer, body_of, chunk, head

from flaskstream.errors import (
    MAX_ERROR_BODY_BYTES,
    IdleTimeout,
    UpstreamRefused,
    UpstreamStatus,
    UpstreamTimeout,
    UpstreamTruncated,
)
from flaskstream.upstream.client import ERROR_BODY_SECONDS, Upstream

PROBLEM = b'{"error": {"message": "no"}}'
every_framing = pytest.mark.parametrize("framing", FRAMINGS)


def end_of(framing: str) -> str:
    return "keep" if framing in ("chunked", "length") else "fin"


def refusal(upstream: Upstream, model: str) -> UpstreamStatus:
    with pytest.raises(UpstreamStatus) as caught:
        body_of(upstream, model)
    return caught.value


# No answer


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/v1", "http://no-such-host.invalid/v1"], ids=["refused", "no_name"])
def test_without_a_connection_the_upstream_refused(url: str) -> None:
    with closing(Upstream(url)) as upstream, pytest.raises(UpstreamRefused) as caught:
        upstream.open("chat/completions", {})
    assert (caught.value.code, caught.value.status) == ("upstream_refused", 502)


def test_tls_to_a_plain_port_is_refused(raw_upstream: RawUpstream) -> None:
    url = raw_upstream.url.replace("http:", "https:")
    with closing(Upstream(url)) as upstream, pytest.raises(UpstreamRefused):
        upstream.open("chat/completions", {})


@pytest.mark.parametrize("end", ["fin", "reset"])
@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 20", b"hello\r\n\r\n"], ids=["nothing", "half_a_head", "no_http"])
def test_an_end_before_the_head_is_refused(
    upstream: Upstream, raw_upstream: RawUpstream, said: bytes, end: str
) -> None:
    model = raw_upstream.plays(*filter(None, [said]), end=end)
    with pytest.raises(UpstreamRefused):
        body_of(upstream, model)
    assert len(raw_upstream.asked_for(model)) == 1  # a POST is never sent twice


def test_silence_before_the_head_is_a_timeout(upstream: Upstream, raw_upstream: RawUpstream) -> None:
    model = raw_upstream.plays(end="hold")
    with pytest.raises(UpstreamTimeout) as caught:
        body_of(upstream, model)
    assert (caught.value.code, caught.value.status) == ("upstream_timeout", 504)
    assert raw_upstream.wait_until_over(model).left_at is not None
    assert len(raw_upstream.asked_for(model)) == 1


@every_framing
def test_silence_after_the_head_is_an_idle_timeout(upstream: Upstream, raw_upstream: RawUpstream, framing: str) -> None:
    model = raw_upstream.plays(head(framing, length=9), end="hold")
    with pytest.raises(IdleTimeout) as caught:
        body_of(upstream, model)
    assert caught.value.code == "idle_timeout"
    assert raw_upstream.wait_until_over(model).left_at is not None


def test_bytes_that_come_often_enough_may_come_for_longer_than_the_idle_limit(raw_upstream: RawUpstream) -> None:
    idle = 1.0
    steps = [head("close"), *[b": ping\n\n", Pause(idle / 5)] * 7]
    with closing(Upstream(raw_upstream.url, idle_timeout=idle)) as upstream:
        assert body_of(upstream, raw_upstream.plays(*steps, end="fin")) == b": ping\n\n" * 7


@pytest.mark.parametrize("how", ["fin", "reset"])
@pytest.mark.parametrize(
    "cut",
    [
        head("length", length=9) + b"half",
        head("length", "Content-Encoding: gzip", length=99) + gzip.compress(b"whole"),
        head("chunked") + b"9\r\nhalf",
        head("chunked") + chunk(b"whole"),
        head("chunked") + chunk(b"whole") + b"4",
    ],
    ids=["length", "length_gzip", "chunk", "no_final_chunk", "half_a_size"],
)
def test_a_body_that_ends_before_its_framing_is_truncated(
    upstream: Upstream, raw_upstream: RawUpstream, cut: bytes, how: str
) -> None:
    with pytest.raises(UpstreamTruncated) as caught:
        body_of(upstream, raw_upstream.plays(cut, end=how))
    assert caught.value.code == "upstream_truncated"


# Error statuses


@every_framing
@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
def test_an_error_status_keeps_its_body(
    upstream: Upstream, raw_upstream: RawUpstream, status: int, framing: str
) -> None:
    headers = ("Retry-After: 7", "X-Request-Id: abc", "Set-Cookie: a=b", "Server: x", "Keep-Alive: timeout=5")
    played = answer(framing, PROBLEM, status=status, headers=headers, content_type="application/json")
    started = time.monotonic()
    error = refusal(upstream, raw_upstream.plays(played, end=end_of(framing)))
    assert time.monotonic() - started < ERROR_BODY_SECONDS  # the connection that is kept is not waited for
    assert (error.status, error.body, error.content_type) == (status, PROBLEM, "application/json")
    timing = error.headers.pop("Server-Timing")
    assert timing.startswith("upstream;dur=")
    assert error.headers == {"Retry-After": "7", "X-Request-Id": "abc"}


def test_a_redirect_is_not_followed_and_not_told(upstream: Upstream, raw_upstream: RawUpstream) -> None:
    target = raw_upstream.plays(answer("length", DONE))
    model = raw_upstream.plays(answer("length", b"moved", status=307, headers=(f"Location: /v1/{target}",)))
    error = refusal(upstream, model)
    assert (error.status, error.body, error.headers) == (502, b"", {})
    assert not raw_upstream.asked_for(target)
    assert [asked.head for asked in raw_upstream.asked if target.encode() in asked.head] == []


@every_framing
def test_a_large_error_body_is_cut(upstream: Upstream, raw_upstream: RawUpstream, framing: str) -> None:
    page = answer(framing, b"x" * 200_000, status=500, content_type="text/html")
    assert refusal(upstream, raw_upstream.plays(page, end=end_of(framing))).body == b"x" * MAX_ERROR_BODY_BYTES


@pytest.mark.parametrize("drips", [0, 1000], ids=["silence", "drips"])
def test_an_error_body_without_end_is_not_waited_for(raw_upstream: RawUpstream, drips: int) -> None:
    steps = [head("close", status=500), b"it", *[Pause(0.05), b"!"] * drips]
    model = raw_upstream.plays(*steps, end="hold")
    with closing(Upstream(raw_upstream.url, idle_timeout=60)) as upstream:
        assert refusal(upstream, model).body.rstrip(b"!") == b"it"
    asked = raw_upstream.wait_until_over(model)
    assert asked.left_at is not None
    assert ERROR_BODY_SECONDS * 0.9 < asked.left_at - asked.at < ERROR_BODY_SECONDS * 4


@pytest.mark.parametrize("before", [0, MAX_ERROR_BODY_BYTES - 10], ids=["at_the_start", "at_the_limit"])
def test_the_api_key_is_hidden_in_an_error_body(upstream: Upstream, raw_upstream: RawUpstream, before: int) -> None:
    page = answer("length", b"x" * before + API_KEY.encode() + b"x" * 90, status=401)
    body = refusal(upstream, raw_upstream.plays(page)).body
    assert b"sk-" not in body
    assert b"***" in body


def test_half_an_error_body_is_better_than_none(upstream: Upstream, raw_upstream: RawUpstream) -> None:
    model = raw_upstream.plays(head("length", status=500, length=99) + b"half", end="reset")
    assert refusal(upstream, model).body == b"half"
