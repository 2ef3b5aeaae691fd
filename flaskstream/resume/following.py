"""The short way of a record: from the answer in this process to who follows it, past the greenlet that waits for it."""

from __future__ import annotations

import math
from typing import Any, Callable, Iterator

from flaskstream.signals import ENDED
from flaskstream.waiting import Turn, TurnBell


class Following:
    """What one reader's turn takes from.

    Args:
        turn: of the reader.
        bell: at which it waits.
        now: returns what it may have by now, `NOTHING`, or `None`: only its generator can tell.
    """

    __slots__ = ("_bell", "_turn", "now")

    gives_up_at = math.inf

    def __init__(self, turn: Turn, bell: TurnBell, now: Callable[[], Any]) -> None:
        self._turn = turn
        self._bell = bell
        self.now = now

    def begin(self) -> None:
        """Have the turn taken from here."""
        self._turn.lane, self._turn.take = self, self.take

    def take(self, items: Iterator[Any]) -> Any:
        """Return the next item of the reader's generator, or `ENDED`."""
        express = self._turn.express
        self._bell.go_by(express)  # from now on, and not before: somebody takes what that cannot send
        item = next(items, ENDED)
        if express is not None:  # after a wait the generator yields first, and so nothing gets in front of what is left
            express.finish()
        return item
