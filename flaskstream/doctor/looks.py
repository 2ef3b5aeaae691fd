"""One look at a hop: what was asked of it, and when each tick or event came. Pure: values, and what follows from them.

Two clocks are in a look. `came` is the client's, in seconds since its request left; `due` and `sent` are the app's, in
seconds since the request reached it. Each is a duration on its own clock, so no offset between the clocks is in their
difference; what is left in it is the way of the request, and that is known where both run on one machine.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from statistics import median
from typing import Mapping, Sequence

ALONE_SHARE = 0.2
"""Ticks that come within this share of their interval after the one before came together with it."""

TOGETHER_SECONDS = 0.012
"""Events of an ordinary endpoint did not come together if they are further apart than this, whatever their pace."""


@dataclass(frozen=True)
class Variant:
    """What a look asks for; the experiments are variants of the first one.

    Attributes:
        name: of the experiment.
        is_probe: the probe is asked, whose ticks carry stamps; else an ordinary endpoint, whose events do not.
        method, http_version: of the request; "1.0", "1.1" or "2".
        accept_encoding: the header; `None`: none is sent.
        type: "event-stream", "plain" or "ndjson".
        x_accel_buffering: what the app is asked to send; "": no such header.
        cache_control: likewise; `None`: what it sends by itself, in which there is no-transform.
        pad: bytes more in each tick.
        interval_ms, count: of the ticks.
        silence_ms: said nothing after half of them.
        heartbeat_ms: between comments in that silence; 0: none.
        at_once: how many requests at the same time.
        leave_after: ticks after which the client goes; `None`: it stays.
    """

    name: str = "first"
    is_probe: bool = True
    method: str = "GET"
    http_version: str = "1.1"
    accept_encoding: str | None = None
    type: str = "event-stream"
    x_accel_buffering: str = "no"
    cache_control: str | None = None
    pad: int = 0
    interval_ms: int = 100
    count: int = 20
    silence_ms: int = 0
    heartbeat_ms: int = 0
    at_once: int = 1
    leave_after: int | None = None

    @property
    def interval(self) -> float:
        """In seconds."""
        return self.interval_ms / 1000

    @property
    def seconds(self) -> float:
        """How long the ticks take where nothing holds them."""
        return (self.count * self.interval_ms + self.silence_ms) / 1000


@dataclass(frozen=True)
class Tick:
    """A tick of the probe: its number, when it was due and was sent, when it came, and its bytes before any coding.

    Of an ordinary endpoint it is an event, or a piece of its body; when that was sent is not known, and so it is said
    to have been sent when it came.
    """

    number: int
    due: float
    sent: float
    came: float
    size: int


@dataclass(frozen=True)
class Burst:
    """Ticks that came together: when the first and the last of them did, how many, and their bytes."""

    came: float
    ticks: int
    size: int
    ended: float


@dataclass(frozen=True)
class Look:
    """What one request showed. All times are in seconds.

    Attributes:
        variant: what was asked for.
        status: `None`: there was no answer.
        headers: of the answer, their names in lower case.
        framing: "chunked", "length", "close", or "http2".
        coding: the Content-Encoding; "identity" for none.
        connect: how long the connection took, which is one round trip.
        headers_at: since the request left, as are the next ones.
        first_byte_at: of the body, coded.
        ticks: in the order in which they came.
        pieces: of a body whose coding is not undone here, so that no ticks are seen: when each came, and its bytes.
        hello: what tick 0 said of the app.
        ended: how, as `measure.Exchange` names it.
        ended_at: since the request left.
        error: what was expected and what came, where the end is none.
        is_whole: the end is one, by its framing and by the last event or tick.
        queued: how long the request took to the app; `None`: the clocks cannot be compared.
        strangers: events, or lines, that are no ticks and not the end.
        left_was_asked: the app has answered what became of the client that left.
        left_noticed: seconds from the client's going to the app's notice; `None`: it is not known, or did not.
        began_at: when the request left, on the clock of the whole examination.
        is_direct: the app saw the client's own address: there is no proxy between; `None`: it does not say.
    """

    variant: Variant
    status: int | None
    headers: Mapping[str, str] = field(default_factory=dict)
    framing: str = ""
    coding: str = "identity"
    connect: float = 0.0
    headers_at: float | None = None
    first_byte_at: float | None = None
    ticks: tuple[Tick, ...] = ()
    pieces: tuple[tuple[float, int], ...] = ()
    hello: Mapping[str, object] = field(default_factory=dict)
    ended: str = ""
    ended_at: float = 0.0
    error: str = ""
    is_whole: bool = False
    queued: float | None = None
    left_noticed: float | None = None
    left_was_asked: bool = True
    strangers: int = 0
    began_at: float = 0.0
    is_direct: bool | None = None

    @property
    def is_answer(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    @property
    def way(self) -> float:
        """How long the request took to the app, as far as is known: at least half a round trip."""
        return self.connect / 2 if self.queued is None else self.queued

    def nearer(self, seconds: float) -> Look:
        """Return the same, as if the app were so much nearer."""
        return replace(self, queued=self.way + seconds)

    @property
    def delays(self) -> tuple[float, ...]:
        """How long after it was sent each tick came."""
        return tuple(tick.came - tick.sent - self.way for tick in self.ticks)

    @property
    def median_delay(self) -> float | None:
        """Of an ordinary endpoint there is none: when its events were sent is not known."""
        return median(self.delays) if self.ticks and self.variant.is_probe else None

    @property
    def max_delay(self) -> float | None:
        return max(self.delays) if self.ticks and self.variant.is_probe else None

    @property
    def bursts(self) -> tuple[Burst, ...]:
        """The ticks, those that came together in one."""
        return bursts_of(self.ticks, self._together)

    @property
    def _together(self) -> float:
        """Seconds within which two ticks came together; of an endpoint by its own pace, which nobody asked for."""
        if self.variant.is_probe:
            return self.variant.interval * ALONE_SHARE
        took = self.ticks[-1].came - self.ticks[0].came if self.ticks else 0.0
        return min(TOGETHER_SECONDS, took / max(len(self.ticks) - 1, 1) * ALONE_SHARE)

    @property
    def silences(self) -> tuple[float, ...]:
        """How long nothing came: before the first tick, between two, and at last between the last one and the end."""
        times = (0.0, *(tick.came for tick in self.ticks), self.ended_at)
        return tuple(later - earlier for earlier, later in zip(times, times[1:]))

    @property
    def missing(self) -> int:
        """How many ticks never came, of those that were asked for."""
        return max(0, self.variant.count + 1 - len({tick.number for tick in self.ticks}))

    @property
    def stall(self) -> float:
        """The longest time by which the app itself was late with a tick."""
        return max((tick.sent - tick.due for tick in self.ticks), default=0.0)


def bursts_of(ticks: Sequence[Tick], together: float) -> tuple[Burst, ...]:
    """Return the ticks grouped: one that came within `together` seconds of the one before belongs to it."""
    groups: list[list[Tick]] = []
    for tick in ticks:
        if groups and tick.came - groups[-1][-1].came <= together:
            groups[-1].append(tick)
        else:
            groups.append([tick])
    return tuple(Burst(group[0].came, len(group), sum(tick.size for tick in group), group[-1].came) for group in groups)
