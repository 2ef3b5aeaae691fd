"""Sum the numbers of all processes, and write them as JSON or as Prometheus reads them. Pure."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Iterable, Iterator, Mapping, Sequence

from flaskstream.stats.layout import BOUNDS_MS, COUNTERS, HISTOGRAMS, OPEN, PLAIN, WORDS, Histogram
from flaskstream.stores.protocol import Kept

SCHEMA_VERSION = 1
PROMETHEUS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PERCENTILES = (50, 90, 99)


def as_json(rows: Iterable[Sequence[int]], processes: int, kept: Kept | None = None) -> dict[str, Any]:
    """Return the figures, with every time in milliseconds.

    Args:
        rows: the numbers of each process, laid out as `layout` says.
        processes: how many of them run now.
        kept: what is in the store, where there is one that can be asked.
    """
    total = _sum(rows)
    waits = {name: total[COUNTERS[f"{name}_wait_us"]] / 1000 for name in ("source", "client")}
    return {
        "schema_version": SCHEMA_VERSION,
        "processes": processes,
        "open": total[OPEN],
        "ended": _labelled(total, "ended"),
        "refused": _labelled(total, "refused"),
        **{name: total[COUNTERS[name]] for name in PLAIN},
        "waited_ms": waits,
        **{f"{histogram.name}_ms": _percentiles(total, histogram) for histogram in HISTOGRAMS},
        "store": None if kept is None else asdict(kept),
    }


def as_prometheus(rows: Iterable[Sequence[int]], processes: int, kept: Kept | None = None) -> str:
    """Return the figures as text, with every time in seconds (the exposition format, 0.0.4). Args as for `as_json`."""
    return "".join(f"{line}\n" for line in _lines(_sum(rows), processes, kept))


def _sum(rows: Iterable[Sequence[int]]) -> list[int]:
    total = [0] * WORDS
    for row in rows:
        for word, number in enumerate(row):
            total[word] += number
    return total


def _labelled(total: Sequence[int], group: str) -> Mapping[str, int]:
    """Return the counters of a group, without those that are zero."""
    named = {name.partition(":")[2]: total[word] for name, word in COUNTERS.items() if name.startswith(group + ":")}
    return {label: number for label, number in named.items() if number}


def _percentiles(total: Sequence[int], histogram: Histogram) -> dict[str, Any]:
    counts = total[histogram.start + 1 : histogram.end]
    seen = sum(counts)
    return {
        "count": seen,
        "mean": round(total[histogram.start] / 1000 / seen, 3) if seen else None,
        **{f"p{percent}": _percentile(counts, percent) for percent in PERCENTILES},
    }


def _percentile(counts: Sequence[int], percent: int) -> float | None:
    """Return the upper bound of the bucket that holds it; `None`: nothing was counted, or it is above all bounds."""
    left = sum(counts) * percent / 100
    if not left:
        return None
    for bound, count in zip(BOUNDS_MS, counts):
        left -= count
        if left <= 0:
            return bound
    return None


_HELP = {
    "open_streams": ("gauge", "Streams that are open now."),
    "processes": ("gauge", "Processes whose streams are counted here."),
    "ended_total": ("counter", "Streams that have ended, by reason: done, client_gone, or the code of an error."),
    "refused_total": ("counter", "Requests that became no stream, by code."),
    "events_total": ("counter", "Events sent, without heartbeats."),
    "tokens_total": ("counter", "Tokens sent."),
    "bytes_total": ("counter", "Bytes of these events, before chunking and compression."),
    "heartbeats_total": ("counter", "Heartbeats sent."),
    "upstream_retries_total": ("counter", "Requests that an upstream was asked again."),
    "produced_total": ("counter", "Answers produced apart from their delivery, with a store."),
    "resumed_total": ("counter", "Requests that went on with a stream, or came to one that was there."),
    "unrecorded_total": ("counter", "Answers that cannot be resumed, because their store failed."),
    "store_streams": ("gauge", "Streams in the store, with their records."),
    "store_running": ("gauge", "Streams in the store that are being produced."),
    "store_records": ("gauge", "Events in the store."),
    "store_bytes": ("gauge", "Bytes of these events."),
    "store_evicted": ("counter", "Streams that the retention has taken out of the store."),
    "source_wait_seconds_total": ("counter", "Time for which streams waited for their source."),
    "client_wait_seconds_total": ("counter", "Time for which streams waited until their client took what was sent."),
    "first_token_seconds": ("histogram", "From the request to the first token."),
    "gap_seconds": ("histogram", "From one event to the next."),
}
_COARSE = 4  # every fourth bound is told: one to the octave


def _lines(total: Sequence[int], processes: int, kept: Kept | None) -> Iterator[str]:
    of_store = [] if kept is None else [(f"store_{name}", [("", value)]) for name, value in asdict(kept).items()]
    for name, samples in (*_samples(total, processes), *of_store):
        kind, text = _HELP[name]
        yield f"# HELP flaskstream_{name} {text}"
        yield f"# TYPE flaskstream_{name} {kind}"
        for suffix, value in samples:
            yield f"flaskstream_{name}{suffix} {value}"


def _samples(total: Sequence[int], processes: int) -> Iterator[tuple[str, list[tuple[str, Any]]]]:
    yield "open_streams", [("", total[OPEN])]
    yield "processes", [("", processes)]
    for group, label in (("ended", "reason"), ("refused", "code")):
        numbers = _labelled(total, group)
        yield f"{group}_total", [(f'{{{label}="{value}"}}', number) for value, number in numbers.items()]
    for name in PLAIN:
        yield f"{name}_total", [("", total[COUNTERS[name]])]
    for name in ("source_wait", "client_wait"):
        yield f"{name}_seconds_total", [("", total[COUNTERS[f"{name}_us"]] / 1e6)]
    for histogram in HISTOGRAMS:
        yield f"{histogram.name}_seconds", list(_buckets(total, histogram))


def _buckets(total: Sequence[int], histogram: Histogram) -> Iterator[tuple[str, Any]]:
    counts = total[histogram.start + 1 : histogram.end]
    for n in range(0, len(BOUNDS_MS), _COARSE):
        yield f'_bucket{{le="{BOUNDS_MS[n] / 1000:g}"}}', sum(counts[: n + 1])
    yield '_bucket{le="+Inf"}', sum(counts)
    yield "_sum", total[histogram.start] / 1e6
    yield "_count", sum(counts)
