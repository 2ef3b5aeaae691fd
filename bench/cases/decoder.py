"""How fast an event stream is read, beside the decoders that people use in Python."""

from __future__ import annotations

import time
from importlib import import_module
from importlib.metadata import version
from typing import Callable, Iterable, Iterator, Mapping, Sequence

from bench.case import Case, Column, Row, Run, number
from bench.paced_upstream import plain_event
from bench.running import middle
from flaskstream.sse import Decoder

Decode = Callable[[Iterable[bytes]], int]
"""Reads these bytes; returns how many events they were."""

EVENTS = 20_000
CUTS = {"an event at a time": 0, "16 KB at a time": 16 * 1024}
"""How the bytes come: in pieces of so many, or 0: each event by itself."""

KIT = "flaskstream"


def _kit(pieces: Iterable[bytes]) -> int:
    decoder = Decoder()
    return sum(len(decoder.feed(piece)) for piece in pieces) + len(decoder.close())


def _httpx_sse(pieces: Iterable[bytes]) -> int:
    import httpx
    from httpx_sse import EventSource

    response = httpx.Response(200, headers={"Content-Type": "text/event-stream"}, content=iter(pieces))
    return _count(EventSource(response).iter_sse())


def _sseclient(pieces: Iterable[bytes]) -> int:
    from sseclient import SSEClient

    return _count(SSEClient(iter(pieces)).events())


def _openai(pieces: Iterable[bytes]) -> int:
    from openai._streaming import SSEDecoder

    return _count(SSEDecoder().iter_bytes(iter(pieces)))


def _count(events: Iterator[object]) -> int:
    return sum(1 for _ in events)


DECODERS: Mapping[str, tuple[Decode, str, str]] = {
    KIT: (_kit, "flaskstream", "flaskstream"),
    "httpx-sse": (_httpx_sse, "httpx_sse", "httpx-sse"),
    "sseclient-py": (_sseclient, "sseclient", "sseclient-py"),
    "openai": (_openai, "openai", "openai"),
}
"""How each reads, its module, and its package."""


def run(run: Run) -> list[Row]:
    events = EVENTS // 4 if run.quick else EVENTS
    data = [plain_event(220) for _ in range(events)]
    rows: list[Row] = []
    names = list(_here(run))
    for words, size in CUTS.items():
        run.say(f"decoders, {words}")
        pieces = _cut(data, size)
        taken: dict[str, list[float]] = {name: [] for name in names}
        for _ in range(run.rounds or (3 if run.quick else 5)):
            for name in names:
                taken[name].append(_seconds(DECODERS[name][0], pieces, events))
        rows += [_row(name, words, taken, events, sum(map(len, data))) for name in names]
    return rows


def _here(run: Run) -> Iterator[str]:
    for name, (_, module, _) in DECODERS.items():
        try:
            import_module(module)
        except ImportError as why:
            run.skip(name, str(why))
        else:
            yield name


def _cut(data: Sequence[bytes], size: int) -> Sequence[bytes]:
    if not size:
        return data
    whole = b"".join(data)
    return [whole[at : at + size] for at in range(0, len(whole), size)]


def _seconds(decode: Decode, pieces: Sequence[bytes], events: int) -> float:
    began = time.process_time()
    found = decode(pieces)
    taken = time.process_time() - began
    if found != events:
        raise RuntimeError(f"expected {events} events, got {found}")
    return taken


def _row(name: str, cut: str, taken: Mapping[str, Sequence[float]], events: int, size: int) -> Row:
    seconds = middle(taken[name], 9) or 0.0
    return {
        "cut": cut,
        "decoder": name,
        "version": version(DECODERS[name][2]),
        "events_per_second": round(events / seconds),
        "bytes_per_second": round(size / seconds),
        "cpu_us": round(seconds / events * 1e6, 3),
        "ratio": middle(theirs / mine for theirs, mine in zip(taken[name], taken[KIT])),
    }


DECODER = Case(
    "decoder",
    "Decoders: events a second",
    f"{EVENTS:,} events of 220 bytes, as a model sends them, without their JSON; processor time of one process.",
    (
        Column("they come", "cut"),
        Column("decoder", "decoder"),
        Column("events a second", "events_per_second", number),
        Column("MB a second", "bytes_per_second", lambda value: f"{value / 1e6:.1f}"),
        Column("CPU for an event", "cpu_us", lambda value: f"{value:.2f} us"),
        Column("of the kit's", "ratio", lambda value: f"{value:.1f}"),
    ),
    run,
)
