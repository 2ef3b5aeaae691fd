"""What was measured at the clients of a server: frozen values and their figures, no input or output.

A `ClientRun` is one stream as it was at the socket, a `ServerRun` is one server driven by several clients
at once. Every figure is derived here, so that the judge only judges and the printers only print. All
times are seconds.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Sequence

ENDINGS = ("done", "error", "cut", "left", "unreachable")
"""How a stream can end: `event: done`, `event: error`, bytes that stop without either, the client that
went on purpose, and no answer at all."""

LIVE_LAG = 0.05
"""A debug line this many seconds after its event is live, also when the interval is shorter."""

_SAME_BURST = 0.2  # of the interval: tokens closer than this came in one read, not one by one


@dataclass(frozen=True)
class ClientRun:
    """One client's stream, as it was at the socket.

    Args:
        status: the HTTP status; `None`: no answer.
        sent_at: when the request left, on the monotonic clock of the whole run.
        arrivals: when each token event was whole at the client, after `sent_at`, in order.
        ended: one of `ENDINGS`.
        ended_at: when it ended, after `sent_at`.
        code: the code of the `event: error`, where one came.
        headers: the answer's headers, as they came.

    Raises:
        ValueError: an unknown ending, or arrivals that go back in time.
    """

    status: int | None
    sent_at: float
    arrivals: tuple[float, ...]
    ended: str
    ended_at: float
    code: str | None = None
    headers: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if self.ended not in ENDINGS:
            raise ValueError(f"ended: expected one of {', '.join(ENDINGS)}, got {self.ended!r}")
        if any(gap < 0 for gap in self.gaps):
            raise ValueError(f"arrivals: expected times in order, got {self.arrivals!r:.200}")

    @property
    def first_token(self) -> float | None:
        return self.arrivals[0] if self.arrivals else None

    @property
    def gaps(self) -> tuple[float, ...]:
        return tuple(later - earlier for earlier, later in zip(self.arrivals, self.arrivals[1:]))

    @property
    def median_gap(self) -> float | None:
        return _median(self.gaps)

    @property
    def largest_gap(self) -> float | None:
        return max(self.gaps, default=None)

    def bursts(self, interval: float) -> tuple[tuple[float, int], ...]:
        """Return (time of the first token, how many) of each group that came as one.

        Args:
            interval: the seconds between tokens at the source. Arrivals closer than a fifth of it belong together.
        """
        starts: list[int] = [
            n
            for n, arrival in enumerate(self.arrivals)
            if n == 0 or arrival - self.arrivals[n - 1] >= interval * _SAME_BURST
        ]
        ends = [*starts[1:], len(self.arrivals)]
        return tuple((self.arrivals[start], end - start) for start, end in zip(starts, ends))


@dataclass(frozen=True)
class ServerRun:
    """One server, driven by several clients at once.

    Args:
        name: "fixed", "broken", or a fault's name.
        faults: the names of the faults that were switched on.
        tokens: how many tokens the model was told to say to each client.
        interval: the seconds between tokens at the source.
        clients: what each client saw.
        debug_lags: seconds between an event and its debug line on stdout, one for each line that came.
        debug_missing: how many lines never came.
        upstream_tokens_after_leaving: where the clients left early: how many tokens the model still sent.
    """

    name: str
    faults: tuple[str, ...]
    tokens: int
    interval: float
    clients: tuple[ClientRun, ...]
    debug_lags: tuple[float, ...] = ()
    debug_missing: int = 0
    upstream_tokens_after_leaving: int | None = None

    @property
    def duration(self) -> float:
        """How long the model speaks."""
        return self.tokens * self.interval

    @property
    def first_token(self) -> float | None:
        """The median over the clients that got a token."""
        return _median([client.arrivals[0] for client in self.clients if client.arrivals])

    @property
    def slowest_first_token(self) -> float | None:
        """The longest wait of any client; `None` when one waited for ever, for no figure is longer."""
        if not self.clients or self.without_token:
            return None
        return max(client.arrivals[0] for client in self.clients)

    @property
    def without_token(self) -> int:
        """How many clients never got a token."""
        return sum(not client.arrivals for client in self.clients)

    @property
    def median_gap(self) -> float | None:
        return _median([gap for client in self.clients for gap in client.gaps])

    @property
    def largest_gap(self) -> float | None:
        return max((gap for client in self.clients for gap in client.gaps), default=None)

    @property
    def bursts(self) -> int:
        """In how many groups the tokens arrived: the median over the clients."""
        counts = [len(client.bursts(self.interval)) for client in self.clients]
        return statistics.median_low(counts) if counts else 0

    def outcome_of(self, client: ClientRun) -> str:
        """Return "complete", "looked_whole" (said `done` with tokens missing), "left" or "cut"."""
        if client.ended == "done":
            return "complete" if len(client.arrivals) >= self.tokens else "looked_whole"
        return "left" if client.ended == "left" else "cut"

    def _count(self, outcome: str) -> int:
        return sum(self.outcome_of(client) == outcome for client in self.clients)

    @property
    def complete(self) -> int:
        """How many clients got every token and `done`."""
        return self._count("complete")

    @property
    def looked_whole(self) -> int:
        """How many clients got `done` with tokens missing: the one failure that nobody notices."""
        return self._count("looked_whole")

    @property
    def left(self) -> int:
        """How many clients went early, on purpose."""
        return self._count("left")

    @property
    def cut(self) -> int:
        """How many clients stayed and got no `done`: an error, bytes that stopped, or no answer."""
        return self._count("cut")

    @property
    def answered(self) -> int:
        """How many clients got a 2xx status."""
        return sum(client.status is not None and 200 <= client.status < 300 for client in self.clients)

    @property
    def median_debug_lag(self) -> float | None:
        return _median(self.debug_lags)

    @property
    def largest_debug_lag(self) -> float | None:
        return max(self.debug_lags, default=None)

    @property
    def debug_timing(self) -> str:
        """When the debug lines came out: "live", "late", "at_exit", "never", or "unmeasured"."""
        if not self.debug_lags:
            return "never" if self.debug_missing else "unmeasured"
        at_once = max(self.interval, LIVE_LAG)
        held = max(self.debug_lags) > max(self.duration / 2, at_once)
        if not held and statistics.median(self.debug_lags) <= at_once:
            return "live"
        # A buffer that filled up in the middle is written out by a print, whose own line is then live.
        return "at_exit" if held and min(self.debug_lags) > at_once else "late"


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None
