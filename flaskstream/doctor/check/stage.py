"""Where one request is: its run, its phase, its boundaries; and the way through one WSGI layer."""

from __future__ import annotations

import sys
from typing import Any, Callable, Sequence

from flaskstream.doctor.check.boundary import Boundary, Content, SizedBoundary, Source
from flaskstream.doctor.check.log import Log
from flaskstream.doctor.check.made_before import as_line, generator_behind
from flaskstream.doctor.check.places import Place
from flaskstream.doctor.check.view_profile import Generator

VIEW, HOOKS, SERVE = "view", "hooks", "serve"


class Stage:
    """What the boundaries of a request share.

    Args:
        log: where everything is written down.
        pieces: see `Source`.
        seconds: see `Source`.
    """

    def __init__(self, log: Log, pieces: int, seconds: float) -> None:
        self.log = log
        self.phase = SERVE
        self.source: Source | None = None
        self._pieces = pieces
        self._seconds = seconds
        self._ran: Sequence[Generator] = ()
        self._modules = 0
        self._boundaries: list[Boundary] = []
        self._count = 0

    def begin(self, codings: str | None) -> None:
        """Begin a run, whose request offers these codings."""
        self.phase, self.source, self._boundaries, self._count = SERVE, None, [], 0
        self._modules = len(sys.modules)
        self.log.say("run", codings=codings)

    def make_source(self, body: Any, is_guarded: bool, coding: str, ran: Sequence[Generator]) -> Source:
        """Return the boundary around what the view made.

        Args:
            body: that.
            is_guarded: see `Source`.
            coding: see `Source`.
            ran: the generators that the view has run to make it.
        """
        number = self._number()
        self.source = Source(
            self.log,
            number,
            body,
            is_guarded,
            lambda: self.phase,
            self._pieces,
            self._seconds,
            coding,
            self._modules,
        )
        self._ran = ran
        self._boundaries.append(self.source)
        self.log.say("layer", boundary=number, of="view", name="", place=None, guarded=is_guarded, coding=coding)
        return self.source

    def tell_made_before(self) -> None:
        """Write down which generator had made all that was taken before the view returned, if there is one."""
        made = self.source and generator_behind(self.source.taken, self._ran)
        if made:
            self.log.say("made_before", **as_line(made))

    def make_boundary(self, body: Any, of: str, name: str, place: Place | None, coding: str) -> Boundary:
        """Return a boundary around what a layer made of the body."""
        number = self._number()
        self.log.say("layer", boundary=number, of=of, name=name, place=place, coding=coding)
        return self._boundary(number, body, Content(coding))

    def close_what_is_open(self) -> None:
        """Close what a layer has not, from without: so each that drops close() is seen, and nothing stays open.

        A WSGI layer has its number before those that it calls; a hook has its own after the view.
        """
        inside = self.source.number if self.source else self._count
        wsgi = [boundary for boundary in self._boundaries if boundary.number < inside]
        of_flask = [boundary for boundary in self._boundaries if boundary.number >= inside]
        for boundary in sorted(wsgi, key=_number_of) + sorted(of_flask, key=_number_of, reverse=True):
            boundary.close(is_help=True)

    def call_layer(
        self, inside: Any, name: str, place: Place | None, environ: Any, start_response: Callable[..., Any]
    ) -> Boundary:
        """Call a WSGI app, and return what it returns in a boundary."""
        number, content = self._number(), Content()
        self.log.say("layer", boundary=number, of="wsgi", name=name, place=place)

        def start(status: str, headers: Any, *exc_info: Any) -> Callable[[bytes], Any]:
            nonlocal content
            lower = {key.lower(): value for key, value in headers}
            content = Content(lower.get("content-encoding", ""))
            if boundary is not None:
                boundary.content = content
            self.log.say("headers", boundary=number, status=status, headers=[list(pair) for pair in headers])
            write = start_response(status, headers, *exc_info)

            def written(piece: bytes) -> Any:
                self.log.say("piece", boundary=number, bytes=content.count(piece))
                return write(piece)

            return written

        boundary: Boundary | None = None
        body = inside(environ, start)
        boundary = self._boundary(number, body, content)
        return boundary

    def _number(self) -> int:
        self._count += 1
        return self._count

    def _boundary(self, number: int, body: Any, content: Content) -> Boundary:
        kind = SizedBoundary if isinstance(body, (list, tuple)) else Boundary
        self._boundaries.append(kind(self.log, number, body, content))
        return self._boundaries[-1]


def _number_of(boundary: Boundary) -> int:
    return boundary.number
