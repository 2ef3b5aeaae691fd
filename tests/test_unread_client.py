"""A client that reads nothing while its upstream has 200 MB to say costs little, slows nobody, and leaves no trace."""

from __future__ import annotations

import json
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Any, Iterator
from urllib.parse import urlsplit

import pytest
from answer_vectors import DONE, said
from raw_upstream import FINAL_CHUNK, PATIENCE, Pause, RawUpstream, chunk, head, wait_for
from relay_client import CHAT, COMPLETIONS, chat, complete

from flaskstream.lab.gunicorn import GunicornProcess

TICK_SECONDS = 0.2
TICKS = 8
PUSHED_BYTES = 200_000_000
MOST_BYTES = 20_000_000
THREADS = 8

TESTS = os.path.dirname(os.path.abspath(__file__))

FLOODS = {
    "small events, many at a time": said("word ") * 600,
    "events of 64 KB": said("x" * 65536),
}


@pytest.fixture(scope="module", params=["gevent", "gthread"])
def server(request: Any, raw_upstream: RawUpstream) -> Iterator[GunicornProcess]:
    threads = ("--worker-class", "gthread", "--threads", str(THREADS))
    arguments, more = ((), {}) if request.param == "gevent" else (threads, {"config": "apps/gunicorn_plain.py"})
    with GunicornProcess({"upstream": raw_upstream.url}, arguments, folder=TESTS, **more) as process:
        process.wait_until_it_answers()
        with ThreadPoolExecutor(THREADS) as pool:  # so that gunicorn has started all of its threads
            slow = raw_upstream.plays(head("chunked"), Pause(0.5), chunk(said("a")), chunk(DONE) + FINAL_CHUNK)
            list(pool.map(lambda _: chat(process, slow), range(THREADS)))
        yield process


def worker_of(server: GunicornProcess) -> int:
    with open(f"/proc/{server.pid}/task/{server.pid}/children") as children:
        (worker,) = children.read().split()
    return int(worker)


def peak_bytes(pid: int) -> int:
    """The most memory that was resident since `forget_peak`."""
    with open(f"/proc/{pid}/status") as status:
        (kilobytes,) = [line.split()[1] for line in status if line.startswith("VmHWM:")]
    return int(kilobytes) * 1024


def forget_peak(pid: int) -> None:
    with open(f"/proc/{pid}/clear_refs", "w") as clear:
        clear.write("5")


def held_by(pid: int) -> tuple[int, int]:
    """How many descriptors and threads a process has."""
    return len(os.listdir(f"/proc/{pid}/fd")), len(os.listdir(f"/proc/{pid}/task"))


def ask_and_never_read(server: GunicornProcess, path: str, model: str) -> socket.socket:
    body = json.dumps({"q": "hello", "messages": [{}], "stream": True, "model": model}).encode()
    lines = (f"POST {path} HTTP/1.1", "Host: a", "Content-Type: application/json", f"Content-Length: {len(body)}")
    client = socket.create_connection(("127.0.0.1", urlsplit(server.url).port), timeout=PATIENCE)
    client.sendall("\r\n".join([*lines, "", ""]).encode() + body)
    return client


def gaps(server: GunicornProcess, path: str, ticks: str) -> list[float]:
    seen = (chat if path == CHAT else complete)(server, ticks)
    at = [timed.at for timed in seen.events]
    assert len(at) == TICKS + 1
    return [later - earlier for earlier, later in zip(at, at[1:])][:-1]


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_it_costs_little_and_slows_nobody_and_nothing_is_left_of_it(
    server: GunicornProcess, raw_upstream: RawUpstream, path: str, flood: bytes
) -> None:
    tick = (chunk(said("word ")), Pause(TICK_SECONDS))
    ticks = raw_upstream.plays(head("chunked"), *tick * TICKS, chunk(DONE) + FINAL_CHUNK)
    endless = raw_upstream.plays(head("chunked"), *[chunk(flood)] * (PUSHED_BYTES // len(flood)), end="hold")
    worker = worker_of(server)
    alone = gaps(server, path, ticks)
    base = held_by(worker)
    forget_peak(worker)
    before = peak_bytes(worker)
    with ask_and_never_read(server, path, endless):
        beside = gaps(server, path, ticks)
        assert peak_bytes(worker) - before < MOST_BYTES
        (asked,) = raw_upstream.asked_for(endless)
        assert not asked.over
    assert median(beside) < median(alone) + TICK_SECONDS / 2
    assert max(beside) < max(alone) + 2.5 * TICK_SECONDS
    assert raw_upstream.wait_until_over(endless).left_at is not None
    wait_for(lambda: all(now <= before for now, before in zip(held_by(worker), base)))
