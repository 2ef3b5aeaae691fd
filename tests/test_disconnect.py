"""The watch of the clients' sockets is told too when the server closes one of them and says nothing."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time

import pytest

from flaskstream.lab.processes import environment
from flaskstream.serving.client import LATE_SECONDS, LOOK_SECONDS, watch_client

PATIENCE = 10 * LOOK_SECONDS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs epoll")


def watched():
    """A connection of which one side is watched, and what is set when that is told to be dead."""
    ours, theirs = socket.socketpair()
    dead = threading.Event()
    stop = watch_client(ours, lambda is_dead: dead.set() if is_dead else None)
    return ours, theirs, dead, stop


def test_a_socket_that_is_closed_while_it_is_watched():
    ours, theirs, dead, _ = watched()
    with theirs:
        assert not dead.wait(1.5 * LOOK_SECONDS)  # the control: it lives
        ours.close()
        assert dead.wait(PATIENCE)


def test_a_socket_that_is_closed_and_has_given_its_number_to_another():
    ours, theirs, dead, _ = watched()
    number = ours.fileno()
    ours.close()
    again, their_again, dead_again, stop_again = watched()
    with theirs, again, their_again:
        assert again.fileno() == number
        assert dead.is_set() and not dead_again.is_set()
        stop_again()


def test_a_connection_whose_time_is_over_is_shut_down_and_told_to_be_dead():
    ours, theirs = socket.socketpair()
    dead = threading.Event()
    with ours, theirs:
        theirs.settimeout(PATIENCE)
        stop = watch_client(ours, lambda is_dead: dead.set() if is_dead else None, time.monotonic() - LATE_SECONDS)
        assert theirs.recv(1) == b""
        assert dead.wait(PATIENCE)
        stop()


def test_a_connection_whose_watch_was_stopped_in_time_is_left_alone():
    ours, theirs = socket.socketpair()
    other, their_other = socket.socketpair()
    with ours, theirs, other, their_other:
        theirs.setblocking(False)
        their_other.settimeout(PATIENCE)
        watch_client(ours, print, time.monotonic() - LATE_SECONDS)()
        watch_client(other, print, time.monotonic() - LATE_SECONDS)  # the control
        assert their_other.recv(1) == b""
        with pytest.raises(BlockingIOError):
            theirs.recv(1)


def test_a_number_that_is_another_s_by_now_is_not_shut_down():
    class Numbered:
        """A server's connection of which only the number is known, as uWSGI shows it."""

        def __init__(self, number):
            self.fileno = lambda: number
            self.setsockopt = lambda *_: None

    ours, theirs = socket.socketpair()
    number = ours.fileno()
    stop = watch_client(Numbered(number), print, time.monotonic() - LATE_SECONDS + LOOK_SECONDS / 2)
    ours.close()
    other, their_other = socket.socketpair()
    last, their_last = socket.socketpair()
    with theirs, other, their_other, last, their_last:
        assert other.fileno() == number
        their_other.setblocking(False)
        their_last.settimeout(PATIENCE)
        watch_client(last, print, time.monotonic() - LATE_SECONDS + LOOK_SECONDS / 2)  # the control
        assert their_last.recv(1) == b""
        with pytest.raises(BlockingIOError):
            their_other.recv(1)
        stop()


def test_nothing_is_told_after_the_watch_was_stopped():
    ours, theirs, dead, stop = watched()
    stop()
    ours.close()
    theirs.close()
    assert not dead.wait(1.5 * LOOK_SECONDS)


FIRST_STREAMS = """
import socket, sys, threading
from flaskstream.serving.client import watch_client
sys.setswitchinterval(1e-6)
pairs = [socket.socketpair() for _ in range(40)]
start = threading.Barrier(len(pairs))
def begin(ours):
    start.wait()
    watch_client(ours, print)
threads = [threading.Thread(target=begin, args=(ours,)) for ours, _ in pairs]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert [thread.name for thread in threading.enumerate()].count("flaskstream-clients") == 1
"""


def test_streams_that_begin_at_once_share_one_watch():
    subprocess.run([sys.executable, "-c", FIRST_STREAMS], check=True, timeout=PATIENCE * 3, env=environment())


COLLECTED = """
import faulthandler, gc, socket, sys
if "greenlets" in sys.argv:
    from gevent import monkey; monkey.patch_all()
from flaskstream.serving import client
faulthandler.dump_traceback_later(20, exit=True)

class Dropped:
    'What stops its watch when the collector finds it, as a stream does.'
    def __init__(self):
        self.ours, self.theirs = socket.socketpair()
        self.stop = client.watch_client(self.ours, print, deadline=1e12)
        self.myself = self
    def __del__(self):
        self.stop()
        self.ours.close()
        self.theirs.close()

gc.disable()
ours, theirs = socket.socketpair()
watch = client._own_watch()
for allocations in range(1, 40):
    for call in (watch._look_now_and_then, watch._look, lambda: watch.watch(ours, print)()):
        Dropped()
        gc.set_threshold(gc.get_count()[0] + allocations, 1000, 1000)
        gc.enable()
        call()
        gc.disable()
        gc.collect()
assert not watch._watched
"""


@pytest.mark.parametrize("kind", ["threads", "greenlets"])
def test_what_the_collector_finds_in_the_middle_of_a_look_stops_its_watch(kind):
    if kind == "greenlets":
        pytest.importorskip("gevent")
    subprocess.run([sys.executable, "-c", COLLECTED, kind], check=True, timeout=PATIENCE * 6, env=environment())
