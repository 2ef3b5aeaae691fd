"""How a process hears of what others write: it looks, while anybody waits, and SQLite says for little if there is news.

What this process writes itself it tells its watchers at once.
"""

from __future__ import annotations

import os
import threading
from typing import Any, Callable

from flaskstream.errors import StoreUnavailable
from flaskstream.native import original
from flaskstream.stores.sqlite.connections import Connection
from flaskstream.stores.sqlite.rows import state_of
from flaskstream.stores.watchers import Watchers

INTERVAL = 0.025
"""Seconds between two looks. A watcher hears within a tenth of a second."""

Look = Callable[[Callable[[Connection], "list[str]"]], "list[str]"]
"""Runs a question on a connection, and returns its answer."""


class Poller:
    """One thread for all watchers of a process, or one greenlet; it ends when nobody watches.

    Args:
        ask: runs a question on some connection.
    """

    def __init__(self, ask: Look) -> None:
        self._ask = ask
        self._watchers = Watchers()
        self._lock = original("_thread", "RLock")()
        self._runs = False
        self._closed = threading.Event()
        self._process = os.getpid()
        self._known: dict[str, tuple[Any, ...] | None] = {}
        self._missed = False

    def watch(self, stream_id: str, notify: Callable[[], None]) -> Callable[[], None]:
        """See `Store.watch`."""
        end = self._watchers.add(stream_id, notify)
        with self._lock:
            starts, self._runs = not self._runs, True
        if starts:
            threading.Thread(target=self._run, name="flaskstream-sqlite", daemon=True).start()
        return end

    def tell(self, *stream_ids: str) -> None:
        """Tell those who watch one of these streams that this process has changed it."""
        self._watchers.notify(stream_ids)

    def doubt(self) -> None:
        """This process may have changed something and not told anybody."""
        self._missed = True

    def close(self) -> None:
        """End the thread."""
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.wait(INTERVAL) and self._process == os.getpid():
            if self._may_end():
                return
            try:
                changed = self._ask(self._changed)
            except StoreUnavailable:  # whoever waits looks by itself now and then
                continue
            self._watchers.notify(changed)

    def _may_end(self) -> bool:
        with self._lock:
            self._runs = bool(self._watchers.watched())
        return not self._runs

    def _changed(self, connection: Connection) -> list[str]:
        """Return which of the watched streams are not as they were at the last look, and those that had none yet."""
        (seen,) = connection.execute("PRAGMA data_version").fetchone()
        watched = self._watchers.watched()
        is_new = seen != connection.seen or self._missed
        if not is_new and self._known.keys() >= set(watched):
            return []
        self._missed, connection.seen = False, seen
        states = state_of(connection, watched)
        known, self._known = self._known, {stream_id: states.get(stream_id) for stream_id in watched}
        return [one for one in watched if one not in known or known[one] != self._known[one]]
