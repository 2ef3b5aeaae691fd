"""What one look has the shape of: a table of rules, the first that fits. Pure.

A shape is not yet a verdict: one look cannot tell a buffer of 4 KB from one that waits for the end, nor a size from a
time. Several looks can; see `verdicts`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Callable, Sequence

from flaskstream.doctor.looks import ALONE_SHARE, Burst, Look, Tick, bursts_of
from flaskstream.probe.plan import CONTENT_TYPES

PROMPT_SHARE = 0.35
"""A tick that comes within this share of its interval was not held,"""
PROMPT_SECONDS = 0.06
"""nor one that comes within this: what a busy machine needs to get round to it."""

SINGLY_SHARE = 0.7
"""Of the ticks of a stream, at least so many come alone; two in one read now and then are the machine's noise."""

REPLAY_SECONDS = 0.5
"""Nothing can reach the app before it was sent; a busy machine may note the sending that much too late."""

EARLY_SHARE = 0.08
"""What waits for the next tick does not come before it, but for this share of an interval, which is measuring."""

UNDUE_SECONDS = 0.05
"""The app waits for a tick by its own clock: none is sent so much before it is due."""

LATE_SHARE = 0.8
"""Of a body that cannot be decoded: so much of it, in the last part of the time, was held to the end."""

RISING_SHARE = 0.8
"""Of the ticks behind a limit on the rate so many are each later than the one before: nothing ever catches up."""

STALL_INTERVALS = 1.5
STALL_SECONDS = 0.12
"""An app that is later with a tick than this is itself what stalls."""


@dataclass(frozen=True)
class Shape:
    """How the ticks of one look came.

    Attributes:
        kind: "unreachable", "not_a_stream", "replayed", "impossible", "silent", "cut", "cut_in_silence",
            "source_stalled", "streams", "held_to_end", "first_block", "one_late", "lagged", "throttled" or "bursts".
        delay: the median delay of the ticks, in seconds.
        longest: the longest delay, but for one that the machine may have made.
        size: bytes in a burst; 0: it does not matter.
        ticks: in a burst; 0: likewise.
        is_even: all bursts have as many ticks, but for a few.
        first_size: bytes in the first burst.
        first_came: when that came, in seconds since the request left.
    """

    kind: str
    delay: float = 0.0
    longest: float = 0.0
    size: int = 0
    ticks: int = 0
    is_even: bool = False
    first_size: int = 0
    first_came: float = 0.0

    @property
    def holds(self) -> bool:
        """Something held what was sent."""
        return self.kind in HOLDING


HOLDING = ("held_to_end", "first_block", "one_late", "lagged", "throttled", "bursts")


def shape_of(look: Look) -> Shape:
    """Return the shape of a look."""
    if not look.variant.is_probe:
        return shape_of_arrivals(look)
    if look.pieces and look.is_answer:
        return _shape_of_pieces(look)
    for kind, fits in RULES:
        if fits(look):
            return _shape(kind, look)
    return _shape("bursts", look)


def _shape(kind: str, look: Look) -> Shape:
    bursts = look.bursts[:-1] or look.bursts  # the last one is what the end of the stream let go
    delays = sorted(look.delays)
    ticks = round(median(burst.ticks for burst in bursts)) if bursts else 0
    even = [burst for burst in bursts if burst.ticks == ticks]
    return Shape(
        kind,
        delay=look.median_delay or 0.0,
        longest=delays[-2 if len(delays) >= 10 else -1] if delays else 0.0,
        size=int(median(burst.size for burst in bursts)) if bursts else 0,
        ticks=ticks,
        is_even=len(even) >= SINGLY_SHARE * len(bursts),
        first_size=bursts[0].size if bursts else 0,
        first_came=bursts[0].came if bursts else 0.0,
    )


def _shape_of_pieces(look: Look) -> Shape:
    """Tell by the arrivals alone: one for each tick, or nearly all at the end."""
    if look.error:
        return Shape("cut")
    variant = look.variant
    last = [size for came, size in look.pieces if came >= variant.seconds * LATE_SHARE]
    arrivals = bursts_of([Tick(0, 0.0, 0.0, came, size) for came, size in look.pieces], variant.interval * ALONE_SHARE)
    if len(arrivals) >= SINGLY_SHARE * variant.count:
        return Shape("streams")
    is_late = sum(last) >= LATE_SHARE * sum(size for _, size in look.pieces)
    return Shape("held_to_end" if is_late else "bursts", delay=variant.seconds / 2, longest=variant.seconds)


def prompt_seconds(look: Look) -> float:
    """Return the delay up to which a tick of this look was not held."""
    return max(PROMPT_SECONDS, look.variant.interval * PROMPT_SHARE)


def _unreachable(look: Look) -> bool:
    return look.status is None


def _not_a_stream(look: Look) -> bool:
    kind = look.headers.get("content-type", "").partition(";")[0].strip().lower()
    if look.strangers and not look.ticks:
        return True
    return not look.is_answer or not (look.ticks or kind == CONTENT_TYPES[look.variant.type].partition(";")[0])


def _replayed(look: Look) -> bool:
    return look.queued is not None and look.queued < -REPLAY_SECONDS


def _impossible(look: Look) -> bool:
    return any(is_impossible(tick) for tick in look.ticks)


def is_impossible(tick: Tick) -> bool:
    """Tell whether a tick claims to have been sent after it came, or before it was due: nothing follows from it."""
    return tick.sent - tick.came > REPLAY_SECONDS or tick.due - tick.sent > UNDUE_SECONDS


def _silent(look: Look) -> bool:
    """Nothing came for as long as one waits here, and the end did not, either."""
    return not look.ticks and look.ended in ("timeout", "left")


def _is_cut(look: Look) -> bool:
    return not look.is_whole and look.variant.leave_after is None


def _cut_in_silence(look: Look) -> bool:
    half = look.variant.count // 2
    return bool(look.variant.silence_ms) and _is_cut(look) and len(look.ticks) <= half + 1


def _source_stalled(look: Look) -> bool:
    return look.stall > look.variant.interval * STALL_INTERVALS + STALL_SECONDS and _holds_nothing(look.delays, look)


def _holds_nothing(delays: Sequence[float], look: Look) -> bool:
    return bool(delays) and median(delays) <= prompt_seconds(look)


def _streams(look: Look) -> bool:
    return _is_singly(look) and _holds_nothing(look.delays, look)


def _held_to_end(look: Look) -> bool:
    """All at once, after the last was sent."""
    if len(look.ticks) < 3:
        return not look.ticks
    first, last = look.ticks[0], look.ticks[-1]
    took = last.sent - first.sent
    return first.came >= last.sent + look.way - prompt_seconds(look) and last.came - first.came <= took * 0.2


def _first_block(look: Look) -> bool:
    """The first ones together and late, the rest as they were sent."""
    bursts = look.bursts
    if not bursts or bursts[0].ticks < 3:
        return False
    rest = look.delays[bursts[0].ticks :]
    singly = len(bursts) - 1 >= SINGLY_SHARE * len(rest)
    return len(rest) >= 2 and singly and _holds_nothing(rest, look)


def _is_singly(look: Look) -> bool:
    return bool(look.ticks) and len(look.bursts) >= SINGLY_SHARE * len(look.ticks)


def _one_late(look: Look) -> bool:
    """Each came when the next was sent, however long that was after it, and not before."""
    lags = [earlier.came - look.way - later.sent for earlier, later in zip(look.ticks, look.ticks[1:])]
    interval = look.variant.interval
    near = [lag for lag in lags if -interval * EARLY_SHARE <= lag <= interval * PROMPT_SHARE]
    return _is_singly(look) and len(lags) >= 3 and len(near) >= SINGLY_SHARE * len(lags)


def _lagged(look: Look) -> bool:
    """Each alone, and all late by the same."""
    spread = sorted(look.delays)
    middle = spread[len(spread) // 10 : len(spread) - len(spread) // 10]
    return _is_singly(look) and middle[-1] - middle[0] <= 2 * prompt_seconds(look)


def _throttled(look: Look) -> bool:
    """Each alone, and each later than the one before: they come more slowly than they are sent."""
    delays = look.delays
    rising = [later for earlier, later in zip(delays, delays[1:]) if later > earlier]
    grown = delays[-1] - delays[0] if delays else 0.0
    is_much = grown > max(2 * prompt_seconds(look), look.variant.interval)
    return _is_singly(look) and is_much and len(rising) >= RISING_SHARE * (len(delays) - 1)


RULES: tuple[tuple[str, Callable[[Look], bool]], ...] = (
    ("unreachable", _unreachable),
    ("not_a_stream", _not_a_stream),
    ("replayed", _replayed),
    ("impossible", _impossible),
    ("silent", _silent),
    ("cut_in_silence", _cut_in_silence),
    ("cut", _is_cut),
    ("source_stalled", _source_stalled),
    ("first_block", _first_block),
    ("streams", _streams),
    ("held_to_end", _held_to_end),
    ("one_late", _one_late),
    ("throttled", _throttled),
    ("lagged", _lagged),
)
"""In this order; what fits none of them is "bursts"."""


HELD_SHARE = 0.5
"""Of the events of an ordinary endpoint so many waited for others, or nothing holds them."""

END_SHARE = 0.1
"""Of the time that an answer took: what comes in the last part of it alone was held to the end."""

SHORTEST_SECONDS = 0.25
"""An answer that is over sooner shows nothing."""


def shape_of_arrivals(look: Look) -> Shape:
    """Return the shape of an ordinary endpoint's answer: without stamps, it is told by the arrivals alone."""
    bursts = look.bursts
    sizes = [burst.size for burst in bursts[:-1]]
    shape = partial(Shape, size=int(median(sizes)) if sizes else 0)
    if look.status is None:
        return shape("unreachable")
    if not look.is_answer or not look.ticks:
        return shape("not_a_stream")
    if not look.is_whole and look.ended != "left":  # by us: it has no end, or we have seen enough
        return shape("cut")
    if len(look.ticks) < 3 or look.ended_at < SHORTEST_SECONDS:
        return shape("not_a_stream" if len(look.ticks) < 3 else "streams")
    is_made_late = _is_singly(look) and look.ticks[-1].came - look.ticks[0].came > PROMPT_SECONDS
    if look.ticks[0].came >= look.ended_at * (1 - END_SHARE) and not is_made_late:
        return shape("held_to_end")
    waited = _waited(replace(look, ticks=look.ticks[:-1]).bursts)  # the last one is the end, which waits for nothing
    if sum(burst.ticks for burst in waited) < HELD_SHARE * (len(look.ticks) - 1):
        return shape("streams")
    return shape("bursts", ticks=round(median(burst.ticks for burst in waited)))


def _waited(bursts: Sequence[Burst]) -> list[Burst]:
    """Return those in which events waited for others: they came at once, and after nothing had come for a while.

    What takes its time is no burst, however close its events are; and a wait that a busy machine makes is none.
    """
    ended = (0.0, *(burst.ended for burst in bursts))
    return [
        burst
        for burst, before in zip(bursts, ended)
        if burst.ticks >= 2 and burst.ended - burst.came <= PROMPT_SECONDS < burst.came - before
    ]
