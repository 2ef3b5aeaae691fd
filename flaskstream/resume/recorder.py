"""Bring what answers say into the store: at once, and while a write is under way, all that waits in the next one."""

from __future__ import annotations

import functools
import logging
import os
from collections import deque
from typing import Any, Callable, Iterator

from flaskstream.background import start
from flaskstream.errors import StoreUnavailable
from flaskstream.interrupt import Bell
from flaskstream.native import original
from flaskstream.resume.live import Live
from flaskstream.stores.protocol import Batch, Store, is_instant

log = logging.getLogger(__name__)

_RETRY_SECONDS = 0.1
_IDLE_SECONDS = 60.0


class Recorder:
    """Writes for all answers of this process. Whoever adds to one never waits for the store.

    Args:
        store: where to.
        lease: seconds; see `Store.begin`.
        on_refused: called with an answer that the store does not take any more: it is over, or somebody else's.
        on_written: called with an answer whose end is in the store.

    Attributes:
        writes_at_once: whoever has something written does it, for nothing in the store waits.
    """

    def __init__(
        self,
        store: Store,
        lease: float,
        on_refused: Callable[[Live], None],
        on_written: Callable[[Live], None],
    ) -> None:
        self._store = store
        self._lease = lease
        self._on_refused = on_refused
        self._on_written = on_written
        self.writes_at_once = is_instant(store)
        self._due: deque[Live] = deque()  # an answer may be in it more than once
        self._bell: Bell | None = None
        self._starting: Any = original("_thread", "allocate_lock")()  # made before gevent may have patched
        self._writing: Any = None
        self._is_away = False
        self._runs_in: int | None = None  # a process: a forked one has no such thread

    def write(self, live: Live) -> None:
        """Have what is new of an answer written, or its lease renewed."""
        self._due.append(live)
        if self._runs_in != os.getpid():
            self._start()
        if self.writes_at_once:
            with self._writing:
                while self._due and self.writes_at_once:
                    self._write_at_once()
        else:
            self._ring()

    def _write_at_once(self) -> None:
        if not self._write_due():  # it can be away after all
            self.writes_at_once = False
            self._start_loop()

    def _start(self) -> None:
        with self._starting:
            if self._runs_in == os.getpid():
                return
            self._writing, self._bell = original("_thread", "RLock")(), Bell()
            if not self.writes_at_once:
                self._start_loop()
            self._runs_in = os.getpid()

    def _start_loop(self) -> None:
        assert self._bell is not None
        start(functools.partial(self._loop, self._bell), lambda: False, "flaskstream-recorder")

    def _ring(self) -> None:
        if self._bell is not None:
            self._bell.ring()

    def _loop(self, bell: Bell) -> None:
        while True:
            if not self._due:
                bell.wait(_IDLE_SECONDS)
            if not self._write_due():
                bell.wait(_RETRY_SECONDS)

    def _write_due(self) -> bool:
        """Write what is due; return whether the store could be asked."""
        due = {live.epoch: live for live in self._taken()}
        found = [(live, live.unwritten()) for live in due.values()]
        written = [(live, batch) for live, batch in found if batch is not None]
        if not written:
            return True
        try:
            refused = set(self._store.append([batch for _, batch in written], self._lease))
        except StoreUnavailable as error:
            if not self._is_away:
                log.warning("the store of streams cannot be asked, and is tried again: %s", error)
            self._is_away = True
            self._due.extend(live for live, _ in written)
            return False
        except Exception:  # a bug in a store must not end this thread, and with it all recording
            log.exception("the store of streams failed")
            for live, _ in written:
                live.give_up_recording()
            return False
        self._is_away = False
        for live, batch in written:
            self._wrote(live, batch, batch.stream_id in refused)
        return True

    def _taken(self) -> Iterator[Live]:
        while self._due:
            yield self._due.popleft()

    def _wrote(self, live: Live, batch: Batch, is_refused: bool) -> None:
        if is_refused:
            self._on_refused(live)
            return
        live.written(batch)
        if live.is_end_written():
            self._on_written(live)
        elif live.has_unwritten():
            self._due.append(live)
            self._ring()
