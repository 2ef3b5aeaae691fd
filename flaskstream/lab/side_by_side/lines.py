"""What came out of the stdout of both servers, and when: the last lines, for whoever looks now or a little later."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass

from flaskstream.lab.gunicorn import debug_line

MAX_LINES = 2000
"""How many are kept: several answers of both sides, at 512 bytes a line at most."""


@dataclass(frozen=True)
class Line:
    """One line.

    Attributes:
        number: counts from 1, over both sides.
        side: "fixed" or "broken".
        came_at: when it came out of the pipe, in seconds since the epoch.
        late: by how many seconds that was after it had been printed; `None`: it does not say when.
        text: of it.
    """

    number: int
    side: str
    came_at: float
    late: float | None
    text: str


class Lines:
    """The last `MAX_LINES` lines; safe for every thread."""

    def __init__(self) -> None:
        self._lines: deque[Line] = deque(maxlen=MAX_LINES)
        self._count = 0
        self._changed = threading.Condition()
        self.is_closed = False

    def add(self, side: str, came_at: float, line: bytes) -> None:
        """Keep a line that has just come out."""
        printed = debug_line(came_at, line)
        late = None if printed is None else max(came_at - printed.printed_at, 0.0)
        text = line.decode("utf-8", "replace").rstrip("\n")
        with self._changed:
            self._count += 1
            self._lines.append(Line(self._count, side, came_at, late, text))
            self._changed.notify_all()

    def after(self, number: int | None, seconds: float) -> tuple[int, list[Line]]:
        """Return the lines behind this one, and the number of the last; wait for so long, if there are none.

        `None`: behind the last that there is.
        """
        deadline = time.monotonic() + seconds
        with self._changed:
            number = self._count if number is None else min(number, self._count)
            while self._count <= number and not self.is_closed:
                rest = deadline - time.monotonic()
                if rest <= 0 or not self._changed.wait(rest):
                    break
            return self._count, [line for line in self._lines if line.number > number]

    def close(self) -> None:
        """Let nobody wait any more."""
        with self._changed:
            self.is_closed = True
            self._changed.notify_all()
