"""The open streams of this process: counted, limited, and told when it stops."""

from __future__ import annotations

import threading
from typing import Callable

from flaskstream.errors import ShuttingDown, TooManyStreams


class Place:
    """The place of one stream in the register. It is taken until the stream has ended and its generator has too.

    A generator in a thread that waits for something else than an upstream goes on when its client has gone: it costs
    what it did before. Nothing here takes a lock: a stream may also end where the garbage collector finds it.
    """

    def __init__(self, streams: OpenStreams) -> None:
        self._streams = streams
        self._tell: Callable[[], None] | None = None
        self._taken_by = {"stream", "generator"}
        self._is_begun = False
        self.is_early: Callable[[], bool] = _never

    def when_stopping(self, tell: Callable[[], None], is_early: Callable[[], bool] | None = None) -> None:
        """Have `tell` called, from any thread, when the process stops; at once if it does already.

        Args:
            tell: what is called.
            is_early: tells whether that is to be as soon as the process begins to leave: nothing is gained by letting
                it finish here.
        """
        self._tell = tell
        self.is_early = is_early or _never
        if self._streams.is_stopping or (self._streams.is_leaving and self.is_early()):
            tell()

    def begin(self) -> Place:
        """Say that a stream, and its generator, are what gives it back."""
        self._is_begun = True
        return self

    def leave_unless_begun(self) -> None:
        """Give it back, if it has come to nothing."""
        if not self._is_begun:
            self.stream_ended()
            self.generator_ended()

    def stop(self) -> None:
        """Tell the stream."""
        tell = self._tell
        if tell is not None:
            tell()

    def stream_ended(self) -> None:
        """Say that the stream has ended; any number of times."""
        self._tell = None
        self._left_by("stream")

    def generator_ended(self) -> None:
        """Say that its generator has ended, or never began; any number of times."""
        self._left_by("generator")

    def _left_by(self, who: str) -> None:
        self._taken_by.discard(who)
        if not self._taken_by:
            self._streams.remove(self)


class OpenStreams:
    """A register of streams. A process has one, `OPEN_STREAMS`; a forked worker has its own copy of it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._places: set[Place] = set()
        self.is_leaving = False
        self.is_stopping = False

    def __len__(self) -> int:
        return len(self._places)

    def enter(self, most: int | None = None) -> Place:
        """Take a place.

        Args:
            most: how many may be taken with this one; `None`: any number.

        Raises:
            TooManyStreams: so many are taken already.
            ShuttingDown: the process is stopping.
        """
        with self._lock:
            if self.is_stopping:
                raise ShuttingDown("expected a worker that goes on, got one that is stopping")
            if most is not None and len(self._places) >= most:
                raise TooManyStreams(f"expected at most {most} open streams in this process, got one more")
            place = Place(self)
            self._places.add(place)
        return place

    def remove(self, place: Place) -> None:
        """Take a place back."""
        self._places.discard(place)

    def leave(self) -> None:
        """Tell the streams that want to know it early that the process stops soon."""
        self.is_leaving = True
        for place in list(self._places):
            if place.is_early():
                place.stop()

    def stop(self) -> None:
        """Tell every stream that the process stops, and refuse new ones."""
        with self._lock:
            self.is_stopping = True
            places = list(self._places)
        for place in places:
            place.stop()


def _never() -> bool:
    return False


OPEN_STREAMS = OpenStreams()

GENERATIONS = OpenStreams()
"""The answers that this process produces apart from their delivery: they may go on when no stream is open."""
