"""Waits that are kept, in a process of gevent's."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

BEGIN = """
from gevent import monkey
monkey.patch_all()
import socket, time, gevent
from flaskstream.waiting import Readable, Turn, TurnBell, Waiting
ours, theirs = socket.socketpair()
now = time.monotonic
"""

CASES = {
    "a byte ends a wait, and the next wait begins anew": """
        readable = Readable(ours.fileno())
        gevent.spawn(theirs.send, b"a")
        assert readable.wait(now() + 30) and ours.recv(10) == b"a"
        began = now()
        assert not readable.wait(began + 0.2) and now() - began >= 0.2
    """,
    "an earlier deadline wins over a kept alarm, and a later one outlasts it": """
        readable = Readable(ours.fileno())
        theirs.send(b"a")
        assert readable.wait(now() + 0.3) and ours.recv(10)
        began = now()
        assert not readable.wait(began + 0.1) and 0.1 <= now() - began < 0.25
        theirs.send(b"a")
        assert readable.wait(now() + 0.1) and ours.recv(10)
        began = now()
        assert not readable.wait(began + 0.4) and now() - began >= 0.4
    """,
    "whoever waits is roused, and nobody else": """
        waiting = Waiting()
        waiting.rouse()
        gevent.sleep(0)
        gevent.spawn_later(0.05, waiting.rouse)
        began = now()
        assert not waiting.wait(began + 30) and now() - began < 10
    """,
    "another's switch ends no wait": """
        waiting = Waiting()
        me = gevent.getcurrent()
        gevent.get_hub().loop.run_callback(me.switch, "something else")
        began = now()
        assert not waiting.wait(began + 0.1) and now() - began >= 0.1
    """,
    "what is thrown into a wait leaves it whole": """
        readable = Readable(ours.fileno())
        try:
            with gevent.Timeout(0.05):
                readable.wait(now() + 30)
        except gevent.Timeout:
            theirs.send(b"a")
            assert readable.wait(now() + 30)
        else:
            raise AssertionError
    """,
    "a bell that has rung before ends the next wait, once": """
        turn = Turn()
        bell = TurnBell(turn)
        assert turn.has_begun
        bell.ring()
        began = now()
        bell.wait(30)
        assert now() - began < 10
        turn.until = now() + 0.1
        bell.wait(30)
        assert now() >= turn.until
        bell.close()
    """,
    "what a bell's wait goes by is done by whoever rings, until it cannot": """
        class Express:
            asked = 0
            items = []
            def go(self, item):
                self.asked += 1
                self.items.append(item)
                return self.asked < 3
            def until(self):
                return turn.until
        turn, express = Turn(), Express()
        bell = TurnBell(turn)
        bell.ring()
        assert not express.asked  # nobody waits
        bell.wait(30)
        bell.go_by(express)
        waiter = gevent.spawn(bell.wait, 30)
        gevent.sleep(0)
        bell.taker.ring(b"handed over")
        for _ in range(4):  # the third one cannot; the greenlet has to see to that before it is asked again
            bell.ring()
        assert express.items == [b"handed over", None, None] and not waiter.ready()
        waiter.join(10)
        assert waiter.ready() and express.asked == 3
    """,
    "what it raises is raised where it was waited": """
        class Express:
            def go(self, item):
                raise ValueError("no")
        bell = TurnBell(Turn())
        bell.go_by(Express())
        gevent.get_hub().loop.run_callback(bell.ring)
        try:
            bell.wait(30)
        except ValueError:
            pass
        else:
            raise AssertionError
    """,
    "a wait that goes by lasts as long as that says": """
        class Express:
            at = now() + 0.3
            def until(self):
                return self.at
        waiting, express = Waiting(), Express()
        assert not waiting.wait(now() + 0.1, express) and now() >= express.at
    """,
    "a closed one leaves the loop free": """
        readable = Readable(ours.fileno())
        readable.wait(now() + 0.01)
        readable.close()
        readable.close()
        ours.close()
        gevent.sleep(0.05)
    """,
}


@pytest.mark.parametrize("case", CASES)
def test_waiting(case: str) -> None:
    program = BEGIN + textwrap.dedent(CASES[case]) + "\nprint('ok')\n"
    done = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False
    )
    assert done.stdout.decode().endswith("ok\n"), done.stdout.decode()
