"""A worker is told to stop while streams are open: each ends with a word and a proper end, and the master goes."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from typing import Any, Callable
from urllib.parse import urlsplit

import pytest
from relay_client import chat, complete, end, text

from flaskstream.doctor.measure import Recording
from flaskstream.lab.gunicorn import GunicornProcess
from flaskstream.lab.processes import ModelProcess

GRACE = 4
DRAIN = GRACE / 4
ENDLESS = "tick?tokens=400&interval_ms=50"
SHORT = "tick?tokens=10&interval_ms=50"


def gunicorn(model: ModelProcess, *arguments: str) -> GunicornProcess:
    server = GunicornProcess({"upstream": model.url}, ("--graceful-timeout", str(GRACE), *arguments))
    server.wait_until_it_answers()
    return server


class Clients:
    """Streams that are read side by side."""

    def __init__(self, *calls: Callable[[], Recording]) -> None:
        self._seen: list[Any] = [None] * len(calls)
        self._threads = [threading.Thread(target=self._read, args=pair) for pair in enumerate(calls)]
        for thread in self._threads:
            thread.start()

    def _read(self, place: int, call: Callable[[], Recording]) -> None:
        self._seen[place] = call()

    def recordings(self) -> list[Recording]:
        for thread in self._threads:
            thread.join(30)
        return self._seen


def wait_until_streaming(model: ModelProcess, count: int) -> None:
    deadline = time.monotonic() + 10
    while sum(request["ended"] is None and request["sent_tokens"] > 0 for request in model.requests()) < count:
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("worker", ["gevent", "gthread"])
def test_open_streams_end_with_a_word_and_a_proper_end(model: ModelProcess, worker: str) -> None:
    arguments = () if worker == "gevent" else ("--worker-class", "gthread", "--threads", "8")
    with gunicorn(model, *arguments) as server:
        model.forget()
        clients = Clients(
            *[lambda: chat(server, ENDLESS)] * 3,
            lambda: chat(server, SHORT),
        )
        wait_until_streaming(model, 4)
        os.kill(server.pid, signal.SIGTERM)
        told_at = time.monotonic()
        *long, short = clients.recordings()
        for seen in long:
            assert end(seen).json()["code"] == "shutting_down"
            assert seen.framing_complete
            assert DRAIN * 0.5 < seen.ended_at - told_at < GRACE
        assert end(short).event == "done"  # it could finish
        server.wait_until_it_ends(GRACE)


def test_a_connection_that_is_kept_does_not_hold_the_worker_up(model: ModelProcess) -> None:
    keepalive = 3 * GRACE
    with gunicorn(model, "--keep-alive", str(keepalive)) as server:
        model.forget()
        with socket.create_connection(("127.0.0.1", urlsplit(server.url).port)) as kept:
            kept.sendall(b"GET /stream/chat?q=hello HTTP/1.1\r\nHost: x\r\n\r\n")
            wait_until_streaming(model, 1)
            os.kill(server.pid, signal.SIGTERM)
            body = b""
            for data in iter(lambda: kept.recv(65536), b""):  # to its FIN, which the server sends first
                body += data
            assert body.endswith(b"0\r\n\r\n")
            server.wait_until_it_ends(GRACE)


def test_a_client_of_the_upstream_s_own_route_is_told_in_its_own_words_and_cut(model: ModelProcess) -> None:
    with gunicorn(model) as server:
        model.forget()
        clients = Clients(lambda: complete(server, ENDLESS))
        wait_until_streaming(model, 1)
        os.kill(server.pid, signal.SIGTERM)
        (seen,) = clients.recordings()
        assert seen.events[-1].event.json()["error"]["code"] == "shutting_down"
        assert not seen.framing_complete


def test_a_reload_ends_the_streams_of_the_old_workers_and_the_new_ones_answer(model: ModelProcess) -> None:
    with gunicorn(model) as server:
        model.forget()
        clients = Clients(lambda: chat(server, ENDLESS))
        wait_until_streaming(model, 1)
        os.kill(server.pid, signal.SIGHUP)
        (seen,) = clients.recordings()
        assert end(seen).json()["code"] == "shutting_down"
        assert end(chat(server, SHORT)).event == "done"


def test_a_worker_that_is_replaced_ends_its_streams_too(model: ModelProcess) -> None:
    with gunicorn(model, "--max-requests", "3") as server:
        model.forget()
        clients = Clients(lambda: chat(server, ENDLESS))
        wait_until_streaming(model, 1)
        for _ in range(3):
            server.wait_until_it_answers()
        (seen,) = clients.recordings()
        assert end(seen).json()["code"] == "shutting_down"
        assert seen.framing_complete
        assert text(chat(server, SHORT)).startswith("Each word")


def test_a_killed_worker_leaves_streams_that_are_visibly_cut(model: ModelProcess) -> None:
    with gunicorn(model) as server:
        model.forget()
        clients = Clients(lambda: chat(server, ENDLESS), lambda: complete(server, ENDLESS))
        wait_until_streaming(model, 2)
        os.killpg(server.pid, signal.SIGKILL)
        for seen in clients.recordings():
            assert not seen.framing_complete
            assert all(timed.event.event == "message" for timed in seen.events)


def test_a_stream_that_has_no_token_yet_is_a_real_status(model: ModelProcess) -> None:
    with gunicorn(model) as server:
        model.forget()
        clients = Clients(lambda: chat(server, "tick?silence_after=0"))
        deadline = time.monotonic() + 10
        while not model.requests():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        os.kill(server.pid, signal.SIGTERM)
        (seen,) = clients.recordings()
        assert (seen.status, json.loads(seen.body)["error"]["code"]) == (503, "shutting_down")
        assert seen.header("Retry-After") and seen.framing_complete
