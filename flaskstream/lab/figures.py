"""How the figures of a run are said, once for the judge, the terminal and the page: tables of `Figure`s.

A figure knows its text and when two runs differ in it beyond the noise of a machine: only such a
difference is shown as one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import inf
from typing import Callable

from flaskstream.lab.runs import ClientRun, ServerRun


def seconds_text(seconds: float | None) -> str:
    """Return a time for people: "0.3 ms", "56 ms", "1.24 s"; "none" for `None`."""
    if seconds is None:
        return "none"
    milliseconds = seconds * 1000
    if abs(milliseconds) < 0.05:
        return "0 ms"
    if abs(milliseconds) < 9.95:
        return f"{milliseconds:.1f} ms"
    return f"{milliseconds:.0f} ms" if abs(milliseconds) < 999.5 else f"{seconds:.2f} s"


def count_text(count: int, noun: str) -> str:
    """Return "1 burst", "24 bursts"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


@dataclass(frozen=True)
class Figure:
    """One row of a table of figures.

    Args:
        label: its name.
        text: how a run's figure is said.
        badness: a number that is larger the worse it is.
        differs: whether two runs differ in it beyond noise.
    """

    label: str
    text: Callable[[ServerRun], str]
    badness: Callable[[ServerRun], float]
    differs: Callable[[ServerRun, ServerRun], bool]

    def worse(self, run: ServerRun, control: ServerRun) -> bool:
        """Tell whether the run differs from the control, and for the worse."""
        return self.differs(run, control) and self.badness(run) > self.badness(control)


def _time_figure(
    label: str, read: Callable[[ServerRun], float | None], text: Callable[[ServerRun], str] | None = None
) -> Figure:
    """Two times differ if most of an interval and a factor of one and a half lie between them."""

    def badness(run: ServerRun) -> float:
        time = read(run)
        return inf if time is None else time

    def differs(run: ServerRun, control: ServerRun) -> bool:
        small, large = sorted((badness(run), badness(control)))
        return small != large and large - small > run.interval * 0.8 and large >= 1.5 * small

    return Figure(label, text or (lambda run: seconds_text(read(run))), badness, differs)


def _bursts_differ(run: ServerRun, control: ServerRun) -> bool:
    return abs(run.bursts - control.bursts) > max(run.tokens, control.tokens) / 5


def _wholes_badness(run: ServerRun) -> float:
    return run.looked_whole - run.complete  # an error is better than half an answer that looks whole


def _wholes_differ(run: ServerRun, control: ServerRun) -> bool:
    return (run.complete, run.looked_whole, run.left) != (control.complete, control.looked_whole, control.left)


def _debug_badness(run: ServerRun) -> float:
    return ("unmeasured", "live", "late", "at_exit", "never").index(run.debug_timing) + (run.debug_missing > 0) / 2


def _debug_differs(run: ServerRun, control: ServerRun) -> bool:
    return _debug_badness(run) != _debug_badness(control)


def first_token_text(run: ServerRun) -> str:
    return "never" if run.first_token is None else seconds_text(run.first_token)


def slowest_text(run: ServerRun) -> str:
    return "never" if run.slowest_first_token is None else seconds_text(run.slowest_first_token)


def slowest_words(run: ServerRun) -> str:
    """Say the slowest first token, and how many clients never got one."""
    if 0 < run.without_token < len(run.clients):
        return f"never ({run.without_token} of {len(run.clients)})"
    return slowest_text(run)


def whole_text(run: ServerRun) -> str:
    """Say how many answers were whole, or the one way in which all others ended; at most eight letters."""
    short = {_outcome_or_ending(run, client) for client in run.clients}
    if len(short) == 1 and not run.complete:
        return f"{len(run.clients)} {short.pop()}"
    return f"{run.complete} of {len(run.clients)}"


def _outcome_or_ending(run: ServerRun, client: ClientRun) -> str:
    if run.outcome_of(client) == "looked_whole":
        return "short"
    return "silent" if client.ended == "unreachable" else client.ended


def whole_words(run: ServerRun) -> str:
    """Say how many answers were whole, and how the others ended."""
    endings = Counter(ending_words(run, client) for client in run.clients)
    del endings["done"]
    whole = f"{run.complete} of {len(run.clients)}"
    return ", ".join([whole, *(f"{count} {ending}" for ending, count in endings.items())])


def ending_words(run: ServerRun, client: ClientRun) -> str:
    """Say how one client's stream ended, in a word or two."""
    if run.outcome_of(client) == "looked_whole":
        return "done too soon"
    words = "no answer" if client.ended == "unreachable" else client.ended
    return f"{words} ({client.code})" if client.code else words


def bursts_words(run: ServerRun) -> str:
    return count_text(run.bursts, "burst")


def debug_text(run: ServerRun) -> str:
    """Say in one figure how late the debug lines were, or how many are missing."""
    if run.debug_timing in ("unmeasured", "never"):
        return {"unmeasured": "-", "never": "never"}[run.debug_timing]
    return f"{run.debug_missing} missing" if run.debug_missing else _lag_text(run)


def _lag_text(run: ServerRun) -> str:
    return seconds_text(run.median_debug_lag if run.debug_timing == "live" else run.largest_debug_lag)


def debug_words(run: ServerRun) -> str:
    """Say when the debug lines came out."""
    said = {
        "unmeasured": "not measured",
        "never": f"never: {run.debug_missing} missing",
        "live": f"live, {_lag_text(run)} after the event",
        "late": f"up to {_lag_text(run)} late",
        "at_exit": f"only at exit, {_lag_text(run)} late",
    }[run.debug_timing]
    partly = run.debug_missing and run.debug_lags
    return f"{said}; {run.debug_missing} missing" if partly else said


def run_words(run: ServerRun) -> str:
    """Say what a run was: how many clients, how many tokens, how fast."""
    clients = "1 client" if len(run.clients) == 1 else f"{len(run.clients)} clients at once"
    return f"{clients}, {count_text(run.tokens, 'token')} each, one every {seconds_text(run.interval)}"


MODE_FIGURES = (
    _time_figure("first token", lambda run: run.first_token, first_token_text),
    _time_figure("slowest client", lambda run: run.slowest_first_token, slowest_words),
    Figure("arrived in", bursts_words, lambda run: -run.bursts, _bursts_differ),
    _time_figure("median gap", lambda run: run.median_gap),
    _time_figure("largest gap", lambda run: run.largest_gap),
    Figure("whole answers", whole_words, _wholes_badness, _wholes_differ),
    Figure("debug lines", debug_words, _debug_badness, _debug_differs),
)
"""What is said of the two modes, in whole words."""

FAULT_FIGURES = (
    _time_figure("first token", lambda run: run.first_token, first_token_text),
    _time_figure("slowest", lambda run: run.slowest_first_token, slowest_text),
    Figure("bursts", lambda run: str(run.bursts), lambda run: -run.bursts, _bursts_differ),
    _time_figure("largest gap", lambda run: run.largest_gap),
    Figure("whole", whole_text, _wholes_badness, _wholes_differ),
    Figure("debug lag", debug_text, _debug_badness, _debug_differs),
)
"""What is said of one fault, as short as it goes."""


def notes(faulty: ServerRun, control: ServerRun) -> tuple[tuple[str, str], ...]:
    """Return (label, text) of what the table of a fault's figures has no column for."""
    said = []
    if faulty.debug_missing:
        said.append(("debug", f"{count_text(faulty.debug_missing, 'line')} never came out"))
    after, beside = faulty.upstream_tokens_after_leaving, control.upstream_tokens_after_leaving
    if after is not None:
        without = "" if beside is None else f"; {beside} without it"
        said.append(("upstream", f"{count_text(after, 'more token')} after the clients had left{without}"))
    return tuple(said)
