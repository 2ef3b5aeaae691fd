"""A limit on how long an app may take to load: who exceeds it is told the line at which it is, and is ended.

The thread that waits is none of gevent's, and reads no name that an app may replace meanwhile.
"""

from __future__ import annotations

import gc
import os
import sys
from _thread import allocate_lock, get_ident, start_new_thread  # as they are before gevent patches
from types import FrameType
from typing import Any, Iterator

from flaskstream.doctor.check.log import Log
from flaskstream.doctor.check.places import OWN, Place, frames_from, kind_of, place_of_frame

_SERVERS = ("serve_forever", "run_simple")
"""Functions in which a development server is: there is no end to wait for."""


class LoadLimit:
    """Begins to count at once, for the thread that makes it.

    Args:
        seconds: after which it says `loading` and ends the process, unless it was lifted.
        log: where it says so.
    """

    def __init__(self, seconds: float, log: Log) -> None:
        self._log = log
        self._seconds = seconds
        self._thread = get_ident()
        self._is_loaded = allocate_lock()
        self._is_loaded.acquire()
        start_new_thread(self._wait, ())

    def lift(self) -> None:
        """The app is loaded."""
        self._is_loaded.release()

    def _wait(self) -> None:
        if self._is_loaded.acquire(True, self._seconds):
            return
        stacks = [list(frames_from(frame)) for frame in self._frames()]
        serves = any(frame.f_code.co_name in _SERVERS for stack in stacks for frame in stack)
        self._log.say("loading", seconds=self._seconds, at=_nearest(stacks), serves=serves)
        os._exit(0)

    def _frames(self) -> Iterator[FrameType]:
        """Yield where the loading thread is, and where its greenlets are, which are in no thread while they wait."""
        yield sys._current_frames()[self._thread]
        kind: Any = getattr(sys.modules.get("greenlet"), "greenlet", ())
        for value in gc.get_objects() if kind else ():
            if issubclass(type(value), kind) and value.gr_frame is not None:
                yield value.gr_frame


def _nearest(stacks: list[list[FrameType]]) -> Place | None:
    """Return the innermost line of the app's own, of the stack that has one."""
    for stack in stacks:
        for frame in stack:
            if kind_of(frame.f_code.co_filename) == OWN:
                return place_of_frame(frame)
    return None
