"""Run one generator in a thread of its own, so that whoever waits for its next item can do something else.

A user's generator blocks where it likes. While it does, heartbeats must go out and a deadline must
hold, so the generator gets a thread (under gevent: a greenlet) and hands over one item at a time through a
slot of one place: it is never more than two items ahead of the client. It is started, advanced and closed in
that one thread, and nobody else ever calls its `next()`.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import Any, Callable, Iterator

from flaskstream.background import start
from flaskstream.direct import Direct
from flaskstream.errors import AlreadyLogged, FlaskStreamError, UpstreamError
from flaskstream.signals import ENDED, NOTHING, Signal
from flaskstream.waiting import Turn

log = logging.getLogger(__name__)

Prepare = Callable[[Iterator[Any]], Iterator[Any]]
Run = Callable[[Callable[[], None]], None]


_CLOSINGS = 3
"""How often a generator is closed that yields when it is: its own cleanup may come after that."""


class EndedOtherwise(Exception):
    """A source ended neither whole nor by an error.

    Args:
        reason: of the report.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"ended: {reason}")
        self.reason = reason


class GeneratorFailed(FlaskStreamError):
    """A generator ended with something that is no `Exception`, such as `SystemExit`; see its `__cause__`."""


_NO_NEWS = (GeneratorExit, UpstreamError, AlreadyLogged, EndedOtherwise)
"""What a source that is closed may end with: the second was interrupted in its wait for an upstream."""


class Pump:
    """One generator, running elsewhere. One thread takes from it.

    Args:
        source: the generator, or any iterator. If it has a `close`, that is called once, whatever happens.
        prepare: wraps the source; called in the new thread. What it makes `None` of is left out.
        run: calls the function that it is given with the right contexts current (see `contexts`).
        at_end: called, in the new thread, when the source has ended or was closed, before anybody is told.
        turn: that the source may begin.
    """

    def __init__(
        self,
        source: Iterator[Any],
        prepare: Prepare = iter,
        run: Run = lambda function: function(),
        at_end: Callable[[], None] = lambda: None,
        turn: Turn | None = None,
    ) -> None:
        self._turn = turn
        self._direct: Direct | None = None
        self._room = threading.Lock()  # free: the slot may be filled
        self._filled = threading.Lock()  # free: the slot holds something
        self._filled.acquire()
        self._slot: Any = NOTHING
        self._signals: deque[Signal] = deque()
        self._failure: BaseException | None = None
        self._closed = False
        self._is_over = False
        self._is_advancing = False  # not when it is being closed: what it does then must not be interrupted
        self._interrupt = start(lambda: self._main(source, prepare, run, at_end), lambda: self._is_advancing)

    def peek(self, timeout: float | None) -> Any:
        """Do as `take` does, and leave the item or signal where it is."""
        while self._filled.acquire(timeout=-1 if timeout is None else timeout):
            self._free_if_filled()
            if self._signals:
                return self._signals[0]
            if self._slot is ENDED and self._failure is not None:
                failure, self._failure = self._failure, None
                raise _as_exception(failure)
            if self._slot is not NOTHING:  # else a signal was taken so soon that its lock was freed after that
                return self._slot
        return NOTHING

    def take(self, timeout: float | None) -> Any:
        """Return the next item, `NOTHING` after `timeout` seconds (`None`: wait for it), or `ENDED`.

        A signal that `wake` was given comes before any item.

        Raises:
            Exception: whatever the generator raised; once.
            GeneratorFailed: what it raised was no `Exception`.
        """
        if self._direct is not None and self._slot is NOTHING:
            self.take = self._direct.take  # type: ignore[method-assign]
            return self._direct.take(timeout)
        item = self.peek(timeout)
        if item is NOTHING or item is ENDED:
            return item
        self._filled.acquire()
        if isinstance(item, Signal):
            self._signals.popleft()
        else:
            self._slot = NOTHING
            _free(self._room)
        self._free_if_filled()
        return item

    def _free_if_filled(self) -> None:
        if self._signals or self._slot is not NOTHING:
            _free(self._filled)

    def wake(self, signal: Signal) -> None:
        """Have whoever takes get this, now. From any thread, and without waiting."""
        self._signals.append(signal)
        _free(self._filled)
        if self._direct is not None:
            self._direct.rouse()

    def close(self) -> None:
        """Have the generator closed, in its own thread and without waiting for it. Any number of times.

        Under gevent a generator that waits is interrupted by `GeneratorExit` where it waits, be it in a `finally` that
        it reached by itself. In a real thread only its wait for an `Upstream` is; whatever else it waits for, it is
        closed when it yields next.
        """
        if not self._closed:
            self._closed = True
            if self._direct is not None:
                self._direct.close()
                return
            _free(self._room)
            self._interrupt()
            if self._failure is not None:
                self._note(self._failure)  # and nobody was told

    def _main(self, source: Iterator[Any], prepare: Prepare, run: Run, at_end: Callable[[], None]) -> None:
        try:
            run(lambda: self._loop(source, prepare, at_end))
        except BaseException as error:
            if self._is_over:  # a teardown function failed: the answer was whole
                log.error("a stream has ended, and what came after it failed: %r", error, exc_info=error)
            else:
                self._note(error)
                self._close(source)
        if self._direct is None:
            at_end()
            self._put(ENDED)

    def _loop(self, source: Iterator[Any], prepare: Prepare, at_end: Callable[[], None]) -> None:
        items = source
        try:
            if not self._closed:  # else its first line must not run
                items = prepare(source)
                if self._hand_over(items) and self._turn is not None:
                    self._begin_turn(self._turn, items, source, at_end)
                    return
        except BaseException as error:  # SystemExit too: it must reach the client as an error, not as an end
            self._note(error)
        if items is not source:
            self._close(items)
        self._close(source)
        if self._turn is not None:
            self._turn.end()
        self._is_over = True

    def _begin_turn(self, turn: Turn, items: Iterator[Any], source: Iterator[Any], at_end: Callable[[], None]) -> None:
        def close() -> None:
            self._closed = True  # and nobody is told what its closing raises
            if items is not source:
                self._close(items)
            self._close(source)
            at_end()

        self._direct = Direct(items, turn, self._signals, close)

    def _hand_over(self, items: Iterator[Any]) -> bool:
        """Hand over the items; return whether there may be more of them in the turn of whoever takes."""
        self._is_advancing = True
        try:
            for item in items:
                if item is not None:  # an empty one, which only shows that it is alive
                    self._put(item)
                    if self._turn is not None and self._turn.has_begun:
                        return not self._closed
                if self._closed:
                    break
            return False
        finally:
            self._is_advancing = False

    def _put(self, item: Any) -> None:
        self._room.acquire()
        if self._closed:
            _free(self._room)  # nobody takes any more, so nobody else would free it
        self._slot = item
        _free(self._filled)

    def _close(self, items: Iterator[Any]) -> None:
        for _ in range(_CLOSINGS):
            try:
                getattr(items, "close", _nothing)()
            except BaseException as error:
                self._note(error)
            if getattr(items, "gi_frame", None) is None:
                return

    def _note(self, error: BaseException) -> None:
        """Keep the first error for whoever takes; once nobody does, a user's error goes to the log."""
        if not self._closed:
            self._failure = self._failure or error
        elif not isinstance(error, _NO_NEWS):
            log.warning("a generator failed while it was closed: %r", error, exc_info=error)


def _as_exception(failure: BaseException) -> Exception:
    if isinstance(failure, Exception):
        return failure
    error = GeneratorFailed(f"the generator ended with {type(failure).__name__}")
    error.__cause__ = failure
    return error


def _nothing() -> None:
    """Stand in for the `close` of an iterator that has none."""


def _free(lock: threading.Lock) -> None:
    try:
        lock.release()
    except RuntimeError:
        pass  # it was free
