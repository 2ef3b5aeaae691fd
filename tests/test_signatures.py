"""Each signature is seen in a run that has it, and in none that streams."""

from __future__ import annotations

import pytest
from made_runs import DURATION, INTERVAL, TOKENS, client, in_bursts, lump, server, streamed

from flaskstream.lab import signatures
from flaskstream.lab.faults import FAULTS

STREAMS = server("fixed", *[streamed(0.055 + 0.002 * n) for n in range(4)])
GZIP = {"headers": (("content-encoding", "gzip"),)}

SEEN = {
    signatures.held_to_end: (
        server("x", *[lump(DURATION)] * 4),
        "first token after 1.20 s, and all 24 in 1 burst",
    ),
    signatures.in_bursts: (server("x", *[in_bursts(3)] * 4), "24 tokens in 3 bursts"),
    signatures.compressed_and_held: (
        server("x", *[lump(DURATION, **GZIP)] * 4),
        "Content-Encoding: gzip; first token after 1.20 s, and all 24 in 1 burst",
    ),
    signatures.one_after_another: (
        server("x", *[streamed(INTERVAL + n * DURATION) for n in range(4)]),
        "the last of 4 clients waited 3.65 s for its first token",
    ),
    signatures.cut_off: (
        server("x", streamed(tokens=10, ended="cut")),
        "cut after 501 ms with 10 of 24 tokens, and no word about it",
    ),
    signatures.debug_lines_late: (
        server("x", streamed(), debug_lags=tuple(1.2 - 0.05 * n for n in range(20)), debug_missing=4),
        "debug lines up to 1.20 s after their events, 4 never",
    ),
    signatures.looks_whole: (server("x", streamed(tokens=9)), "1 client got `done` with 9 of 24 tokens"),
    signatures.upstream_goes_on: (
        server("x", *[streamed(tokens=3, ended="left")] * 2, upstream_tokens_after_leaving=42),
        "the model said 42 more tokens after its 2 clients had gone",
    ),
}


@pytest.mark.parametrize("signature", SEEN, ids=lambda signature: signature.__name__)
def test_a_signature_says_what_was_seen_and_a_stream_shows_nothing(signature):
    run, said = SEEN[signature]
    assert signature(run) == said
    assert signature(STREAMS) is None


def test_every_signature_of_the_table_is_tested_here():
    assert {fault.signature for fault in FAULTS.values()} == set(SEEN)


@pytest.mark.parametrize(
    ("signature", "run"),
    [
        (signatures.held_to_end, server("x", *[streamed(DURATION)] * 4)),
        (signatures.held_to_end, server("x", *[client((), "cut")] * 4)),
        (signatures.in_bursts, server("x", *[lump(DURATION)] * 4)),
        (signatures.compressed_and_held, server("x", *[streamed(**GZIP)] * 4)),
        (signatures.compressed_and_held, server("x", *[lump(DURATION)] * 4)),
        (signatures.one_after_another, server("x", streamed(9.0))),
        (signatures.cut_off, server("x", client((), "cut"))),
        (signatures.cut_off, server("x", streamed(tokens=10, ended="error"))),
        (signatures.debug_lines_late, server("x", streamed(), debug_lags=())),
        (signatures.looks_whole, server("x", streamed(tokens=TOKENS + 1))),
        (signatures.upstream_goes_on, server("x", streamed(tokens=3, ended="left"), upstream_tokens_after_leaving=2)),
    ],
    ids=[
        "late but one by one",
        "nothing came at all",
        "one burst is not several",
        "compressed and flushed",
        "held and not compressed",
        "one client alone waits for nobody",
        "cut before the first token may be anything",
        "an error is a word about it",
        "not measured",
        "more than was told",
        "the model noticed a token or two later",
    ],
)
def test_a_signature_is_not_seen_where_something_else_is(signature, run):
    assert signature(run) is None


def test_debug_lines_that_never_came_are_late():
    run = server("x", streamed(), debug_lags=(), debug_missing=TOKENS)
    assert signatures.debug_lines_late(run) == "none of 24 debug lines ever came out"
