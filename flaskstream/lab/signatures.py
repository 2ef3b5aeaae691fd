"""How each mistake shows in a run: pure functions from what was measured to the evidence, or to `None`.

A fault is shown when its signature is found in the run with it and not in the run of the fixed mode under the same
conditions. The limits are shares of the stream's own length, so that a slow machine does not decide.
"""

from __future__ import annotations

from typing import Callable, Optional

from flaskstream.lab.figures import count_text, seconds_text
from flaskstream.lab.runs import ServerRun

Signature = Callable[[ServerRun], Optional[str]]

HELD_SHARE = 0.7
"""A first token after this share of the stream, all tokens in a lump or two: they were held to the end."""

BURST_SHARE = 0.6
"""Fewer bursts than this share of the tokens: something collects them."""


def held_to_end(run: ServerRun) -> str | None:
    """Nothing for most of the stream, then everything."""
    first = run.first_token
    if first is None or first < run.duration * HELD_SHARE or run.bursts > 2:
        return None
    return f"first token after {seconds_text(first)}, and all {run.tokens} in {count_text(run.bursts, 'burst')}"


def in_bursts(run: ServerRun) -> str | None:
    """Several tokens at a time, again and again."""
    if not 2 <= run.bursts < run.tokens * BURST_SHARE:
        return None
    return f"{count_text(run.tokens, 'token')} in {count_text(run.bursts, 'burst')}"


def compressed_and_held(run: ServerRun) -> str | None:
    """Compressed, and late."""
    held = held_to_end(run) or in_bursts(run)
    codings = {value for client in run.clients for name, value in client.headers if name.lower() == "content-encoding"}
    return f"Content-Encoding: {', '.join(sorted(codings))}; {held}" if held and codings else None


def one_after_another(run: ServerRun) -> str | None:
    """The last client waits for the whole of the others."""
    slowest, others = run.slowest_first_token, len(run.clients) - 1
    if slowest is None or not others or slowest < others * run.duration * HELD_SHARE:
        return None
    return f"the last of {len(run.clients)} clients waited {seconds_text(slowest)} for its first token"


def cut_off(run: ServerRun) -> str | None:
    """The bytes stop in mid-answer, with no word."""
    cut = [client for client in run.clients if client.ended == "cut" and client.arrivals]
    if not cut:
        return None
    got = len(cut[0].arrivals)
    return f"cut after {seconds_text(cut[0].ended_at)} with {got} of {run.tokens} tokens, and no word about it"


def debug_lines_late(run: ServerRun) -> str | None:
    """The debug lines come long after their events, or never."""
    if run.debug_timing not in ("late", "at_exit", "never"):
        return None
    if not run.debug_lags:
        return f"none of {count_text(run.debug_missing, 'debug line')} ever came out"
    never = f", {run.debug_missing} never" if run.debug_missing else ""
    return f"debug lines up to {seconds_text(max(run.debug_lags))} after their events{never}"


def looks_whole(run: ServerRun) -> str | None:
    """`done` after a part of the answer."""
    if not run.looked_whole:
        return None
    got = min(len(client.arrivals) for client in run.clients)
    return f"{count_text(run.looked_whole, 'client')} got `done` with {got} of {run.tokens} tokens"


def upstream_goes_on(run: ServerRun) -> str | None:
    """The model keeps talking to nobody."""
    after = run.upstream_tokens_after_leaving
    left = sum(run.tokens - len(client.arrivals) for client in run.clients)
    if not after or after < left * HELD_SHARE:
        return None
    return f"the model said {after} more tokens after its {count_text(len(run.clients), 'client')} had gone"
