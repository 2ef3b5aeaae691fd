"""Whether the view keeps gevent's hub from its turn, seen from a thread that is none of gevent's.

A greenlet counts while the hub has its turns. Where the count stands still, the thread looks who is at work meanwhile.
It counts its own looks and not the time: on a busy machine it waits for the processor as the others do.
"""

from __future__ import annotations

import contextlib
import sys
import time
from typing import Any, Callable, Iterator

from flaskstream.doctor.check.log import Log
from flaskstream.doctor.check.places import OWN, Place, frames_from, kind_of, place_of_frame

LOOK_SECONDS = 0.05
TICK_SECONDS = 0.01
LOOKS = 8
"""After so many in a row at which the hub has not had a turn, some 0.4 seconds, it is blocked."""


@contextlib.contextmanager
def watching_hub(log: Log, is_serving: Callable[[], bool]) -> Iterator[None]:
    """Watch while the block runs and the body is read; without gevent there is nothing to watch."""
    monkey = sys.modules.get("gevent.monkey")
    if monkey is None or not monkey.is_module_patched("socket"):
        yield
        return
    import gevent

    watch = _Watch(log, is_serving, monkey.get_original("time", "sleep"), monkey.get_original("_thread", "get_ident")())
    ticks = gevent.spawn(watch.tick)
    monkey.get_original("_thread", "start_new_thread")(watch.look, ())
    try:
        yield
    finally:
        watch.is_over = True
        ticks.kill()


class _Watch:
    def __init__(self, log: Log, is_serving: Callable[[], bool], sleep: Any, thread: int) -> None:
        self._log = log
        self._is_serving = is_serving
        self._sleep = sleep
        self._thread = thread
        self._ticks = 0
        self._told: set[Place] = set()
        self.is_over = False

    def tick(self) -> None:
        """Be a greenlet that counts the turns of the hub."""
        while True:
            self._ticks += 1
            time.sleep(TICK_SECONDS)

    def look(self) -> None:
        """Be the thread that looks."""
        before, looks = -1, 0
        while not self.is_over:
            self._sleep(LOOK_SECONDS)
            looks = looks + 1 if self._ticks == before and self._is_serving() else 0
            before = self._ticks
            if looks == LOOKS:
                self._tell()

    def _tell(self) -> None:
        places = (
            place_of_frame(frame)
            for frame in frames_from(sys._current_frames().get(self._thread))
            if kind_of(frame.f_code.co_filename) == OWN
        )
        place = next(places, None)
        if place is not None and place not in self._told:
            self._told.add(place)
            self._log.say("hub_blocked", place=place, blocked_ms=LOOKS * LOOK_SECONDS * 1000)
