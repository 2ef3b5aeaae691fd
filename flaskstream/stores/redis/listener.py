"""Who is told when something happens to a stream: one connection per process, on which Redis publishes.

A thread (a greenlet under gevent) owns the connection and does all that waits. It subscribes to what is watched here,
comes back by itself after Redis was gone, and ends when nobody watches. Each subscription that Redis confirms counts as
news: whatever happened before it was missed.
"""

from __future__ import annotations

import logging
import os
import random
import select
import threading
import time
from typing import Any, Callable

from flaskstream.native import original
from flaskstream.stores.redis.link import Link
from flaskstream.stores.watchers import Watchers

FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 2.0
"""Between attempts to come back; each is twice the one before, and up to half of it is chance."""
SILENCE_SECONDS = 10.0
"""After so long without news Redis is asked whether it is there: a machine that vanishes closes nothing."""
LOOK_SECONDS = 0.05
"""How often one looks for news where the connection does not show its socket."""
MESSAGES_AT_ONCE = 1000
"""After so many one looks whether it is over."""

log = logging.getLogger(__name__)


class Listener:
    """Tells the watchers of this process. Made in the process that uses it."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._watchers = Watchers()
        self._lock = original("_thread", "RLock")()  # held for microseconds; may be taken in a collector of garbage
        self._run: _Run | None = None

    def watch(self, stream_id: str, notify: Callable[[], None]) -> Callable[[], None]:
        """See `Store.watch`."""
        end_one = self._watchers.add(stream_id, notify)
        with self._lock:
            is_new = self._run is None
            run = self._run = self._run or _Run(self._link, self._watchers, self._ends)
        if is_new:
            threading.Thread(target=run.run, name="flaskstream redis listener", daemon=True).start()
        else:
            run.wake()

        def end() -> None:
            end_one()
            run.wake()

        return end

    def close(self) -> None:
        """Let the thread end, and its connection with it, as if nobody watched."""
        with self._lock:
            run, self._run = self._run, None
        if run is not None:
            run.is_closed = True
            run.wake()

    def _ends(self, run: _Run) -> bool:
        """Whether a thread has nothing left to do; then it is the thread of this listener no more."""
        with self._lock:
            if self._run is run and self._watchers.watched() and not run.is_closed:
                return False
            if self._run is run:
                self._run = None
            return True


class _Run:
    """One thread, from the first that watches to the last."""

    def __init__(self, link: Link, watchers: Watchers, ends: Callable[[_Run], bool]) -> None:
        self.is_closed = False
        self._link, self._watchers, self._ends = link, watchers, ends
        self._pid = os.getpid()
        self._lock = original("_thread", "RLock")()
        self._wake_reader, self._wake_writer = os.pipe()
        for end in (self._wake_reader, self._wake_writer):
            os.set_blocking(end, False)
        self._is_open = True

    def wake(self) -> None:
        """Have the thread look at what is watched now."""
        with self._lock:
            if self._is_open and self._pid == os.getpid():
                try:
                    os.write(self._wake_writer, b"!")
                except BlockingIOError:
                    pass  # it has been woken often enough

    def run(self) -> None:
        """Listen until nobody watches."""
        pause = FIRST_PAUSE_SECONDS
        try:
            while not self._is_over():
                started = time.monotonic()
                try:
                    self._listen()
                except self._link.errors as error:
                    if time.monotonic() - started > LONGEST_PAUSE_SECONDS + self._link.timeout:
                        pause = FIRST_PAUSE_SECONDS
                    level = logging.WARNING if pause == FIRST_PAUSE_SECONDS else logging.DEBUG  # one line per trouble
                    log.log(
                        level, "streams hear no news for now, and look by themselves: %s", self._link.in_words(error)
                    )
                    self._sleep(pause * random.uniform(0.5, 1.0))
                    pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        finally:
            self._close()

    def _listen(self) -> None:
        connection = self._link.connection()
        try:
            connection.connect()
            _Conversation(connection, self._link, self._watchers).go_on(self._wait, self._is_over)
        finally:
            if self._pid == os.getpid():
                connection.disconnect()

    def _is_over(self) -> bool:
        """Nobody watches; or this is a copy of the thread, in a child of the process that it belongs to."""
        return self._pid != os.getpid() or self._ends(self)

    def _wait(self, descriptor: int | None, seconds: float) -> bool:
        """Wait until there may be something to read, or somebody wakes this thread; return whether somebody did."""
        poll = select.poll()
        poll.register(self._wake_reader, select.POLLIN)
        if descriptor is not None:
            poll.register(descriptor, select.POLLIN)
        ready = poll.poll(max(1.0, min(seconds, SILENCE_SECONDS if descriptor is not None else LOOK_SECONDS) * 1000))
        if self._pid != os.getpid():
            return True
        is_woken = any(number == self._wake_reader for number, _ in ready)
        if is_woken:
            os.read(self._wake_reader, 65536)
        return is_woken

    def _sleep(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self._is_over():
            self._wait(None, until - time.monotonic())

    def _close(self) -> None:
        if self._pid != os.getpid():
            return
        self.is_closed = True
        self._ends(self)  # also if this thread failed: the next one who watches starts another
        with self._lock:
            self._is_open = False
            os.close(self._wake_reader)
            os.close(self._wake_writer)


class _Conversation:
    """What is said on one connection."""

    def __init__(self, connection: Any, link: Link, watchers: Watchers) -> None:
        self._connection, self._link, self._watchers = connection, link, watchers
        self._subscribed: set[str] = set()
        self._heard_at = time.monotonic()
        self._asked_at: float | None = None

    def go_on(self, wait: Callable[[int | None, float], bool], is_over: Callable[[], bool]) -> None:
        """Subscribe to what is watched, and pass the news on, until it is over: both may change when one is woken."""
        is_woken = True
        while not (is_woken and is_over()):
            for _ in range(MESSAGES_AT_ONCE):
                if not self._connection.can_read(0):
                    break
                self._hear(self._connection.read_response())
            if is_woken:
                self._subscribe()
            self._check()
            is_woken = wait(self._descriptor(), self._patience())

    def _subscribe(self) -> None:
        watched = set(self._watchers.watched())
        for command, streams in (
            ("SUBSCRIBE", watched - self._subscribed),
            ("UNSUBSCRIBE", self._subscribed - watched),
        ):
            if streams:
                self._say(command, *(channel(self._link.prefix, stream_id) for stream_id in streams))
        self._subscribed = watched

    def _say(self, *command: Any) -> None:
        self._connection.send_command(*command, check_health=False)
        self._asked_at = self._asked_at or time.monotonic()

    def _hear(self, message: Any) -> None:
        """Pass on what is news: `message`, and `subscribe` that confirms."""
        self._heard_at, self._asked_at = time.monotonic(), None
        if isinstance(message, list) and message[0] in (b"message", b"subscribe"):
            try:
                self._watchers.notify([stream_of(self._link.prefix, message[1])])
            except Exception:
                log.exception("a watcher of a stream failed")

    def _check(self) -> None:
        now = time.monotonic()
        if self._asked_at is not None and now - self._asked_at > self._link.timeout:
            raise TimeoutError(f"expected an answer within {self._link.timeout:g} s")
        if self._asked_at is None and now - self._heard_at > SILENCE_SECONDS:
            self._say("PING")

    def _patience(self) -> float:
        since, patience = (self._heard_at, SILENCE_SECONDS)
        if self._asked_at is not None:
            since, patience = (self._asked_at, self._link.timeout)
        return since + patience - time.monotonic() + 0.001  # so that the check after it finds that it is over

    def _descriptor(self) -> int | None:
        sock = getattr(self._connection, "_sock", None)
        return None if sock is None else int(sock.fileno())


def channel(prefix: str, stream_id: str) -> bytes:
    """Return the name under which the scripts publish that something happened to a stream."""
    return f"{prefix}{{{stream_id}}}:news".encode("utf-8", "surrogatepass")


def stream_of(prefix: str, name: bytes) -> str:
    """Return the stream whose channel this is."""
    return name.decode("utf-8", "surrogatepass")[len(prefix) + 1 : -len("}:news")]
