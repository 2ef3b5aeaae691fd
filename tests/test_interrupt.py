"""A thread is interrupted in its own wait for a socket, and in nobody else's."""

from __future__ import annotations

import contextlib
import select
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing
from typing import Any, Callable, Iterator

import pytest
import requests
import urllib3
from raw_upstream import Pause, RawUpstream, answer, wait_for

from flaskstream.interrupt import Interrupts, check, wait, waits_for, waits_no_longer
from flaskstream.lab.processes import environment
from flaskstream.native import is_patched
from flaskstream.pump import ENDED, Pump
from flaskstream.upstream import Upstream
from flaskstream.upstream.body import Body
from flaskstream.upstream.pool import FreshAdapter

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


def test_who_leaves_while_a_connection_is_given_back_leaves_it_alone(raw_upstream: RawUpstream) -> None:
    """From then on it may be somebody else's; urllib3 forgets only a moment later that it was the answer's."""
    model = raw_upstream.plays(answer("chunked", b"data: a\n\n"))
    interrupts = Interrupts()

    class Adapter(FreshAdapter):
        """Interrupts at the worst moment."""

        def get_connection_with_tls_context(self, *arguments: Any, **more: Any) -> Any:
            return watched(super().get_connection_with_tls_context(*arguments, **more))

        def get_connection(self, *arguments: Any, **more: Any) -> Any:  # requests before 2.32
            return watched(super().get_connection(*arguments, **more))

    def watched(pool: Any) -> Any:
        put = type(pool.pool).put

        def put_and_interrupt(*arguments: Any, **more: Any) -> None:
            put(pool.pool, *arguments, **more)
            interrupts.interrupt()

        pool.pool.put = put_and_interrupt
        return pool

    with requests.Session() as session:
        session.mount("http://", Adapter())

        def ask() -> None:
            with session.post(f"{raw_upstream.url}/x", json={"model": model}, stream=True) as response:
                body = Body(response.raw)
                while body.read():
                    pass

        interrupts.run(ask)
        ask()
    first, second = raw_upstream.asked_for(model)
    assert first.connection == second.connection


def test_a_sleep_is_ended_by_the_interrupt() -> None:
    interrupts, raised = Interrupts(), threading.Event()

    def sleep() -> None:
        try:
            wait(2 * PATIENCE)
        except GeneratorExit:
            raised.set()

    threading.Thread(target=interrupts.run, args=(sleep,), daemon=True).start()
    interrupts.interrupt()
    assert raised.wait(PATIENCE)


@pytest.mark.parametrize("ask", [check, lambda: wait(0)])
def test_who_asks_after_the_interrupt_is_told(ask: Callable[[], None]) -> None:
    interrupts = Interrupts()
    interrupts.run(ask)
    interrupts.interrupt()
    with pytest.raises(GeneratorExit):
        interrupts.run(ask)


def test_a_thread_that_nobody_interrupts_sleeps_and_checks_nothing() -> None:
    began = time.monotonic()
    wait(0.05)
    check()
    assert time.monotonic() - began >= 0.05
    Interrupts().run(lambda: wait(0.05))
    assert time.monotonic() - began >= 0.1


COLLECTED = """
import faulthandler, gc
from flaskstream.interrupt import Interrupts
faulthandler.dump_traceback_later(20, exit=True)

class Dropped:
    'What interrupts when the collector finds it, as a stream does.'
    def __init__(self, interrupts):
        self.interrupts = interrupts
        self.myself = self
    def __del__(self):
        self.interrupts.interrupt()
        self.interrupts.remove("x")

CALLS = (
    lambda one: one.add("y", list),
    lambda one: one.give_away(None),
    lambda one: one.interrupt(),
    lambda one: one.check(0.01),
)
gc.disable()
for allocations in range(1, 40):
    for call in CALLS:
        one = Interrupts()
        one.add("x", list)
        Dropped(one)
        gc.set_threshold(gc.get_count()[0] + allocations, 1000, 1000)
        gc.enable()
        try:
            call(one)
        except GeneratorExit:
            pass
        gc.disable()
        gc.collect()
"""


def test_what_the_collector_finds_in_the_middle_of_all_this_interrupts_it() -> None:
    subprocess.run([sys.executable, "-c", COLLECTED], check=True, timeout=6 * PATIENCE, env=environment())


@contextlib.contextmanager
def full_listener() -> Iterator[socket.socket]:
    """A listener that takes one connection, and no other before that is accepted: the next one waits for its turn."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        with socket.create_connection(listener.getsockname()):
            yield listener


def is_connecting_to(port: int) -> bool:
    """Whether a connection to this port is being made (SYN_SENT is 02)."""
    with open("/proc/net/tcp") as table:
        rows = [line.split() for line in table][1:]
    return any(row[2].endswith(f":{port:04X}") and row[3] == "02" for row in rows)


def test_a_request_is_not_sent_for_who_has_left_while_the_connection_was_being_made() -> None:
    with full_listener() as listener:
        port = listener.getsockname()[1]
        with closing(Upstream(f"http://127.0.0.1:{port}/v1")) as upstream:

            def ask() -> Iterator[Any]:
                with upstream.open("chat/completions", {}) as opened:
                    yield from opened.chunks()

            pump = Pump(ask())
            wait_for(lambda: is_connecting_to(port))
            pump.close()
            listener.settimeout(PATIENCE)
            listener.accept()[0].close()  # the one that was in the way
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(PATIENCE)
                assert connection.recv(65536) == b""
            assert pump.take(PATIENCE) is ENDED


def test_an_upstream_that_floods_is_reset_though_all_that_came_was_read():
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        reader = socket.create_connection(listener.getsockname())
        upstream, _ = listener.accept()
    with closing(upstream):
        upstream.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:  # until the window is shut
                upstream.send(b"x" * 65536)
        interrupts = Interrupts()
        interrupts.add(upstream, lambda: reader)
        interrupts.interrupt()
        while reader.recv(1 << 20):
            pass  # as the thread does that finds what has come before its end
        reader.close()
        poll = select.poll()
        poll.register(upstream, 0)  # 0: only a reset
        assert poll.poll(50)  # ms: without one the kernel asks whether there is room, at first after 200 and ever later
