"""What is taken from a source in place of an item, and what ends a stream without an end."""

from __future__ import annotations


class Signal:
    """What `take` returns in place of an item."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


NOTHING = Signal("NOTHING")
"""No item came in the time given."""
ENDED = Signal("ENDED")
"""The generator ended by itself; no item will come."""


class ClientGone(Exception):
    """Nobody reads any more, and nobody would read an end."""
