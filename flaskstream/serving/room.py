"""Have a gunicorn worker be able to hold the streams that it takes, and say where it cannot.

Above `worker_connections` gunicorn takes no connection, and without a descriptor it cannot. Neither is told to the
client, which waits in the backlog for an answer that nobody gives.
"""

from __future__ import annotations

import logging
import os
import time
from dataclasses import dataclass
from typing import Any

from flaskstream.native import is_patched
from flaskstream.open_streams import OPEN_STREAMS

log = logging.getLogger(__name__)

DESCRIPTORS_OF_A_STREAM = 2
"""Its client's socket, and its upstream's."""

DESCRIPTORS_BESIDE = 134
"""Of the worker itself: 34 at most with a store, and 100 connections to upstreams that are kept for the next answer."""

_TELL_SECONDS = 60.0


@dataclass
class Room:
    """What a worker can hold.

    Attributes:
        connections: that it has at once, or answers at once, where each takes a thread.
        setting: of gunicorn's, that says so.
        told_at: when it was last told that all of them are taken, in seconds of the monotonic clock.
    """

    connections: int
    setting: str
    told_at: float = 0.0


_rooms: dict[int, Room] = {}
"""By process."""


def make_room(worker: Any) -> None:
    """Raise the process's limit of descriptors as far as its connections need it; log where that cannot be done.

    Args:
        worker: gunicorn's, as its hook `post_worker_init` gets it.
    """
    setting = "worker_connections" if is_patched() else "threads"
    connections = int(getattr(worker.cfg, setting))
    _rooms[os.getpid()] = Room(connections, setting)
    needed = DESCRIPTORS_OF_A_STREAM * connections + DESCRIPTORS_BESIDE
    got = _raise_descriptors(needed)
    if got < needed:
        log.warning(
            "expected room for %d descriptors, which %d connections need, got %d: further clients will wait without an"
            " answer. Raise the hard limit (LimitNOFILE=%d in systemd, ulimit -Hn), or lower %s to %d",
            *(needed, connections, got, needed, setting, max(1, (got - DESCRIPTORS_BESIDE) // DESCRIPTORS_OF_A_STREAM)),
        )


def _raise_descriptors(needed: int) -> int:
    """Return how many descriptors this process may have: so many, if it may raise its limit that far."""
    import resource  # there is none where there is no gunicorn

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return needed
    raised = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
    except (OSError, ValueError):  # a kernel that has a limit of its own
        return soft
    return raised


def tell_if_full(max_streams: int | None) -> None:
    """Log, once a minute, that a stream has taken the last connection of this worker.

    Args:
        max_streams: that may be open; the next one is refused in time if this is less.
    """
    room = _rooms.get(os.getpid())
    if room is None or len(OPEN_STREAMS) < room.connections or room.connections == 1:
        return
    now = time.monotonic()
    if now - room.told_at < _TELL_SECONDS and room.told_at:
        return
    room.told_at = now
    given = "none" if max_streams is None else max_streams
    log.warning(
        "all %d connections of this worker are taken by streams: further clients wait without an answer, not even a"
        " 503. Raise %s, or have max_streams (%s) below it",
        *(room.connections, room.setting, given),
    )
