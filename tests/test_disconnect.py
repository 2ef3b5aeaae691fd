"""The watch of the clients' sockets is told too when the server closes one of them and says nothing."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading

import pytest

from flaskstream.lab.processes import environment
from flaskstream.serving.client import LOOK_SECONDS, watch_client

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
