"""Looks made without a network: what a hop does is a function, of what was sent into it, when, and until when.

Each hold takes the ticks, as (sent at, bytes), and the end, and returns when each tick comes out.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any, Callable, List, Sequence, Tuple

from flaskstream.doctor.evidence import Evidence
from flaskstream.doctor.experiments import FIRST, FLOWING, HELD, TWO
from flaskstream.doctor.looks import Look, Tick, Variant

Sent = Sequence[Tuple[float, int]]
Hold = Callable[[Sent, float], List[float]]

HELLO_BYTES, TICK_BYTES = 250, 57


def nothing(sent: Sent, end: float) -> list[float]:
    return [at for at, _ in sent]


def whole(sent: Sent, end: float) -> list[float]:
    return [end for _ in sent]


def buffer(size: int) -> Hold:
    """Passes on what fills it, and the rest at the end."""

    def hold(sent: Sent, end: float) -> list[float]:
        came, total = [end] * len(sent), 0
        fills = []
        for at, length in sent:
            total += length
            fills.append((at, total // size * size))
        total = 0
        for n, (_, length) in enumerate(sent):
            total += length
            came[n] = next((at for at, passed in fills if passed >= total), end)
        return came

    return hold


def batch(count: int) -> Hold:
    def hold(sent: Sent, end: float) -> list[float]:
        last = [min(n // count * count + count - 1, len(sent)) for n in range(len(sent))]
        return [sent[n][0] if n < len(sent) else end for n in last]

    return hold


def newest(count: int = 1) -> Hold:
    """Keeps so many of the newest ticks."""

    def hold(sent: Sent, end: float) -> list[float]:
        return [sent[n + count][0] if n + count < len(sent) else end for n in range(len(sent))]

    return hold


def clock(seconds: float, phase: float = 0.3) -> Hold:
    """Passes on what it has at every so many seconds."""

    def hold(sent: Sent, end: float) -> list[float]:
        return [min(end, ((at / seconds + phase) // 1 + 1 - phase) * seconds) for at, _ in sent]

    return hold


def cork(seconds: float = 0.205) -> Hold:
    """Passes on what it has so many seconds after the first of it came."""

    def hold(sent: Sent, end: float) -> list[float]:
        came, due = [], -1.0
        for at, _ in sent:
            if at > due:
                due = at + seconds
            came.append(min(end, due))
        return came

    return hold


def first_block(size: int) -> Hold:
    def hold(sent: Sent, end: float) -> list[float]:
        total, passed = 0, end
        for at, length in sent:
            total += length
            if total >= size:
                passed = at
                break
        return [max(at, passed) for at, _ in sent]

    return hold


def first_seconds(seconds: float) -> Hold:
    """Holds everything for so many seconds, and nothing after them."""

    def hold(sent: Sent, end: float) -> list[float]:
        return [max(at, min(seconds, end)) for at, _ in sent]

    return hold


def away(seconds: float) -> Hold:
    def hold(sent: Sent, end: float) -> list[float]:
        return [at + seconds for at, _ in sent]

    return hold


def made_look(variant: Variant, hold: Hold = nothing, noise: float = 0.002, **more: Any) -> Look:
    """Return what such a hop would show: of ticks that are sent when they are due, with some noise in each arrival."""
    rng = random.Random(f"{variant.name} {noise}")
    count = variant.leave_after or variant.count + 1
    dues = [n * variant.interval + (variant.silence_ms / 1000 if n > variant.count // 2 else 0) for n in range(count)]
    sent = [(due, (TICK_BYTES if n else HELLO_BYTES) + variant.pad) for n, due in enumerate(dues)]
    out = hold(sent, dues[-1] + 0.001)
    late = {at: rng.random() * noise for at in sorted(set(out))}  # what comes out together comes together
    came = sorted(at + late[at] for at in out)
    ticks = tuple(Tick(n, due, due, at, size) for n, ((due, size), at) in enumerate(zip(sent, came)))
    told: dict[str, Any] = {
        "status": 200,
        "headers": {"content-type": "text/event-stream"},
        "framing": "chunked",
        "headers_at": came[0],
        "first_byte_at": came[0],
        "ended": "final_chunk",
        "ended_at": came[-1],
        "is_whole": True,
        "queued": 0.0,
        "left_noticed": 0.1,
        "is_direct": False,
        "hello": {"clock": hash(variant), "worker": "gevent"},
    }
    return Look(variant=variant, ticks=ticks, **{**told, **more})


def made_evidence(hold: Hold = nothing, others: dict[str, Any] = {}, **more: Any) -> Evidence:  # noqa: B006 - not changed
    """Return all looks at such a hop; `others` are holds, or finished looks, by the names of their experiments."""
    looks = {}
    for variant in (FIRST, *HELD, *(variant for variant in FLOWING if variant not in HELD), replace(TWO, at_once=1)):
        if variant.name not in looks:
            own = others.get(variant.name, hold)
            looks[variant.name] = own if isinstance(own, Look) else made_look(variant, own, **more)
    return Evidence("http://127.0.0.1/probe", {**looks, **{k: v for k, v in others.items() if isinstance(v, Look)}})
