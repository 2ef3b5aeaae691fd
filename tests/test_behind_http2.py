"""Behind a real HTTP/2 front, nginx, which asks us by HTTP/1.1: what holds for clients of ours holds for its streams.

Nothing in its configuration speaks of buffering: the header of the answer does.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import time
from typing import Any, Iterator

import pytest
from leaving import left_at, wait_until_asked
from listeners import Listener, listening
from proxies import NginxProcess
from raw_client import logged
from relay_client import CHAT

from flaskstream.lab.gunicorn import GunicornProcess
from flaskstream.lab.model.script import Script
from flaskstream.lab.processes import ModelProcess

httpx = pytest.importorskip("httpx")
pytest.importorskip("h2", reason="h2, HTTP/2 for httpx, is not installed")
from http2_client import Answer, Http2Connection  # noqa: E402 - needs h2

INTERVAL = 0.15  # seconds between two tokens
TOKENS = 12
SPEAKING = f"tokens={TOKENS}&interval_ms={INTERVAL * 1000:.0f}"
AT_ONCE = 1.0
"""Seconds; a busy machine takes its time. The heartbeat, by whose writing a going would be noticed, comes after 15."""
READ_TIMEOUT = 2
"""Seconds for which nginx lets the server say nothing."""

FRONT = """
server {{
    listen {{listen}} ssl http2;
    ssl_certificate {certificate};
    ssl_certificate_key {certificate};
    location / {{
        proxy_pass http://127.0.0.1:{port};
        proxy_http_version 1.1;
        {more}
    }}
}}
"""


def in_front_of(server: Listener, certificate: str, more: str = "") -> NginxProcess:
    return NginxProcess(FRONT.format(certificate=certificate, port=server.port, more=more))


@pytest.fixture(scope="module", params=["gevent", "gthread"])
def server(request: Any, model: ModelProcess) -> Iterator[Listener]:
    with listening(request.param, model.url) as listener:
        yield listener


@pytest.fixture(scope="module")
def front(server: Listener, certificate: str) -> Iterator[Listener]:
    with in_front_of(server, certificate) as nginx:
        yield Listener(nginx.port, certificate)
        assert "[alert]" not in nginx.errors()


@pytest.fixture
def connection(front: Listener) -> Iterator[Http2Connection]:
    with Http2Connection(front.port, front.context) as connection:
        yield connection


@pytest.fixture
def name(request: Any) -> str:
    """A name for the model that tells this test's requests from the others in its log."""
    return "".join(character for character in request.node.name if character.isalnum())


def streamed(front: Listener, version: str) -> list[float]:
    """Ask with httpx; return when each token came."""
    url, asked = f"https://127.0.0.1:{front.port}{CHAT}", {"q": "hello", "model": f"tick?{SPEAKING}"}
    arrivals = []
    with httpx.Client(http2=version == "HTTP/2", verify=front.context, trust_env=False) as client, client.stream(
        "POST", url, json=asked
    ) as response:
        for line in response.iter_lines():
            if line.startswith('data: {"t"'):
                arrivals.append(time.monotonic())
    assert (response.http_version, response.status_code, len(arrivals)) == (version, 200, TOKENS)
    return arrivals


def gaps(arrivals: list[float]) -> list[float]:
    return [later - earlier for earlier, later in zip(arrivals, arrivals[1:])]


def came_one_by_one(arrivals: list[float]) -> bool:
    return INTERVAL / 2 < statistics.median(gaps(arrivals)) < INTERVAL * 2


@pytest.mark.parametrize("version", ["HTTP/2", "HTTP/1.1"])
def test_tokens_come_one_by_one(front: Listener, version: str) -> None:
    assert came_one_by_one(streamed(front, version))


def test_without_our_header_they_would_be_held_to_the_end(server: Listener, certificate: str) -> None:
    with in_front_of(server, certificate, "proxy_ignore_headers X-Accel-Buffering;") as nginx:
        # To a client of HTTP/2, nginx 1.22 hands on at once what it buffers.
        arrivals = streamed(Listener(nginx.port, certificate), "HTTP/1.1")
    assert arrivals[-1] - arrivals[0] < TOKENS * INTERVAL / 2


def test_many_streams_on_one_connection_come_side_by_side(connection: Http2Connection, name: str) -> None:
    answers = [connection.ask(f"{name}{n}?{SPEAKING}") for n in range(6)]
    connection.wait_until(lambda: all(answer.ended for answer in answers))
    for answer in answers:
        assert (answer.is_done, answer.text) == (True, Script(tokens=TOKENS).text)
        assert came_one_by_one(answer.arrivals)
    assert max(answer.arrivals[0] for answer in answers) < min(answer.arrivals[-1] for answer in answers)


@pytest.mark.parametrize("script", ["interval_ms=50&silence_after=2", "tokens=3000&interval_ms=1"])
def test_a_reset_stream_alone_leaves_its_upstream(
    connection: Http2Connection, model: ModelProcess, name: str, script: str
) -> None:
    leaving = connection.ask(f"{name}?{script}")
    staying = [connection.ask(f"{name}-{n}?{SPEAKING}") for n in range(3)]
    connection.wait_until(lambda: all(len(answer.events) >= 2 for answer in [leaving, *staying]))
    gone_at = time.monotonic()
    connection.reset(leaving)
    connection.wait_until(lambda: all(answer.ended for answer in staying))
    assert left_at(model, name) - gone_at < AT_ONCE
    for n, answer in enumerate(staying):
        assert answer.is_done and came_one_by_one(answer.arrivals)
        assert answer.arrivals[-1] > gone_at  # it went on
        assert logged(model, f"{name}-{n}?{SPEAKING}")["ended"] == "complete"


def test_a_stream_that_is_reset_before_the_upstream_has_answered_leaves_it(
    connection: Http2Connection, model: ModelProcess, name: str
) -> None:
    answer = connection.ask(f"{name}?slow_headers_ms=60000")
    wait_until_asked(model, name)
    gone_at = time.monotonic()
    connection.reset(answer)
    assert left_at(model, name) - gone_at < AT_ONCE


def test_a_connection_that_closes_leaves_all_its_upstreams(
    connection: Http2Connection, model: ModelProcess, name: str
) -> None:
    answers = [connection.ask(f"{name}-{n}?interval_ms=50&silence_after=2") for n in range(4)]
    connection.wait_until(lambda: all(len(answer.events) >= 2 for answer in answers))
    gone_at = time.monotonic()
    connection.close()
    assert all(left_at(model, f"{name}-{n}") - gone_at < AT_ONCE for n in range(4))


def test_a_goodbye_ends_no_stream_and_the_close_behind_it_all(
    connection: Http2Connection, model: ModelProcess, name: str
) -> None:
    whole = connection.ask(f"{name}-whole?{SPEAKING}")
    silent = connection.ask(f"{name}-silent?interval_ms=50&silence_after=2")
    connection.wait_until(lambda: min(len(whole.events), len(silent.events)) >= 2)
    connection.say_goodbye()
    connection.wait_until(lambda: whole.ended is not None)
    assert whole.is_done and came_one_by_one(whole.arrivals)
    gone_at = time.monotonic()
    connection.close()
    assert 0 < left_at(model, f"{name}-silent") - gone_at < AT_ONCE


# Every request ends its half of the stream (END_STREAM): with its head, with its last bytes, or behind them.


def ended_with_its_head(connection: Http2Connection) -> Answer:
    return connection.begin("GET", f"{CHAT}?q=hello")


def ended_with_its_last_bytes(connection: Http2Connection) -> Answer:
    return connection.ask("tick")


def ended_in_a_frame_of_its_own(connection: Http2Connection) -> Answer:
    body = json.dumps({"q": "hello"}).encode()
    answer = connection.begin("POST", CHAT, length=len(body))
    connection.say(answer, body, is_last=False)
    connection.say(answer, b"", is_last=True)
    return answer


def test_a_client_that_has_said_all_is_not_taken_for_one_that_has_gone(connection: Http2Connection) -> None:
    asking = (ended_with_its_head, ended_with_its_last_bytes, ended_in_a_frame_of_its_own)
    answers = [ask(connection) for ask in asking]
    connection.wait_until(lambda: all(answer.ended for answer in answers))
    for answer in answers:
        assert (answer.is_done, answer.text) == (True, Script().text)
        assert answer.headers["content-type"] == "text/event-stream"


# nginx cuts a server that says nothing for its `proxy_read_timeout`.

SILENCES = {
    "before the upstream's head": f"slow_headers_ms={READ_TIMEOUT * 1500}&tokens=4",
    "in mid-answer": f"silence_after=2&silence_ms={READ_TIMEOUT * 1500}&tokens=4",
}


def test_heartbeats_carry_a_stream_over_a_silence_that_nginx_would_cut(
    model: ModelProcess, gunicorn: GunicornProcess, certificate: str
) -> None:
    settings = {"upstream": model.url, "heartbeat": "0.5", "status_grace": "0.5"}
    limit = f"proxy_read_timeout {READ_TIMEOUT};"
    with contextlib.ExitStack() as stack:
        beating = stack.enter_context(GunicornProcess(settings))
        beating.wait_until_it_answers()  # or its start would be the silence
        servers = [Listener.of(beating.url), Listener.of(gunicorn.url)]
        fronts = [stack.enter_context(in_front_of(server, certificate, limit)) for server in servers]
        kept, cut = after_a_silence([front.port for front in fronts], certificate)
        beating.kill()
    assert [answer.text for answer in kept if answer.is_done] == [Script(tokens=4).text] * len(SILENCES)
    # With heartbeats after 15 s, the default:
    assert [(answer.headers[":status"], answer.ended) for answer in cut] == [("504", "whole"), ("200", "reset")]


def after_a_silence(ports: list[int], certificate: str) -> list[list[Answer]]:
    """The answers to all silences, by port; they are silent at the same time."""
    connections = [Http2Connection(port, Listener(port, certificate).context) for port in ports]
    answers = [[connection.ask(f"tick?{script}") for script in SILENCES.values()] for connection in connections]
    for connection, asked in zip(connections, answers):
        connection.wait_until(lambda asked=asked: all(answer.ended for answer in asked))
        connection.close()
    return answers
