"""What a comparison is told to compare."""

from __future__ import annotations

from dataclasses import dataclass, field

from flaskstream.errors import InvalidSetting
from flaskstream.lab.faults import AS_USUAL, FAULTS, Fault, active_faults
from flaskstream.settings import checked_url

MAX_CLIENTS = 64
MAX_STREAM_SECONDS = 30.0
"""Bounds: it is a comparison, not a load test."""


@dataclass(frozen=True)
class Plan:
    """What to compare.

    Attributes:
        clients: how many at once.
        tokens: that the model says to each.
        interval_ms: milliseconds between them.
        faults: names of those that are switched on alone; `None`: all that can be shown.
        upstream: base URL of a real API in place of the embedded model; it says what it likes, as fast as it likes.
        api_key: for that API.
        model: for that API.

    Raises:
        InvalidSetting: a number out of its range, no such URL, or no fault of a name that can be shown.
    """

    clients: int = 4
    tokens: int = 24
    interval_ms: int = 50
    faults: tuple[str, ...] | None = None
    upstream: str | None = None
    api_key: str | None = field(default=None, repr=False)
    model: str | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.clients <= MAX_CLIENTS:
            raise InvalidSetting(f"clients: expected 1 to {MAX_CLIENTS}, got {self.clients}")
        if self.tokens < 4:
            raise InvalidSetting(f"tokens: expected 4 or more, or nothing can be told from them, got {self.tokens}")
        if self.interval_ms < 5:
            raise InvalidSetting(f"interval_ms: expected 5 or more, or noise is all there is, got {self.interval_ms}")
        if self.tokens * self.interval_ms > MAX_STREAM_SECONDS * 1000:
            raise InvalidSetting(
                f"tokens and interval_ms: expected a stream of at most {MAX_STREAM_SECONDS:g} s,"
                f" got {self.tokens * self.interval_ms / 1000:g} s"
            )
        if self.upstream is not None:
            checked_url("upstream", self.upstream)
        for fault in self.chosen_faults:
            if not self._can_show(fault):
                raise InvalidSetting(
                    f"faults: expected none that needs the embedded model, got {fault.name!r} with an upstream"
                )

    @property
    def chosen_faults(self) -> tuple[Fault, ...]:
        """The faults to show, each once."""
        if self.faults is None:
            return tuple(filter(self._can_show, FAULTS.values()))
        return active_faults(dict.fromkeys(self.faults)) if self.faults else ()

    def _can_show(self, fault: Fault) -> bool:
        """Tell whether it shows: a real API cannot be told to cut its answer, or to frame it in another way."""
        return self.upstream is None or fault.scenario == AS_USUAL
