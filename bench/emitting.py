"""What the views without an upstream say: a text at a pace, with the time at which it was made."""

from __future__ import annotations

import time
from typing import Iterator

INTERVAL_SECONDS = 0.05

_PADDING = "." * 180  # as many bytes as an event of a model has


def text() -> str:
    """Return a token; see `bench.paced_upstream` about its time."""
    return f" token @{time.monotonic_ns():016d}{_PADDING}"


def paced() -> Iterator[str]:
    """Yield tokens for ever."""
    while True:
        yield text()
        time.sleep(INTERVAL_SECONDS)
