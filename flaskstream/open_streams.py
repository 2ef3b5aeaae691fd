"""The open streams of this process: counted, limited, and told when it stops."""

from __future__ import annotations

import threading
from typing import Callable

from flaskstream.errors import ShuttingDown, TooManyStreams


class Place:
    """The place of one stream in the register."""

    def __init__(self, streams: OpenStreams) -> None:
        self._streams = streams
        self._tell: Callable[[], None] | None = None

    def when_stopping(self, tell: Callable[[], None]) -> None:
        """Have `tell` called, from any thread, when the process stops; at once if it does already."""
        self._tell = tell
        if self._streams.is_stopping:
            tell()

    def stop(self) -> None:
        """Tell the stream."""
        if self._tell is not None:
            self._tell()

    def leave(self) -> None:
        """Give the place back; any number of times."""
        self._streams.remove(self)


class OpenStreams:
    """A register of streams. A process has one, `OPEN_STREAMS`; a forked worker has its own copy of it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._places: set[Place] = set()
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

    def stop(self) -> None:
        """Tell every stream that the process stops, and refuse new ones."""
        with self._lock:
            self.is_stopping = True
            places = list(self._places)
        for place in places:
            place.stop()


OPEN_STREAMS = OpenStreams()
