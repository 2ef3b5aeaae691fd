"""Whether the pieces of a stream were there before its view had returned: then an iterator over them streams nothing.

A generator that the view ran tells, where its pieces are those that the server gets, as they are or with something
around them; and so does an iterator over a list.
"""

from __future__ import annotations

from typing import Any, Sequence

from flaskstream.doctor.check.places import OWN, kind_of
from flaskstream.doctor.check.view_profile import Generator

_OF_A_LIST = ("list_iterator", "tuple_iterator")
"""Iterators over pieces that are all there, by the names of their types."""

SLOW_SECONDS = 0.05
"""What took less to make than this is taken for the source of an answer only where it is the answer, byte by byte."""

EVENT_FIELDS = (b"data:", b"event:", b"id:", b"retry:", b":")
"""How the first line of an event stream begins."""


def generator_behind(sent: Sequence[bytes], ran: Sequence[Generator]) -> Generator | None:
    """Return the generator that had made these pieces already, the app's own one first; `None`: none had.

    Args:
        sent: the pieces that were taken from the response.
        ran: the generators that the view ran before it returned.
    """
    if len(sent) < 2:
        return None
    made = [generator for generator in ran if _has_made(generator, sent)]
    own = [generator for generator in made if kind_of(generator.place.file) == OWN]
    return next(iter([*own, *made]), None)


def _has_made(generator: Generator, sent: Sequence[bytes]) -> bool:
    if generator.data.startswith(b"".join(sent)):
        return True
    if generator.seconds < SLOW_SECONDS:  # the words of the question, maybe, which are in the answer too
        return False
    made = [piece for piece in generator.every_piece if piece.strip()]
    full = [piece for piece in sent if piece.strip()]
    return 1 < len(full) <= len(made) and all(piece.strip() in around for piece, around in zip(made, full))


def count_in_list(body: Any) -> int:
    """Return how many pieces an iterator over a list still has; 0: it is none."""
    return int(body.__length_hint__()) if type(body).__name__ in _OF_A_LIST else 0


def as_line(joined: Generator) -> dict[str, Any]:
    """Return what the log says of a generator."""
    return {
        "place": joined.place,
        "taken_at": joined.taken_at,
        "pieces": joined.pieces,
        "ms": joined.seconds * 1000,
        "events": joined.data.startswith(EVENT_FIELDS),
    }
