"""What happens to open streams when a gunicorn worker is told to stop: by a deploy, a reload or `max_requests`.

They may finish for a while, since a second answer would be paid for again. Then each one ends with an event that says
why and with a proper end, so that the worker need not cut them.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Any

from flaskstream.open_streams import OPEN_STREAMS

DRAIN_SHARE = 0.25
"""Of gunicorn's `graceful_timeout`: how long streams may finish. The rest is for their ends to reach slow clients."""

_LOOK_SECONDS = 0.1


def watch_worker(worker: Any) -> None:
    """Have the open streams of a gunicorn worker end in time when it stops. Call it in the worker, at its start.

    Args:
        worker: gunicorn's, as its hook `post_worker_init` gets it.
    """

    def watch() -> None:
        while worker.alive:
            time.sleep(_LOOK_SECONDS)
        time.sleep(worker.cfg.graceful_timeout * DRAIN_SHARE)
        OPEN_STREAMS.stop()

    threading.Thread(target=watch, name="flaskstream-deploy", daemon=True).start()
    _watched.add(os.getpid())


def is_watched() -> bool:
    """Tell whether this process is a worker whose open streams end in time when it stops."""
    return os.getpid() in _watched


_watched: set[int] = set()
"""Process ids: a worker that is forked from one of these is not watched."""
