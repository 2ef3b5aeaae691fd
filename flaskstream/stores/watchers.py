"""Who waits in this process for something to happen to a stream."""

from __future__ import annotations

from typing import Callable, Iterable

from flaskstream.native import original

Notify = Callable[[], None]


class Watchers:
    """Callables by stream. The lock is the system's own: it is held for microseconds, and never while one is called.

    It may be taken again by its thread: the collector of garbage may end a watch in the middle of a call.
    """

    def __init__(self) -> None:
        self._lock = original("_thread", "RLock")()
        self._of: dict[str, list[Notify]] = {}

    def add(self, stream_id: str, notify: Notify) -> Notify:
        """Have a stream's notices go to `notify`, too; return what ends that, which may be called again."""

        def end() -> None:
            with self._lock:
                left = [one for one in self._of.get(stream_id, ()) if one is not kept]
                if left:
                    self._of[stream_id] = left
                else:
                    self._of.pop(stream_id, None)

        def kept() -> None:  # the same callable may watch twice: each time is told apart by its own wrapper
            notify()

        with self._lock:
            self._of.setdefault(stream_id, []).append(kept)
        return end

    def notify(self, stream_ids: Iterable[str]) -> None:
        """Tell all who watch one of these streams."""
        if not self._of:
            return
        with self._lock:
            told = [notify for stream_id in stream_ids for notify in self._of.get(stream_id, ())]
        for notify in told:
            notify()

    def watched(self) -> list[str]:
        """Return the ids of the streams that somebody watches."""
        with self._lock:
            return list(self._of)
