"""How many sockets a process may have open."""

from __future__ import annotations

import resource


def allow_all() -> int:
    """Raise this process's limit, and that of those it starts, as far as the machine allows; return it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
