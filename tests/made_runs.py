"""Runs made by hand: 4 clients, 24 tokens each, one every 50 ms, so a stream of 1.2 s."""

from __future__ import annotations

from dataclasses import replace

from flaskstream.lab.results import ClientRun, Comparison, FaultLine, ServerRun

TOKENS = 24
INTERVAL = 0.05
DURATION = TOKENS * INTERVAL


def client(arrivals, ended="done", **changes) -> ClientRun:
    arrivals = tuple(arrivals)
    made = ClientRun(200, 0.0, arrivals, ended, arrivals[-1] + 0.001 if arrivals else 0.001)
    return replace(made, **changes)


def streamed(first=INTERVAL, tokens=TOKENS, interval=INTERVAL, **changes) -> ClientRun:
    """One token after the other."""
    return client((first + n * interval for n in range(tokens)), **changes)


def in_bursts(bursts, tokens=TOKENS, **changes) -> ClientRun:
    """One by one, and the rest together with the last."""
    return client((min(n + 1, bursts) * INTERVAL for n in range(tokens)), **changes)


def lump(at, tokens=TOKENS, **changes) -> ClientRun:
    """Everything at once."""
    return client((at + n * 1e-5 for n in range(tokens)), **changes)


def stalled(gap, **changes) -> ClientRun:
    """One by one, with one gap in the middle that is this long."""
    return client(((n + 1) * INTERVAL + (gap - INTERVAL if n >= 12 else 0.0) for n in range(TOKENS)), **changes)


def server(name, *clients, **changes) -> ServerRun:
    return replace(ServerRun(name, (), TOKENS, INTERVAL, clients, debug_lags=(0.0003,) * TOKENS), **changes)


FIXED = server("fixed", *[streamed(0.055 + 0.002 * n) for n in range(4)])
HELD_DEBUG = tuple(5.2 - 0.05 * n for n in range(TOKENS * 4))
BROKEN = server(
    "broken",
    *[lump(1.21 * (n + 1)) for n in range(4)],
    faults=("sync_worker", "joined_body", "unflushed_print"),
    debug_lags=HELD_DEBUG,
)


def fault(name, faulty, control=FIXED, shows=True, **changes) -> FaultLine:
    made = FaultLine(
        name=name,
        sentence="The view joins its generator into one string, so the first byte leaves when the last one is known.",
        cure="Return the generator itself; `event_stream` does.",
        cause=name,
        faulty=faulty,
        control=control,
        shows=shows,
        evidence="first token 1.21 s instead of 55 ms; all 24 tokens in one burst",
    )
    return replace(made, **changes)


JOINED_BODY = fault("joined_body", server("joined_body", *[lump(1.21) for _ in range(4)]))
LEFT_OPEN = fault(
    "upstream_left_open",
    server(
        "upstream_left_open",
        *[streamed(tokens=6, ended="left") for _ in range(4)],
        upstream_tokens_after_leaving=72,
        debug_missing=3,
    ),
    control=server("fixed", *[streamed(tokens=6, ended="left") for _ in range(4)], upstream_tokens_after_leaving=1),
)
NOT_SHOWN = fault("accumulator", server("accumulator", *FIXED.clients), shows=False, evidence="no difference was seen")

MACHINE = "Linux-6.1 x86_64, 2 cores, Python 3.11.7, gunicorn 27.0.1, gevent 26.9.0"
COMPARISON = Comparison(FIXED, BROKEN, (JOINED_BODY, LEFT_OPEN, NOT_SHOWN), MACHINE, 31.2)


def compare(fixed, broken, *faults) -> Comparison:
    return Comparison(fixed, broken, faults, MACHINE, 3.0)


NO_ANSWER = client((), "unreachable", status=None)
REFUSED = client((), "cut", status=503)

ODD = {
    "no client was driven": compare(server("fixed"), server("broken")),
    "no client got an answer": compare(
        server("fixed", NO_ANSWER, debug_lags=()), server("broken", NO_ANSWER, NO_ANSWER)
    ),
    "every client was refused": compare(server("fixed", REFUSED), server("broken", REFUSED)),
    "no tokens were asked for": compare(
        server("fixed", client(()), tokens=0, interval=0.0), server("broken", client(()), tokens=0, interval=0.0)
    ),
    "everything at time zero": compare(
        server("fixed", client((0.0,), ended_at=0.0), tokens=1, interval=0.0),
        server("broken", client((), ended_at=0.0)),
    ),
    "one client": compare(server("fixed", streamed()), server("broken", lump(1.21)), NOT_SHOWN),
    "sixteen clients and every ending": compare(
        server("fixed", *[streamed() for _ in range(16)]),
        server(
            "broken",
            *[lump(1.21 * (n + 1)) for n in range(12)],
            client((), "cut", ended_at=15.0),
            client((), "error", ended_at=15.0, code="upstream_truncated"),
            lump(3.0, tokens=12),
            streamed(tokens=3, ended="left"),
            debug_lags=(),
            debug_missing=30,
        ),
        fault("a_fault_without_clients", server("a_fault_without_clients"), control=server("fixed")),
    ),
    "fixed stalls and broken streams": compare(
        server("fixed", stalled(0.75)), server("broken", streamed(), debug_lags=(0.0003, 0.9), debug_missing=1)
    ),
}
