"""Which generators a view runs while it makes its response, seen through the interpreter's profiling hook.

A view that returns `list(generator)`, or a joined text, has run its generator to the end before anything could be
sent. What its pieces were, and which line took them, is only to be seen meanwhile.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
import threading
import time
from types import CodeType, FrameType
from typing import Any, Iterator

from flaskstream.doctor.check.places import (
    FRAMEWORK,
    KIT,
    OWN,
    STDLIB,
    Place,
    frames_from,
    kind_of,
    place_of_code,
    place_of_frame,
)

MOST_BYTES = 1024 * 1024
"""How much of a generator's pieces is kept, to compare them with the body."""


WAITED_SECONDS = 0.1
"""A view that starts a thread and returns does not stay for so long."""


class Generator:
    """A generator that ran.

    Attributes:
        place: where it is written.
        taken_at: the line that took its pieces.
        is_own: it, or that line, is the app's own code.
        is_elsewhere: it ran in another thread than the view.
        pieces: how many it gave.
        data: them, one after the other, while they were text or bytes.
        every_piece: the same, each by itself.
        seconds: from its start to its newest piece.
    """

    def __init__(self, code: CodeType, taken_at: Place, is_own: bool, is_elsewhere: bool = False) -> None:
        self.place = place_of_code(code)
        self.taken_at = taken_at
        self.is_own = is_own
        self.is_elsewhere = is_elsewhere
        self.pieces = 0
        self.data = b""
        self.every_piece: list[bytes] = []
        self.seconds = 0.0
        self._began = time.monotonic()

    def add(self, piece: Any) -> None:
        """Count a piece."""
        if isinstance(piece, (str, bytes)):
            self.pieces += 1
            self.seconds = time.monotonic() - self._began
            if len(self.data) < MOST_BYTES:
                data = piece.encode() if isinstance(piece, str) else piece
                self.data += data
                self.every_piece.append(data)


def _is_waited_for(generator: Generator) -> bool:
    """Tell whether the view waited for it: one in another thread that was at once done may have won a race."""
    return not generator.is_elsewhere or generator.seconds >= WAITED_SECONDS


class ViewProfile:
    """The generators that ran while `watching()`."""

    def __init__(self) -> None:
        self._generators: dict[int, Generator] = {}
        self._done: list[Generator] = []
        self._starts: dict[CodeType, int] = {}
        self._thread = 0
        self._is_over = True

    @property
    def generators(self) -> list[Generator]:
        """Those that gave two pieces or more, to code of the app or to Flask for it."""
        every = [*self._done, *self._generators.values()]
        return [
            generator for generator in every if generator.pieces > 1 and generator.is_own and _is_waited_for(generator)
        ]

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Watch this thread while the block runs, and those that are started in it."""
        before = sys.getprofile()
        self._thread, self._is_over = threading.get_ident(), False
        threading.setprofile(self._see)
        sys.setprofile(self._see)
        try:
            yield
        finally:
            self._is_over = True
            sys.setprofile(before)
            threading.setprofile(before)

    def _see(self, frame: FrameType, event: str, value: Any) -> None:
        if self._is_over or event not in ("call", "return") or not frame.f_code.co_flags & inspect.CO_GENERATOR:
            return
        if kind_of(frame.f_code.co_filename) in (STDLIB, KIT):
            return
        if event == "return":
            generator = self._generators.get(id(frame))
            if generator is not None:
                generator.add(value)
        else:
            self._begin(frame)

    def _begin(self, frame: FrameType) -> None:
        code, taker = frame.f_code, frame.f_back
        start = self._starts.setdefault(code, frame.f_lasti)
        if frame.f_lasti != start or taker is None:
            return
        is_elsewhere = threading.get_ident() != self._thread
        if is_elsewhere and any(kind_of(one.f_code.co_filename) == KIT for one in frames_from(taker)):
            return  # the kit reads ahead
        if id(frame) in self._generators:  # of one that has gone
            self._done.append(self._generators[id(frame)])
        behind = (one for one in frames_from(taker) if kind_of(one.f_code.co_filename) not in (FRAMEWORK, STDLIB, KIT))
        taker = next(behind, taker)
        is_own = OWN in (kind_of(code.co_filename), kind_of(taker.f_code.co_filename))
        self._generators[id(frame)] = Generator(code, place_of_frame(taker), is_own, is_elsewhere)
