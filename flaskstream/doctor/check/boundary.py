"""Where one layer hands the body to the next: each piece that passes is written down, and nothing else is changed.

A boundary stands around an iterable. The source, around what the view made, is one that also ends the stream when
enough was seen, so that a layer which waits for the end shows what it kept, and an endless stream ends.
"""

from __future__ import annotations

import sys
import time
from typing import Any, Callable, Iterator

from flaskstream.doctor.check.log import Log
from flaskstream.doctor.check.places import OWN, Place, caller, kind_of, place_of_code, place_of_frame, reader
from flaskstream.doctor.coding import ContentDecoder, content_decoder
from flaskstream.doctor.wire import MalformedResponse

UNDECODED_BYTES = 16
"""A piece in a coding that cannot be undone here holds content from this size on; a mere header is smaller."""


PIECE_KINDS = (str, bytes, bytearray, memoryview)
"""What a body may be made of."""


class NotAPiece(TypeError):
    """A body yields something that is no text and no bytes."""


class Content:
    """Counts the bytes of the content in the pieces of a body, as far as its coding can be undone.

    Args:
        coding: the `Content-Encoding`; empty for none.
    """

    def __init__(self, coding: str = "") -> None:
        self._decoder: ContentDecoder = content_decoder(coding or None)

    def count(self, piece: Any) -> int:
        """Return how much of the content this piece makes known, in bytes.

        Raises:
            NotAPiece: it is none.
        """
        if not isinstance(piece, PIECE_KINDS):  # bytes(5) would be five of them
            raise NotAPiece(f"yields {type(piece).__name__}, not str or bytes")
        data = piece.encode() if isinstance(piece, str) else bytes(piece)
        try:
            known = len(self._decoder.feed(data))
        except MalformedResponse:
            return len(data)
        return known if not self._decoder.note or known >= UNDECODED_BYTES else 0


class Boundary:
    """An iterator around a body.

    Args:
        log: where it says `piece`, `end`, `close` and `failed`.
        number: of this boundary in the run.
        body: what is iterated over.
        content: counts.
    """

    def __init__(self, log: Log, number: int, body: Any, content: Content) -> None:
        self.number = number
        self.body = body
        self._log = log
        self.content = content
        self._pieces: Iterator[Any] | None = None
        self._closed = False

    def __iter__(self) -> Boundary:
        return self

    def __next__(self) -> Any:
        if self._pieces is None:
            self._log.say("pulled", boundary=self.number, by=reader())
            self._pieces = iter(self.body)
        try:
            piece = next(self._pieces)
        except StopIteration:
            self._log.say("end", boundary=self.number)
            raise
        except BaseException as error:
            self._log.say("failed", boundary=self.number, error=repr(error), at=place_of_error(error))
            raise
        try:
            size = self.content.count(piece)
        except NotAPiece as error:
            place = place_of_yield(self.body)
            self._log.say("failed", boundary=self.number, error=str(error), is_no_piece=True, at=place)
            raise
        self._log.say("piece", boundary=self.number, bytes=size)
        return piece

    def close(self, is_help: bool = False) -> None:
        """Say so, and close what is inside; `is_help`: it is this check that does, where a layer has not."""
        if not self._closed:
            self._closed = True
            self._log.say("close", boundary=self.number, help=is_help)
            self.close_inside()

    def close_inside(self) -> None:
        """Close the body, if it can be closed."""
        getattr(self.body, "close", lambda: None)()


class SizedBoundary(Boundary):
    """A boundary around a list: PEP 3333 lets a middleware ask for the length."""

    def __len__(self) -> int:
        return len(self.body)

    def __getitem__(self, index: Any) -> Any:
        return self.body[index]


class Source(Boundary):
    """The boundary around what the view made.

    Args:
        log: see `Boundary`.
        number: see `Boundary`.
        body: see `Boundary`.
        is_guarded: the kit's own response, which nobody can read before the server does.
        phase: returns where the request is: `view`, `hooks` or `serve`.
        pieces: after so many it ends.
        seconds: the same for time.
        coding: the `Content-Encoding` that the view itself says.
        modules: how many were imported when the request came.

    Attributes:
        taken: its pieces so far.
    """

    def __init__(
        self,
        log: Log,
        number: int,
        body: Any,
        is_guarded: bool,
        phase: Callable[[], str],
        pieces: int,
        seconds: float,
        coding: str,
        modules: int,
    ) -> None:
        super().__init__(log, number, body, Content(coding))
        self.taken: list[bytes] = []
        self._modules = modules
        self.is_guarded = is_guarded
        self._phase = phase
        self._left = pieces
        self._deadline = time.monotonic() + seconds
        self._told: set[Place | None] = set()

    def __next__(self) -> Any:
        if self._phase() != "serve":
            self._tell_reader()
            if self.is_guarded:
                return next(self.body)  # which refuses
        if self._left <= 0 or time.monotonic() > self._deadline:
            self._log.say("enough", boundary=self.number)
            raise StopIteration
        self._left -= 1
        piece = super().__next__()
        if not self.taken:
            self._log.say("first_piece", imported=len(sys.modules) > self._modules)
        self.taken.append(piece.encode() if isinstance(piece, str) else bytes(piece))
        return piece

    def _tell_reader(self) -> None:
        place, through = caller()
        if place not in self._told:
            self._told.add(place)
            kind = "guarded" if self.is_guarded else "read_early"
            self._log.say(kind, boundary=self.number, place=place, through=through, phase=self._phase())

    def close_inside(self) -> None:
        """Close what the view made, and write down when it does not let itself be closed."""
        try:
            super().close_inside()
        except BaseException as error:  # SystemExit too: a layer around this one is still to be closed
            code = getattr(self.body, "gi_code", None)
            place = place_of_error(error) or (code and place_of_code(code))
            self._log.say("not_closed", boundary=self.number, error=repr(error), at=place)


def place_of_yield(body: Any) -> Place | None:
    """Return the app's own line at which a generator stands, or the one that it yields from, if there is one."""
    inner, frame = getattr(body, "gi_yieldfrom", None), getattr(body, "gi_frame", None)
    place = None if inner is None else place_of_yield(inner)
    if place is None and frame is not None and kind_of(frame.f_code.co_filename) == OWN:
        return place_of_frame(frame)
    return place


def place_of_error(error: BaseException) -> Place | None:
    """Return the innermost line of an error's traceback that is the app's; else that of a package; else any."""
    places = []
    traceback = error.__traceback__
    while traceback is not None:
        frame = traceback.tb_frame
        places.append((kind_of(frame.f_code.co_filename), place_of_frame(frame), traceback.tb_lineno))
        traceback = traceback.tb_next
    for wanted in ("own", "package", "framework", "stdlib"):
        for kind, place, line in reversed(places):
            if kind == wanted:
                return Place(place.file, line, place.function)
    return None
