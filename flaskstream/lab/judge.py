"""Does a run stream? Two tables of rules and a verdict; measurement in, sentences out, no input or output.

Each rule of `MUST_HOLD` must hold for the fixed mode; at least one of `SIGNS` must be seen in the broken
mode. A rule returns what it has to say, or `None`, so adding one is one function and one entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Sequence

from flaskstream.lab.figures import count_text, seconds_text
from flaskstream.lab.runs import ClientRun, ServerRun

FIRST_TOKEN_SHARE = 0.25
"""A stream whose first token takes this share of its duration longer than the model takes to say it feels like none."""

BURST_SHARE = 0.8
"""Tokens that come one by one leave about as many bursts as there are tokens; the rest is noise."""

GAP_INTERVALS = 5
GAP_NOISE = 0.25
"""A gap may be this many intervals and, on a busy machine, this many seconds more."""


@dataclass(frozen=True)
class Verdict:
    """Whether the fixed mode streams and the broken mode does not.

    Args:
        ok: both are so.
        reasons: whole sentences with figures: what was seen if it is so, what is amiss if it is not.
        line: the verdict in one sentence.
    """

    ok: bool
    reasons: tuple[str, ...]
    line: str


_LINES = {
    (True, True): "Fixed streams, broken does not.",
    (True, False): "Fixed streams, but broken was not seen to fail.",
    (False, True): "Fixed does not stream.",
    (False, False): "Fixed does not stream, and broken was not seen to fail.",
}


def verdict_on(fixed: ServerRun, broken: ServerRun) -> Verdict:
    """Return whether the fixed run streams and the broken run does not, and why."""
    amiss, signs = complaints(fixed), signs_of_holding(broken)
    line = _LINES[not amiss, bool(signs)]
    if signs and not amiss:
        return Verdict(True, (_praise(fixed), *signs), line)
    return Verdict(False, amiss + (() if signs else (_no_sign(broken),)), line)


def complaints(run: ServerRun) -> tuple[str, ...]:
    """Return one sentence for each rule of `MUST_HOLD` that the run breaks: none if it streams."""
    nothing = _nothing_measured(run)
    return (nothing,) if nothing else _say(MUST_HOLD, run)


def signs_of_holding(run: ServerRun) -> tuple[str, ...]:
    """Return one sentence for each of `SIGNS` that the run shows: none if it streams.

    A server that answered nobody shows nothing: it may not have run at all.
    """
    return () if _nothing_measured(run) else _say(SIGNS, run)


def flows(run: ServerRun, client: ClientRun) -> bool:
    """Tell whether this client's tokens, as many as it got, came early and one by one."""
    first, came = client.first_token, len(client.arrivals)
    early = first is not None and first < max(run.duration * FIRST_TOKEN_SHARE, run.interval)
    return early and len(client.bursts(run.interval)) >= came * BURST_SHARE


def _say(rules: Sequence[Callable[[ServerRun], str | None]], run: ServerRun) -> tuple[str, ...]:
    said = (rule(run) for rule in rules)
    return tuple(f"{run.name}: {sentence}." for sentence in said if sentence)


def _nothing_measured(run: ServerRun) -> str | None:
    """Return why there is nothing to judge, or `None` if there is something."""
    if not run.clients:
        return f"{run.name}: no client was driven, so nothing was measured."
    if not run.tokens:
        return f"{run.name}: the model was told to say nothing, so nothing was measured."
    if run.answered:
        return None
    statuses = sorted({client.status for client in run.clients if client.status is not None})
    answer = f"a 2xx answer, but {', '.join(map(str, statuses))}" if statuses else "an answer"
    return f"{run.name}: no client got {answer}, so nothing was measured."


def _incomplete(run: ServerRun) -> str | None:
    if run.complete == len(run.clients):
        return None
    return f"{_of_clients(run.complete, run)} got all {run.tokens} tokens and `done`; {_unfinished(run)}"


def _unfinished(run: ServerRun) -> str:
    """Say what became of the clients that are not complete."""
    parts = (
        (run.cut, f"{_were(run.cut)} cut off"),
        (run.looked_whole, f"{_were(run.looked_whole)} told `done` with tokens missing"),
        (run.left, "left early"),
    )
    return ", ".join(f"{count} {what}" for count, what in parts if count)


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


def _slow_start(run: ServerRun) -> str | None:
    slowest, limit = run.slowest_first_token, run.interval + run.duration * FIRST_TOKEN_SHARE
    if slowest is None:
        return f"{_of_clients(run.without_token, run)} never got a token"
    if slowest < limit:
        return None
    return f"{_first_token_came(run)}, and {seconds_text(limit)} is the limit"


def _clumped(run: ServerRun) -> str | None:
    if run.bursts >= run.tokens * BURST_SHARE:
        return None
    return f"{_arrived_in(run)}, not one by one"


def _stalled(run: ServerRun) -> str | None:
    largest, limit = run.largest_gap, run.interval * GAP_INTERVALS + GAP_NOISE
    if largest is None or largest < limit:
        return None
    pace = seconds_text(run.interval)
    return f"the largest gap between two tokens was {seconds_text(largest)}, at one token every {pace}"


MUST_HOLD = (_incomplete, _slow_start, _clumped, _stalled)
"""What breaks the claim that a run streams. Each returns a sentence about what is amiss, or `None`."""


def _first_token_after_the_last(run: ServerRun) -> str | None:
    slowest = run.slowest_first_token
    if slowest is None:
        return f"{_of_clients(run.without_token, run)} never got a token"
    return _first_token_came(run) if slowest > run.duration else None


def _lumps(run: ServerRun) -> str | None:
    return _arrived_in(run) if run.bursts < run.tokens / 2 else None


def _cut(run: ServerRun) -> str | None:
    if not run.cut + run.looked_whole:
        return None
    return f"of {count_text(len(run.clients), 'client')}, {_unfinished(run)}"


def _late_debug(run: ServerRun) -> str | None:
    if run.debug_missing:
        lines = run.debug_missing + len(run.debug_lags)
        return f"{run.debug_missing} of {count_text(lines, 'debug line')} never came out"
    largest = run.largest_debug_lag
    if largest is None or largest <= run.duration / 2:
        return None
    return f"debug lines came out up to {seconds_text(largest)} after their events"


SIGNS = (_first_token_after_the_last, _lumps, _cut, _late_debug)
"""What shows that a run does not stream. Each returns a sentence about what was seen, or `None`."""


def _praise(run: ServerRun) -> str:
    who, whose = {1: ("the client", "its"), 2: ("both clients", "the slower one's")}.get(
        len(run.clients), (f"all {len(run.clients)} clients", "the slowest one's")
    )
    gap = "" if run.largest_gap is None else f", and no gap was longer than {seconds_text(run.largest_gap)}"
    return (
        f"{run.name}: {who} got all {run.tokens} tokens and `done`; {whose} first token came after "
        f"{seconds_text(run.slowest_first_token)} of a {seconds_text(run.duration)} stream{gap}."
    )


def _no_sign(run: ServerRun) -> str:
    seen = f"{_first_token_came(run)}, {_arrived_in(run)}, and no client was cut off"
    return _nothing_measured(run) or f"{run.name}: {seen}: none of its mistakes showed."


def _first_token_came(run: ServerRun) -> str:
    whose = "the" if len(run.clients) == 1 else "the slowest client's"
    took, stream = seconds_text(run.slowest_first_token), seconds_text(run.duration)
    return f"{whose} first token came after {took} of a {stream} stream"


def _arrived_in(run: ServerRun) -> str:
    return f"the {count_text(run.tokens, 'token')} arrived in {count_text(run.bursts, 'burst')}"


def _of_clients(count: int, run: ServerRun) -> str:
    return f"{count} of {count_text(len(run.clients), 'client')}"
