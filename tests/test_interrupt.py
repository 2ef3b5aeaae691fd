"""A thread is interrupted in its own wait for a socket, and in nobody else's."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any, Iterator

import pytest
import urllib3
from raw_upstream import Pause, RawUpstream, answer

from flaskstream.interrupt import Interrupts, waits_for, waits_no_longer
from flaskstream.native import is_patched
from flaskstream.pump import ENDED, Pump
from flaskstream.upstream import Upstream

PATIENCE = 10.0


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def wait_in_a_thread(interrupts: Interrupts, ours: socket.socket, ended: threading.Event) -> None:
    started = threading.Event()

    def wait() -> None:
        waits_for(ours, lambda: ours)
        started.set()
        assert ours.recv(1) == b""
        ended.set()

    threading.Thread(target=interrupts.run, args=(wait,), daemon=True).start()
    assert started.wait(PATIENCE)


def test_a_wait_is_ended(pair: Any) -> None:
    interrupts, ended = Interrupts(), threading.Event()
    wait_in_a_thread(interrupts, pair[0], ended)
    interrupts.interrupt()
    assert ended.wait(PATIENCE)


def test_a_wait_that_begins_after_the_interrupt_is_ended_too(pair: Any) -> None:
    interrupts, ended = Interrupts(), threading.Event()
    interrupts.interrupt()
    wait_in_a_thread(interrupts, pair[0], ended)
    assert ended.wait(PATIENCE)


def test_a_socket_that_is_waited_for_no_longer_is_left_alone(pair: Any) -> None:
    ours, theirs = pair
    interrupts = Interrupts()

    def wait() -> None:
        waits_for(ours, lambda: ours)
        waits_no_longer(ours)

    interrupts.run(wait)
    interrupts.interrupt()
    theirs.sendall(b"x")
    assert ours.recv(1) == b"x"


def test_who_leaves_does_not_end_the_next_request_on_the_same_connection(
    upstream: Upstream, raw_upstream: RawUpstream
) -> None:
    """The first answer is read in one piece, so its connection is the second one's while it is still handed on."""
    assert not is_patched()
    events = [b"data: a\n\n"] * 50
    first = raw_upstream.plays(answer("length", *events))
    whole = answer("length", *events)
    second = raw_upstream.plays(whole[:-297], Pause(0.3), whole[-297:])

    def slowly(model: str) -> Iterator[bytes]:
        with upstream.open("chat/completions", {"model": model}) as opened:
            for chunk in opened.chunks():
                for event in chunk.split(b"\n\n"):
                    yield event
                    time.sleep(0.01)

    one = Pump(slowly(first))
    assert one.take(PATIENCE) == b"data: a"
    other = Pump(slowly(second))
    assert other.take(PATIENCE) == b"data: a"
    one.close()
    seen = []
    while (item := other.take(PATIENCE)) is not ENDED:
        seen.append(item)
    assert seen.count(b"data: a") == 49  # and no error
    connections = {asked.connection for model in (first, second) for asked in raw_upstream.asked_for(model)}
    if hasattr(urllib3.HTTPResponse, "read1"):
        assert len(connections) == 1  # older ones keep the connection until the answer is closed
