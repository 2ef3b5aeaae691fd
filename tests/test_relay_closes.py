"""The upstream is closed exactly once on every path, and its connection is used again where that is possible."""

from __future__ import annotations

import contextlib
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Iterator, Mapping

import pytest
from answer_vectors import DONE, STOP, event, said
from conftest import API_KEY
from raw_upstream import Pause, RawUpstream, answer, chunk, head, wait_for
from relay_client import chat, complete, end, text

from flaskstream.errors import FlaskStreamError, IdleTimeout, UpstreamError, UpstreamTruncated
from flaskstream.relay import TRAILING_SECONDS, Relay
from flaskstream.upstream import Upstream
from flaskstream.upstream.pool import KEPT_SECONDS

A = said("a")


class FakeAnswer:
    """An answer of these chunks, of which the last may be an error; notes what is done to it."""

    def __init__(self, chunks: list[Any], type_error: Exception | None = None) -> None:
        self._chunks = chunks
        self._type_error = type_error
        self.done: list[Any] = []
        self.forwarded_headers: Mapping[str, str] = {}

    def expect_stream(self, *types: str) -> None:
        if self._type_error:
            raise self._type_error

    def chunks(self) -> Iterator[bytes]:
        for item in self._chunks:
            if isinstance(item, Exception):
                raise item
            yield item

    def wait_at_most(self, seconds: float) -> None:
        self.done.append(seconds)

    def drain(self) -> None:
        self.done.append("drain")

    def close(self) -> None:
        self.done.append("close")

    def __enter__(self) -> FakeAnswer:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class FakeUpstream(Upstream):
    def __init__(self, opened: FakeAnswer) -> None:
        super().__init__("http://127.0.0.1", api_key=API_KEY)
        self._opened = opened

    def open(self, path: str, payload: Any, **how: Any) -> Any:
        return self._opened


PATHS = {
    "done": (FakeAnswer([A, DONE]), ["drain", "close"]),
    "finish_reason": (FakeAnswer([A, STOP]), [TRAILING_SECONDS, "drain", "close"]),
    "cut": (FakeAnswer([A]), ["close"]),
    "broken": (FakeAnswer([A, UpstreamTruncated("x")]), ["close"]),
    "silent": (FakeAnswer([IdleTimeout("x")]), ["close"]),
    "silent_after_the_end": (FakeAnswer([A, STOP, IdleTimeout("x")]), [TRAILING_SECONDS, "drain", "close"]),
    "no_stream": (FakeAnswer([A, DONE], UpstreamError("html")), ["close"]),
    "a_mistake_of_ours": (FakeAnswer([A, KeyError("x")]), ["close"]),
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("route", ["tokens", "blocks"])
def test_every_path_closes_once(path: str, route: str) -> None:
    fake, expected = PATHS[path]
    fake.done.clear()
    items = getattr(Relay(FakeUpstream(fake), read=FakeAnswer.chunks), route)({})  # type: ignore[arg-type]
    assert fake.done == []  # nothing happens before the first item is asked for
    with contextlib.suppress(FlaskStreamError, KeyError):
        list(items)
    items.close()
    assert fake.done == expected


@pytest.mark.parametrize("route", ["tokens", "blocks"])
def test_leaving_closes_once_and_drains_nothing(route: str) -> None:
    fake = FakeAnswer([A, A, DONE])
    items = getattr(Relay(FakeUpstream(fake), read=FakeAnswer.chunks), route)({})  # type: ignore[arg-type]
    next(items)
    items.close()
    items.close()
    assert fake.done == ["close"]


def test_an_error_in_the_stream_closes_once() -> None:
    fake = FakeAnswer([A, event({"error": "x"}), DONE])
    relay = Relay(FakeUpstream(fake), read=FakeAnswer.chunks)  # type: ignore[arg-type]
    with pytest.raises(UpstreamError):
        list(relay.tokens({}))
    assert fake.done == ["close"]


def test_twenty_bad_requests_leave_nothing_behind(raw_gunicorn: Any, raw_upstream: RawUpstream) -> None:
    problem = answer("length", b'{"error": {}}', status=401, content_type="application/json")
    page = head("close", status=500, content_type="text/html") + b"<html>" * 10_000
    bad = [
        raw_upstream.plays(problem),
        raw_upstream.plays(page, end="hold"),
        raw_upstream.plays(head("chunked", content_type="text/html") + chunk(b"<html>oops</html>"), end="hold"),
        raw_upstream.plays(head("chunked") + chunk(A) + b"no chunk\r\n", end="hold"),
        raw_upstream.plays(head("chunked"), *[step for _ in range(600) for step in (chunk(A), Pause(0.02))]),
    ]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda model: chat(raw_gunicorn, model, stop_after=2), bad * 4))
    good = raw_upstream.plays(answer("chunked", A, DONE))
    started = time.monotonic()
    recording = chat(raw_gunicorn, good)
    assert (text(recording), end(recording).event) == ("a", "done")
    assert raw_upstream.asked_for(good)[0].at - started < KEPT_SECONDS  # it waited for nobody
    for model in bad:
        wait_for(lambda model=model: all(asked.over for asked in raw_upstream.asked_for(model)))
        assert len(raw_upstream.asked_for(model)) == 4


def test_a_client_that_leaves_while_the_upstream_speaks_takes_it_along(
    raw_gunicorn: Any, raw_upstream: RawUpstream
) -> None:
    """The next write tells. (A client that leaves in a silence is noticed at the next heartbeat.)"""
    for ask in (chat, complete):
        model = raw_upstream.plays(head("chunked"), *[step for _ in range(600) for step in (chunk(A), Pause(0.05))])
        assert len(ask(raw_gunicorn, model, stop_after=2).events) == 2
        asked = raw_upstream.wait_until_over(model)
        assert asked.left_at is not None


def test_connections_are_used_again_while_they_are_fresh(raw_gunicorn: Any, raw_upstream: RawUpstream) -> None:
    model = raw_upstream.plays(answer("chunked", A, DONE))
    for _ in range(10):
        assert text(chat(raw_gunicorn, model)) == "a"
    assert len({asked.connection for asked in raw_upstream.asked_for(model)}) < 10
    time.sleep(KEPT_SECONDS)
    chat(raw_gunicorn, model)
    *before, last = (asked.connection for asked in raw_upstream.asked_for(model))
    assert last not in before
