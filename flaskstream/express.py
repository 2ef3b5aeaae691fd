"""The express way of a token: from socket to socket in gevent's hub, past a greenlet that goes on waiting.

To wake a greenlet costs as much as all that is done for a token in it. So where a token is plainly that (see
`flaskstream.relay.lane`), and its server is known to do nothing with it but to send it on, it is read, counted and sent
where the loop has found it. Whatever is not as simple wakes the greenlet, which finds everything as if it had just
come: an end, an error, half an event, a client that does not take all of it.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Protocol

from flaskstream.signals import ClientGone
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


class Express:
    """The express way of one stream.

    Args:
        turn: a `Turn` with a short way.
        wire, tally: of the stream.
        next_wait: returns after how many seconds, from a time on, something is due; `None`: nothing is. It raises when
            the stream is too old.
        outlet: where it goes.
    """

    __slots__ = ("_is_gone", "_left", "_next_wait", "_outlet", "_tally", "_turn", "_wire")

    def __init__(
        self, turn: Any, wire: Wire, tally: Tally, next_wait: Callable[[float], float | None], outlet: Outlet
    ) -> None:
        self._turn = turn
        self._wire = wire
        self._tally = tally
        self._next_wait = next_wait
        self._outlet = outlet
        self._left = b""
        self._is_gone = False

    def __call__(self) -> bool:
        """Send what has come; return whether the greenlet can wait on. Called in the hub: nothing here waits."""
        lane = self._turn.lane
        data = lane.reader.read_now()
        if not data:
            return data is not None
        item = lane.look(data)
        if item is None:
            lane.reader.put_back(data)
            return False
        tally = self._tally
        tally.waits_for(CLIENT)
        frame = counted_frame(item, self._wire, tally)
        try:
            self._left = self._outlet.send(frame)
        except OSError:
            self._is_gone = True
        if self._left or self._is_gone:
            return False
        self._wait_anew()
        self._turn.waiting.prolong(min(self._turn.until, lane.reader.gives_up_at))
        return True

    def finish(self) -> None:
        """Send what is left. Called by the greenlet, whenever it was woken.

        Raises:
            ClientGone: there is nobody to send it to.
        """
        if self._is_gone:
            raise ClientGone
        if self._left:
            left, self._left = self._left, b""
            try:
                self._outlet.flush(left)
            except OSError:
                raise ClientGone from None
            self._wait_anew()

    def _wait_anew(self) -> None:
        now = self._tally.waits_for(SOURCE)
        seconds = self._next_wait(now)
        self._turn.until = math.inf if seconds is None else now + seconds
