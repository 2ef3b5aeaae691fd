"""Wait many times at the price of once, and let others wait in one's place.

gevent makes a watcher and a timer for each wait. Here both are kept for as long as a stream lasts, and the timer is
started again only when it has rung: of all waits for a token hardly one lasts until a heartbeat is due.
"""

from __future__ import annotations

import math
import time
from typing import Any, Callable, Iterator, Protocol

from flaskstream.native import is_patched
from flaskstream.signals import ENDED

READY, OVER = object(), object()


class GoesBy(Protocol):
    """What a wait goes by: it does what the greenlet would be woken for, where the loop has found that.

    At a `TurnBell` its `go` may be given the item that has come.
    """

    def go(self) -> bool:
        """Do it, without waiting for anything; return whether the greenlet can wait on."""
        ...

    def until(self) -> float:
        """Return when it must be woken after all, by what was done so far."""
        ...

    def finish(self) -> bool:
        """Do what is left, in the greenlet, which was woken; return whether that took time. Raises what went wrong."""
        ...


class Waiting:
    """What one greenlet at a time waits for: that another one rouses it."""

    __slots__ = (
        *("__weakref__", "_express", "_failure", "_getcurrent", "_hub", "_rings_at", "_timer", "_until", "_waiting"),
    )

    def __init__(self) -> None:
        import gevent

        self._getcurrent = gevent.getcurrent
        self._hub = gevent.get_hub()
        self._timer: Any = None
        self._rings_at = self._until = math.inf
        self._waiting: Any = None  # a greenlet
        self._express: GoesBy | None = None
        self._failure: Exception | None = None

    def wait(self, until: float, express: GoesBy | None = None) -> bool:
        """Return `False` when the time is over, or `rouse` was called.

        Args:
            until: in seconds of the monotonic clock; infinite: for ever.
            express: called in place of an end of this wait; what it raises is raised here.
        """
        self._until = until
        self._express = express
        if until < self._rings_at:
            self._set_alarm(until)
        self._waiting = self._getcurrent()
        try:
            outcome = self._switched()
        finally:
            self._waiting = None
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        return outcome is READY

    def _switched(self) -> object:
        outcome = self._hub.switch()
        while outcome is not READY and outcome is not OVER:  # somebody else's doing
            outcome = self._hub.switch()
        return outcome

    def rouse(self) -> None:
        """End a wait now. From this thread, be it in the hub or in any greenlet."""
        if self._waiting is not None:
            self._hub.loop.run_callback(self._end_wait)

    def close(self) -> None:
        """Wait no more, ever. Any number of times."""
        if self._timer is not None:
            self._timer.stop()
            self._timer.close()

    def _end_wait(self) -> None:
        if self._waiting is not None:
            self._waiting.switch(OVER)

    def _set_alarm(self, until: float) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer.close()
        self._timer = self._hub.loop.timer(max(0.0, until - time.monotonic()))
        self._timer.start(self._ring)
        self._rings_at = until

    def _ring(self) -> None:
        self._rings_at = math.inf
        if self._waiting is None:
            return
        if self._express is not None:
            try:
                self._until = self._express.until()
            except Exception as error:
                self._failure, self._until = error, 0.0
        if time.monotonic() >= self._until:
            self._end_wait()
        elif self._until < math.inf:
            self._set_alarm(self._until)


class Readable(Waiting):
    """The same, and that a socket can be read.

    Args:
        descriptor: of the socket. To be closed before that is.
    """

    __slots__ = ("_io",)

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._io = self._hub.loop.io(descriptor, 1)  # 1: readable

    def _switched(self) -> object:
        """Return `READY` when there is something to read."""
        # The kernel is told of neither: the loop looks only once a round at what has changed, and nothing has.
        if self._express is None:
            self._io.start(self._waiting.switch, READY)
        else:
            self._io.start(self._go_by)
        try:
            return super()._switched()
        finally:
            self._io.stop()

    def _go_by(self) -> None:  # in the hub a wait is ended without a detour
        try:
            if self._express is not None and self._express.go():
                return
        except Exception as error:
            self._failure = error
        self._end_wait()

    def close(self) -> None:
        self._io.stop()
        self._io.close()
        self._express = None
        super().close()


def readable(descriptor: int) -> Readable | None:
    """Return what waits for a socket where threads are greenlets; elsewhere nothing."""
    return Readable(descriptor) if is_patched() else None


class Turn:
    """Passes the waiting on from whoever runs a generator to whoever takes from it.

    As long as it is not that one's turn, a generator waits in a thread of its own. Once it waits for one thing alone,
    it begins the turn: from then on it is advanced by whoever takes, and yields an empty item when `until` has come, or
    its wait was ended by `waiting.rouse()`.

    Attributes:
        waiting: what the generator waits with; `None`: it is not yet that one's turn.
        until: when the generator must be back, in seconds of the monotonic clock; infinite: any time.
        take: returns the next item of a generator that it is given, or `ENDED`; there may be a shorter way to one.
        lane: that shorter way, such as a `flaskstream.relay.lane.Lane`; `None`: there is none.
        express: what the waits of the short way go by, if by anything.
        of_text: makes of a token's text, as JSON writes it, what the short way returns; `None`: it makes what it likes.
    """

    __slots__ = ("express", "lane", "of_text", "take", "until", "waiting")

    def __init__(self) -> None:
        self.waiting: Waiting | None = None
        self.until = math.inf
        self.take: Callable[[Iterator[Any]], Any] = _next
        self.lane: Any = None
        self.express: GoesBy | None = None
        self.of_text: Callable[[bytes], Any] | None = None

    def begin(self, waiting: Waiting) -> None:
        """Say what the generator waits with, from its next item on."""
        self.waiting = waiting

    @property
    def has_begun(self) -> bool:
        """It is the turn of whoever takes."""
        return self.waiting is not None

    def end(self) -> None:
        """Let go of what was only for this turn."""
        self.take, self.lane, self.express = _next, None, None

    def items(self, items: Iterator[Any]) -> Iterator[Any]:
        """Yield what `take` returns, for who has nothing else to do."""
        try:
            item = self.take(items)
            while item is not ENDED:
                yield item
                item = self.take(items)
        finally:
            getattr(items, "close", lambda: None)()
            self.end()


class Taker(Waiting):
    """The same, until it is rung for."""

    __slots__ = ("has_rung",)

    def __init__(self) -> None:
        super().__init__()
        self.has_rung = False

    def ring(self, item: Any = None) -> None:
        """Ring for what has come.

        Args:
            item: that alone, if whoever waits has all that came before it; `None`: it has to look.
        """
        express: Any = self._express
        if express is None or self._waiting is None:
            self.ring_later()
            return
        try:
            if express.go(item):
                return
        except Exception as error:
            self._failure = error
        self._express = None  # until the greenlet has seen to what that could not do
        self.rouse()

    def ring_later(self) -> None:
        self._express = None
        if not self.has_rung:
            self.has_rung = True
            self.rouse()


class TurnBell:
    """A `Bell` at which whoever takes waits, in its turn.

    Args:
        turn: begun by this.

    Attributes:
        taker: who waits. From this thread, as `Waiting.rouse`.
    """

    __slots__ = ("_express", "_turn", "taker")

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self.taker = Taker()
        self._express: GoesBy | None = None
        turn.begin(self.taker)

    def ring(self) -> None:
        """Do what the wait is for, or end it: now, or the next one."""
        self.taker.ring()

    def rouse(self) -> None:
        """End the wait in any case, so that its greenlet does that in a turn of its own."""
        self.taker.ring_later()

    def go_by(self, express: GoesBy | None) -> None:
        """Have all waits from now on go by this."""
        self._express = express

    def wait(self, seconds: float) -> None:
        """Wait until it rings, or the turn is over."""
        if not self.taker.has_rung:
            self.taker.wait(min(self._turn.until, time.monotonic() + seconds), self._express)
        self.taker.has_rung = False

    def close(self) -> None:
        """Be done with it."""
        self.taker.close()


def _next(items: Iterator[Any]) -> Any:
    return next(items, ENDED)
