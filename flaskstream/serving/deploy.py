"""What happens to open streams when a gunicorn worker is told to stop: by a deploy, a reload or `max_requests`.

They may finish for a while, since a second answer would be paid for again. Then each one ends with an event that says
why and with a proper end, so that the worker need not cut them. Where an answer is in a store its readers are sent
elsewhere at once, while it is produced to its end here: for nearly all of the time that the worker has.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Any

from flaskstream.open_streams import GENERATIONS, OPEN_STREAMS

DRAIN_SHARE = 0.25
"""Of gunicorn's `graceful_timeout`: how long streams may finish. The rest is for their ends to reach slow clients."""

GENERATION_SHARE = 0.8
"""Of the same: how long answers may be produced apart from their delivery. The rest is for recording their ends."""

HURRY_SECONDS = 1.0
"""For their ends to be recorded, when gunicorn is told to end quickly."""

_LOOK_SECONDS = 0.1


def watch_worker(worker: Any) -> None:
    """Have the open streams of a gunicorn worker end in time when it stops. Call it in the worker, at its start.

    Args:
        worker: gunicorn's, as its hook `post_worker_init` gets it.
    """

    def watch() -> None:
        while worker.alive:
            time.sleep(_LOOK_SECONDS)
        told_at = time.monotonic()
        drain, produce, _ = _seconds(worker.cfg)
        _stop_time(worker)
        OPEN_STREAMS.leave()
        time.sleep(drain)
        GENERATIONS.leave()
        OPEN_STREAMS.stop()
        time.sleep(max(0.0, told_at + produce - time.monotonic()))
        GENERATIONS.stop()

    threading.Thread(target=watch, name="flaskstream-deploy", daemon=True).start()
    _watched.add(os.getpid())


def hurry() -> None:
    """Have all answers end now, from the hook `worker_int`: gunicorn is told to end quickly, and waits for nothing."""
    _stops_at[os.getpid()] = time.monotonic() + HURRY_SECONDS
    GENERATIONS.stop()


def _seconds(cfg: Any) -> tuple[float, float, float]:
    """How long a worker's streams may finish, its answers be produced, and it itself go on, once it is told to stop.

    One that has nothing to serve any more gives no sign of life, and gunicorn kills it after `timeout`.
    """
    most = min(cfg.graceful_timeout, cfg.timeout or cfg.graceful_timeout)
    return cfg.graceful_timeout * DRAIN_SHARE, most * GENERATION_SHARE, most


def wait_for_generations(worker: Any) -> None:
    """Wait, in a worker that has nothing else to do any more, until what it still produces has ended.

    Args:
        worker: gunicorn's, as its hook `worker_exit` gets it.
    """
    until = _stop_time(worker)
    while len(GENERATIONS) and time.monotonic() < until:
        time.sleep(_LOOK_SECONDS)


def _stop_time(worker: Any) -> float:
    """Return when this worker has to have stopped: it has been told just now, if nobody has asked this before."""
    return _stops_at.setdefault(os.getpid(), time.monotonic() + _seconds(worker.cfg)[2])


_stops_at: dict[int, float] = {}
"""When a worker that is told to stop has to have stopped, in seconds of the monotonic clock, by its process id."""


def is_watched() -> bool:
    """Tell whether this process is a worker whose open streams end in time when it stops."""
    return os.getpid() in _watched


_watched: set[int] = set()
"""Process ids: a worker that is forked from one of these is not watched."""
