"""Advance a generator where its items are taken, once all that it waits for is one socket."""

from __future__ import annotations

import math
import time
from collections import deque
from typing import Any, Callable, Iterator

from flaskstream.background import start
from flaskstream.signals import ENDED, NOTHING, Signal
from flaskstream.waiting import Turn


class Direct:
    """A generator whose turn has begun: what a `Pump` is, without a thread.

    Args:
        items: the generator. It yields `None` when its time is over.
        turn: which has begun.
        signals: that come before any item.
        close: closes the generator; called once, where it may wait.
    """

    __slots__ = (*("_items", "_turn", "_signals", "_close", "_is_advancing", "_is_to_be_closed", "_is_closed"),)

    def __init__(self, items: Iterator[Any], turn: Turn, signals: deque[Signal], close: Callable[[], None]) -> None:
        self._items = items
        self._turn = turn
        self._signals = signals
        self._close = close
        self._is_advancing = False
        self._is_to_be_closed = False
        self._is_closed = False

    def take(self, timeout: float | None) -> Any:
        """Return the next item, `NOTHING` after `timeout` seconds, or `ENDED`; see `Pump.take`."""
        turn = self._turn
        turn.until = math.inf if timeout is None else time.monotonic() + timeout
        while not self._signals:
            if self._is_closed:
                return ENDED
            item: Any = ENDED
            self._is_advancing = True
            try:
                item = turn.take(self._items)
            finally:
                self._is_advancing = False
                if item is ENDED or self._is_to_be_closed:
                    self._close_once()
            if item is not None:
                return item
            if time.monotonic() >= turn.until:
                return NOTHING if not self._signals else self._signals.popleft()
        return self._signals.popleft()

    def rouse(self) -> None:
        """Have whoever takes look for a signal."""
        if self._is_advancing and self._turn.waiting is not None:
            self._turn.waiting.rouse()

    def close(self) -> None:
        """Have the generator closed, without waiting for it. From anywhere in this thread, and any number of times."""
        self._is_to_be_closed = True
        if self._is_advancing:
            self.rouse()
        elif not self._is_closed:
            start(self._close_once, lambda: False)  # whoever calls may be the hub, or the garbage collector

    def _close_once(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            close, self._close = self._close, _nothing
            close()
            self._turn.end()


def _nothing() -> None:
    """Close nothing: that was done."""
