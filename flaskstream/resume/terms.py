"""What is promised of the streams in a store. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from flaskstream.errors import InvalidSetting
from flaskstream.stores.protocol import Retention

RESTARTS = ("error", "resume")
"""What becomes of an answer whose producer was lost, when it is asked for again: the recorded error, or a new answer,
which is paid for again."""

SHORTEST_LEASE = 1.0
"""Seconds; a busy worker must not be taken for a lost one."""


@dataclass(frozen=True)
class Terms:
    """For how long what is kept, and who is given up. Times are in seconds.

    Attributes:
        lease: after which a producer that has not renewed it is lost.
        orphan_timeout: after which an answer that nobody follows is stopped; 0: it is produced to its end.
        retention: how much the store keeps.
        max_duration: that an answer may take; 0: any time.
        max_streams: how many answers one process may produce at once; `None`: any number.
        restart: what the same request, under the same key, gets for an answer whose producer was lost: one of
            `RESTARTS`.
    """

    lease: float = 10.0
    orphan_timeout: float = 120.0
    retention: Retention = field(default_factory=Retention)
    max_duration: float = 0.0
    max_streams: int | None = None
    restart: str = "error"

    def __post_init__(self) -> None:
        if self.lease < SHORTEST_LEASE:
            raise InvalidSetting(f"lease: expected at least {SHORTEST_LEASE:g} seconds, got {self.lease!r}")
        if not isinstance(self.retention, Retention):
            raise InvalidSetting(f"retention: expected a Retention, or None, got {self.retention!r:.80}")
        if self.restart not in RESTARTS:
            raise InvalidSetting(f"restart: expected one of {', '.join(RESTARTS)}, got {self.restart!r:.80}")
