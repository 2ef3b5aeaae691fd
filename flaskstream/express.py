"""The express way of a token: from socket to socket in gevent's hub, past a greenlet that goes on waiting.

To wake a greenlet costs as much as all that is done for a token in it. So where a token is plainly that (see
`flaskstream.relay.lane`), and its server is known to do nothing with it but to send it on, it is read, counted and sent
where the loop has found it. Whatever is not as simple wakes the greenlet, which finds everything as if it had just
come: an end, an error, half an event, a client that does not take all of it.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Protocol

from flaskstream.signals import NOTHING, ClientGone
from flaskstream.tally import CLIENT, SOURCE, Tally, counted_frame
from flaskstream.wire import Wire


class Outlet(Protocol):
    """Where a server sends a body, with nothing between."""

    def send(self, frame: bytes) -> bytes:
        """Send what can be sent without waiting; return what is left. Raises `OSError`."""
        ...

    def flush(self, left: bytes) -> None:
        """Send it, and wait for it. Raises `OSError`."""
        ...

    def settle(self) -> None:
        """Have the server's own figures count what was sent."""
        ...


class Express:
    """The express way of one stream.

    Args:
        turn: a `Turn` with a short way.
        wire, tally: of the stream.
        next_wait: returns after how many seconds, from a time on, something is due; `None`: nothing is. It raises when
            the stream is too old.
        outlet: where it goes.
    """

    __slots__ = ("_has_sent", "_is_gone", "_lane", "_left", "_next_wait", "_outlet", "_tally", "_turn", "_wire")

    def __init__(
        self, turn: Any, wire: Wire, tally: Tally, next_wait: Callable[[float], float | None], outlet: Outlet
    ) -> None:
        self._turn = turn
        self._wire = wire
        self._tally = tally
        self._next_wait = next_wait
        self._outlet = outlet
        self._lane: Any = None  # the short way, which is not yet known
        self._left = b""
        self._is_gone = False
        self._has_sent = False  # since it was last asked when the greenlet is to be woken

    def go(self, item: Any = None) -> bool:
        """Send what has come; return whether the greenlet can wait on. Nothing here waits.

        Args:
            item: that has come; `None`: the short way tells.
        """
        if item is None:
            lane = self._lane
            if lane is None:
                lane = self._lane = self._turn.lane
            item = lane.now()
            if item is NOTHING:
                return True
            if item is None:
                return False
        wire, tally = self._wire, self._tally
        if type(item) in wire.single:  # nearly always
            frame = wire.frame(item)
            tally.hears_token(frame)
        else:
            tally.hears()
            frame = counted_frame(item, wire, tally)
        self._has_sent = True
        try:
            self._left = self._outlet.send(frame)
        except OSError:
            self._is_gone = True
            return False
        return not self._left

    def until(self) -> float:
        """Return when something is due. Raises what `next_wait` does."""
        turn = self._turn
        if self._has_sent:
            self._has_sent = False
            since = self._tally.since
            seconds = self._next_wait(since)
            turn.until = math.inf if seconds is None else since + seconds
        until: float = min(turn.until, turn.lane.gives_up_at)
        return until

    def finish(self) -> bool:
        """Send what is left; return whether anything was. Called by the greenlet, whenever it was woken.

        Raises:
            ClientGone: there is nobody to send it to.
        """
        self._outlet.settle()
        if self._is_gone:
            raise ClientGone
        left, self._left = self._left, b""
        if left:
            self._tally.waits_for(CLIENT)
            try:
                self._outlet.flush(left)
            except OSError:
                raise ClientGone from None
            self._tally.waits_for(SOURCE)
        if self._has_sent:
            self.until()
        return bool(left)
