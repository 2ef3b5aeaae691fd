"""Run one generator in a thread of its own, so that whoever waits for its next item can do something else.

A user's generator blocks where it likes. While it does, heartbeats must go out and a deadline must
hold, so the generator gets a thread (under gevent: a greenlet) and hands over one item at a time through a
slot of one place: it is never more than two items ahead of the client. It is started, advanced and closed in
that one thread, and nobody else ever calls its `next()`.
"""

from __future__ import annotations

import logging
import sys
import threading
from typing import Any, Callable, Iterator

from flaskstream.errors import FlaskStreamError

log = logging.getLogger(__name__)


class _Signal:
    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


NOTHING = _Signal("NOTHING")
"""No item came in the time given."""
ENDED = _Signal("ENDED")
"""The generator ended by itself; no item will come."""


class GeneratorFailed(FlaskStreamError):
    """A generator ended with something that is no `Exception`, such as `SystemExit`; see its `__cause__`."""


class Pump:
    """One generator, running elsewhere.

    Args:
        source: the generator, or any iterator. If it has a `close`, that is called, whatever happens.
        prepare: wraps the source; called in the new thread.
        run: calls the function that it is given with the right contexts current (see `contexts`).
    """

    def __init__(
        self,
        source: Iterator[Any],
        prepare: Callable[[Iterator[Any]], Iterator[Any]] = iter,
        run: Callable[[Callable[[], None]], None] = lambda function: function(),
    ) -> None:
        self._source = source
        self._prepare = prepare
        self._room = threading.Lock()  # free: the slot may be filled
        self._item = threading.Lock()  # free: the slot holds something
        self._item.acquire()
        self._slot: Any = NOTHING
        self._failure: BaseException | None = None
        self._closed = False
        self._is_running = False  # the generator may be interrupted
        self._interrupt = _start(lambda: run(self._loop))

    def take(self, timeout: float | None) -> Any:
        """Return the next item, `NOTHING` after `timeout` seconds (`None`: wait for it), or `ENDED`.

        Raises:
            Exception: whatever the generator raised.
            GeneratorFailed: what it raised was no `Exception`.
        """
        if not self._item.acquire(timeout=-1 if timeout is None else timeout):
            return NOTHING
        item, self._slot = self._slot, NOTHING
        if item is not ENDED:
            self._room.release()
            return item
        if self._failure is None:
            return ENDED
        if isinstance(self._failure, Exception):
            raise self._failure
        raise GeneratorFailed(f"the generator ended with {type(self._failure).__name__}") from self._failure

    def close(self) -> None:
        """Have the generator closed, in its own thread and without waiting for it. Any number of times.

        Under gevent a generator that waits is interrupted by `GeneratorExit` where it waits. A real thread
        cannot be interrupted: there, the generator is closed when it yields next.
        """
        if self._closed:
            return
        self._closed = True
        _free(self._room)
        if self._is_running:
            self._interrupt()

    def _loop(self) -> None:
        self._is_running = True
        items = self._source
        try:
            if not self._closed:  # else its first line must not run
                items = self._prepare(self._source)
                self._hand_over(items)
        except BaseException as error:  # SystemExit too: it must reach the client as an error, not as an end
            self._note(error)
        try:
            getattr(items, "close", _nothing)()
        except BaseException as error:
            self._note(error)
        self._is_running = False
        self._put(ENDED)

    def _hand_over(self, items: Iterator[Any]) -> None:
        for item in items:
            if self._closed:
                return
            self._put(item)

    def _note(self, error: BaseException) -> None:
        """Keep the first error for whoever takes; once nobody does, a user's error goes to the log."""
        if not self._closed:
            self._failure = self._failure or error
        elif not isinstance(error, GeneratorExit):
            log.warning("a generator failed while it was closed: %r", error, exc_info=error)

    def _put(self, item: Any) -> None:
        self._room.acquire()
        self._slot = item
        _free(self._item)


def _nothing() -> None:
    """Stand in for the `close` of an iterator that has none."""


def _free(lock: threading.Lock) -> None:
    try:
        lock.release()
    except RuntimeError:
        pass  # it was free


def _start(target: Callable[[], None]) -> Callable[[], None]:
    """Run the target in a thread or greenlet; return what interrupts its waiting."""
    monkey = sys.modules.get("gevent.monkey")
    if monkey is None or not monkey.is_module_patched("threading"):
        threading.Thread(target=target, name="flaskstream-pump", daemon=True).start()
        return _nothing
    import gevent

    greenlet = gevent.spawn(target)
    return lambda: greenlet.kill(exception=GeneratorExit, block=False)
