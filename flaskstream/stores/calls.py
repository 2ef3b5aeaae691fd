"""Calls that wait in the kernel, kept away from gevent's hub: a file's lock can be waited for in no other way."""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, TypeVar

from flaskstream.errors import StoreUnavailable
from flaskstream.native import is_patched, original

T = TypeVar("T")


class Lane:
    """Runs calls, so many at once: under gevent in threads of the system, and elsewhere in the thread that calls.

    A call that has begun goes on where its greenlet is killed; it has to give back by itself what it takes.

    Args:
        width: how many at once.
        patience: seconds that a call waits for its turn.
    """

    def __init__(self, width: int, patience: float) -> None:
        self._width = width
        self._patience = patience
        self._turns = threading.BoundedSemaphore(width)
        self._of_thread = original("_thread", "_local")()  # a pool of gevent's belongs to one hub, and so to one thread

    def run(self, call: Callable[[], T]) -> T:
        """Return what `call` returns, or raise what it raises.

        Raises:
            StoreUnavailable: its turn did not come in time.
        """
        if is_patched():
            return self._run_apart(call)
        if not self._turns.acquire(timeout=self._patience):
            raise self._too_late()
        try:
            return call()
        finally:
            self._turns.release()

    def close(self) -> None:
        """Give the threads back."""
        pool = self._of_thread.__dict__.pop("pool", None)
        if pool is not None:
            pool.kill()

    def _run_apart(self, call: Callable[[], T]) -> T:
        deadline = time.monotonic() + self._patience

        def outcome() -> tuple[T | None, BaseException | None]:  # gevent prints what a thread of its pool raises
            try:
                if time.monotonic() > deadline:
                    raise self._too_late()
                return call(), None
            except BaseException as error:
                return None, error

        result, error = self._pool().spawn(outcome).get()
        if error is not None:
            raise error
        return result  # type: ignore[no-any-return]

    def _pool(self) -> Any:
        pool = getattr(self._of_thread, "pool", None)
        if pool is None:
            from gevent.threadpool import ThreadPool

            pool = self._of_thread.pool = ThreadPool(self._width)
        return pool

    def _too_late(self) -> StoreUnavailable:
        return StoreUnavailable(
            f"expected the store to be free within {self._patience:g} s, got {self._width} busy calls"
        )
