"""When clients are told to come back: never all of them at once."""

from __future__ import annotations

import random

_MOST_RETRY_AFTER = 5  # seconds
_SPREAD = 1.5
_SPREAD_AT_RESTART = 3.0
_SOONEST_ELSEWHERE = 0.1


def retry_after() -> str:
    """Return the seconds of a `Retry-After`, for who found no place."""
    return str(random.randint(1, _MOST_RETRY_AFTER))


def reconnection_times(retry: int | None) -> tuple[int | None, int | None]:
    """Return the milliseconds after which one client comes back that has lost its connection, and after a deploy.

    Args:
        retry: the shortest time that any client is told; `None`: they are told nothing.
    """
    if retry is None:
        return None, None
    return int(retry * random.uniform(1, _SPREAD)), int(retry * random.uniform(1, _SPREAD_AT_RESTART))


def time_to_move(retry: int | None) -> int | None:
    """Return the milliseconds after which one client comes back whose stream goes on elsewhere: soon, it is waiting.

    Args:
        retry: the longest time that any client is told; `None`: they are told nothing.
    """
    return None if retry is None else int(retry * random.uniform(_SOONEST_ELSEWHERE, 1))
