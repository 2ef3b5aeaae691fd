"""The demonstration app as the workers of a soak serve it, with a route that shows what a worker holds."""

from __future__ import annotations

import gc
import os
import threading
import time
from typing import Any, Iterator

from flask import jsonify

from flaskstream import event_stream
from flaskstream.app import create_app
from flaskstream.native import is_patched
from flaskstream.open_streams import OPEN_STREAMS
from flaskstream.upstream.pool import FreshAdapter
from soak.plays import OWN, OWN_WORDS

app = create_app()

_generators = {"open": 0}
_lock = threading.Lock()


def _count(more: int) -> None:
    with _lock:
        _generators["open"] += more


@app.route(OWN, methods=["POST"])
@event_stream(heartbeat=0.2)
def own() -> Iterator[Any]:
    """A generator that a user might write: it sleeps, it has a cleanup, and that takes its time."""
    _count(1)
    try:
        for word in OWN_WORDS:
            time.sleep(0.02)
            yield {"t": word}
    finally:
        try:
            time.sleep(0.02)
        finally:  # a client may leave while this ends by itself, and under gevent that sleep is interrupted as well
            _count(-1)


@app.route("/soak/held")
def held() -> Any:
    """What this worker holds now, this request's share included."""
    gc.collect()
    return jsonify(
        pid=os.getpid(),
        held={
            "streams": len(OPEN_STREAMS),
            "generators": _generators["open"],
            "pump threads": _count_threads("flaskstream-pump"),
            "threads of the kit": _count_threads("flaskstream-"),
            "greenlets": _count_greenlets(),
        },
        idle_connections=sum(map(_idle_connections, _of_type(FreshAdapter))),
    )


def _count_threads(prefix: str) -> int:
    return sum(thread.name.startswith(prefix) for thread in threading.enumerate())


def _count_greenlets() -> int:
    if not is_patched():
        return 0
    from gevent import Greenlet  # and not those with which gevent runs its few real threads

    return sum(not found.dead for found in _of_type(Greenlet))


def _of_type(kind: type) -> list[Any]:
    return [found for found in gc.get_objects() if isinstance(found, kind)]


def _idle_connections(adapter: FreshAdapter) -> int:
    """How many connections to the upstream are kept for the next request: they are no leak."""
    pools = adapter.poolmanager.pools
    keys = pools.keys()  # it cannot be iterated itself
    kept = [connection for key in keys for connection in list(pools[key].pool.queue)]
    return sum(getattr(connection, "sock", None) is not None for connection in kept)
