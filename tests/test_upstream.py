"""`Upstream`: its settings, the request that it sends, and what becomes of the connection."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from answer_vectors import DONE, said
from conftest import API_KEY
from raw_upstream import FINAL_CHUNK, RawUpstream, answer, body_of, chunk, head, wait_for

from flaskstream.errors import InvalidSetting, UpstreamError, UpstreamStatus
from flaskstream.upstream import Upstream

PROBLEM = b'{"error": {"message": "no"}}'


def test_the_request_asks_for_identity_and_says_who_asks(upstream: Upstream, raw_upstream: RawUpstream) -> None:
    model = raw_upstream.plays(answer("length", DONE))
    body_of(upstream, model)
    (asked,) = raw_upstream.asked_for(model)
    assert asked.head.startswith(b"POST /v1/chat/completions HTTP/1.1\r\n")
    assert asked.header("Accept-Encoding") == "identity"
    assert asked.header("Authorization") == f"Bearer {API_KEY}"
    assert asked.header("Content-Type") == "application/json"


def test_a_query_string_stays_behind_the_path_and_headers_are_sent(raw_upstream: RawUpstream) -> None:
    model = raw_upstream.plays(answer("length", DONE))
    url = raw_upstream.url + "/?api-version=1"
    with closing(Upstream(url, headers={"api-key": "k"})) as upstream:
        body_of(upstream, model)
    (asked,) = raw_upstream.asked_for(model)
    assert asked.head.startswith(b"POST /v1/chat/completions?api-version=1 HTTP/1.1\r\n")
    assert asked.header("api-key") == "k"
    assert asked.header("Authorization") is None


def test_no_cookie_is_kept_for_another_user_s_request(upstream: Upstream, raw_upstream: RawUpstream) -> None:
    model = raw_upstream.plays(answer("length", DONE, headers=("Set-Cookie: session=of-one-user; Path=/",)))
    body_of(upstream, model)
    body_of(upstream, model)
    assert [asked.header("Cookie") for asked in raw_upstream.asked_for(model)] == [None, None]


def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(
    raw_upstream: RawUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "")
    with closing(Upstream(raw_upstream.url)) as upstream:
        assert body_of(upstream, raw_upstream.plays(answer("length", DONE))) == DONE


@pytest.mark.parametrize(
    "setting",
    [
        {"base_url": "api.example.com/v1"},
        {"base_url": "ftp://api.example.com"},
        {"base_url": "http://"},
        {"base_url": "http://[::1"},
        {"base_url": "http://host:port/v1"},
        {"base_url": "http://api.example.com/v1#part"},
        {"base_url": "http://user:sk-secret@api.example.com/v1"},
        {"api_key": "sk-secret\n"},
        {"api_key": "sk-secret sk-secret"},
        {"api_key": "sk-secret-\u00e9"},
        {"idle_timeout": -1},
        {"idle_timeout": float("nan")},
        {"idle_timeout": True},
        {"connect_timeout": float("inf")},
        {"connect_timeout": "10"},
        {"connect_timeout": 3e6},
        {"idle_timeout": 1e300},
        {"idle_timeout": None},
        {"base_url": None},
        {"base_url": b"http://api.example.com"},
        {"base_url": "http://api.example.com:0/v1"},
        {"base_url": "http://api.example.com:0/v1?key=secret"},
        {"base_url": "http://api.example.com/v1 "},
        {"base_url": "http://api.example.com/v1\n"},
        {"base_url": "http://api example.com/v1"},
        {"api_key": b"sk-secret"},
        {"api_key": 0},
        {"model": ""},
        {"model": 5},
        {"model": b"tick"},
        {"headers": "X-Key: secret"},
        {"headers": ["X-Key: secret"]},
        {"headers": {"X-Key": 5}},
        {"headers": {"X-Key": None}},
        {"headers": {"X-Key": b"secret"}},
        {"headers": {"X-Key": "secret\n"}},
        {"headers": {"X-Key": "secret\r\nX-More: a"}},
        {"headers": {"X-Key": " secret"}},
        {"headers": {"X-Key": "secret \u20ac"}},
        {"headers": {"X-Key: secret": "a"}},
        {"headers": {"X Key": "a"}},
        {"headers": {"": "a"}},
        {"headers": {5: "a"}},
    ],
    ids=str,
)
def test_a_setting_that_does_not_work_is_refused_and_no_secret_is_quoted(setting: dict[str, Any]) -> None:
    with pytest.raises(InvalidSetting, match=f"^{next(iter(setting))}: .*expected .*got ") as caught:
        Upstream(**{"base_url": "http://127.0.0.1", **setting})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "steps",
    [
        (answer("length", said("a"), DONE),),
        (answer("chunked", said("a"), DONE),),
        (head("chunked") + chunk(said("a")), chunk(DONE), FINAL_CHUNK),
        (answer("length", PROBLEM, status=401),),
        (answer("chunked", PROBLEM, status=500),),
    ],
    ids=["length", "chunked", "final_chunk_alone", "error", "chunked_error"],
)
def test_a_connection_that_was_read_to_its_end_is_used_again(
    upstream: Upstream, raw_upstream: RawUpstream, steps: Any
) -> None:
    model = raw_upstream.plays(*steps)
    for _ in range(5):
        try:
            body_of(upstream, model)
        except UpstreamStatus:
            pass
    # A busy machine may take longer over the final chunk than the client is kept waiting for it. Never used again: 5.
    assert len({asked.connection for asked in raw_upstream.asked_for(model)}) < 5


def test_leaving_in_the_middle_closes_the_connection_at_once(upstream: Upstream, raw_upstream: RawUpstream) -> None:
    model = raw_upstream.plays(head("chunked") + chunk(said("a")), end="hold")
    with upstream.open("chat/completions", {"model": model}) as opened:
        assert next(opened.chunks()) == said("a")
        assert not raw_upstream.asked_for(model)[0].over
    assert raw_upstream.wait_until_over(model).left_at is not None


def test_nobody_is_connected_when_all_is_closed() -> None:
    with closing(RawUpstream()) as raw_upstream:
        with closing(Upstream(raw_upstream.url)) as upstream:
            assert body_of(upstream, raw_upstream.plays(answer("length", DONE))) == DONE
            assert raw_upstream.open_connections == 1
        wait_for(lambda: not raw_upstream.open_connections)


@pytest.mark.parametrize(
    ("content_type", "is_stream"),
    [
        ("text/event-stream", True),
        ("TEXT/Event-Stream ; charset=x", True),
        ("", True),
        ("application/octet-stream", True),
        ("text/html", False),
        ("text/plain", False),
        ("application/json", False),
    ],
)
def test_only_an_event_stream_or_no_type_at_all_is_a_stream(
    upstream: Upstream, raw_upstream: RawUpstream, content_type: str, is_stream: bool
) -> None:
    model = raw_upstream.plays(answer("length", DONE, content_type=content_type))
    with upstream.open("chat/completions", {"model": model}) as opened:
        if is_stream:
            opened.expect_stream()
        else:
            with pytest.raises(UpstreamError, match=content_type):
                opened.expect_stream()
