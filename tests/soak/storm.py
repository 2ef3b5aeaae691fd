"""What happens to the workers of a soak: they are killed, told to stop, and replaced by a reload."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from typing import Sequence

from flaskstream.lab.gunicorn import GunicornProcess

BLOWS = ("SIGKILL", "SIGTERM", "SIGHUP")
DEADLY = ("SIGKILL",)
"""Only this one may cut a stream without a word."""

SHORTEST_PAUSE_SECONDS = 0.5
"""Between two blows: the next one falls before the last is over."""

LONGEST_PAUSE_SECONDS = 9.0
"""A calm in which nothing has an excuse."""

LEAST_BLOWS = 4
"""Also in a short storm."""

REACH_SECONDS = 5.5
"""For so long after a blow a stream may end by it: the graceful timeout, and some for a busy machine."""


def workers_of(master: int) -> list[int]:
    with open(f"/proc/{master}/task/{master}/children") as children:
        return [int(pid) for pid in children.read().split()]


class Storm:
    """Blows that fall from `start` until `stop`.

    Args:
        server: whom they hit.
        rng: makes them up.
        seconds: how long the storm will last.

    Attributes:
        blows: when each fell, in seconds of the monotonic clock, and what it was.
    """

    def __init__(self, server: GunicornProcess, rng: random.Random, seconds: float) -> None:
        self._server = server
        self._longest_pause = min(LONGEST_PAUSE_SECONDS, max(SHORTEST_PAUSE_SECONDS, seconds / LEAST_BLOWS))
        self._rng = rng
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._blow_on, daemon=True)
        self.blows: list[tuple[float, str]] = []

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def has_hit(self, began_at: float, ended_at: float, names: Sequence[str] = BLOWS) -> bool:
        """Tell whether a stream of this time may have been hit by a blow of these."""
        return any(began_at - REACH_SECONDS <= at <= ended_at for at, name in self.blows if name in names)

    def _blow_on(self) -> None:
        while not self._stopped.wait(self._rng.uniform(SHORTEST_PAUSE_SECONDS, self._longest_pause)):
            self._blow()

    def _blow(self) -> None:
        name = self._rng.choice(BLOWS)
        workers = workers_of(self._server.pid)
        whom = self._server.pid if name == "SIGHUP" else self._rng.choice(workers or [0])
        if whom:
            self.blows.append((time.monotonic(), name))
            try:
                os.kill(whom, getattr(signal, name))
            except ProcessLookupError:
                pass  # it has gone by itself
