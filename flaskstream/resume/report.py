"""How the production of an answer went, whoever read it. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AnswerReport:
    """One answer that was produced for a store; given to `on_answer`, once for each.

    Attributes:
        stream_id: as in `X-Stream-Id`.
        owner: whose it is; `None`: nobody's.
        state: how it ended: "done", "failed" or "stopped".
        reason: the code of the error, or why it was stopped; `None`: it is whole.
        events: that the model said: its tokens.
        duration_ms: from its beginning to its end.
    """

    stream_id: str
    owner: str | None
    state: str
    reason: str | None
    events: int
    duration_ms: float

    def __str__(self) -> str:
        """Return one line for the log, of `key=value`."""
        end = self.reason or self.state
        return f"id={self.stream_id} end={end} events={self.events} duration_ms={self.duration_ms:.0f}"
