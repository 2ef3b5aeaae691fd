"""The mistakes, one entry each: what goes wrong, where it is met, how it shows, and what to do instead.

A fault replaces one step of an app that is right otherwise (`lab.broken`), or one setting of gunicorn. None of them is
a sleep that pretends: the bytes are really held, by the code that holds them in the wild. This file imports nothing
that uses `ssl`, for gunicorn reads it before gevent has patched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Iterable

from flaskstream.errors import InvalidSetting
from flaskstream.lab import mistakes, signatures
from flaskstream.lab.signatures import Signature

if TYPE_CHECKING:
    from flaskstream.lab.broken import Steps

NO_FAULT = "none"
"""In `FLASKSTREAM_FAULTS`: the app of the broken mode without a mistake, to compare with."""

WORKER_TIMEOUT_SECONDS = 2
"""What `worker_timeout` sets, so that nobody has to watch a stream for gunicorn's 30 seconds to see it killed."""


@dataclass(frozen=True)
class Scenario:
    """Under which conditions a fault shows; the fixed mode is measured under the same ones.

    Attributes:
        script: what the model is told beside the comparison's own tokens and interval, as in a query string.
        clients: how many come at once; `None`: as many as the comparison has.
        seconds: how long the stream has to be at least.
        leave_after: tokens after which each client goes; `None`: it stays.
    """

    script: str = ""
    clients: int | None = None
    seconds: float = 0.0
    leave_after: int | None = None


AS_USUAL = Scenario()
"""Nothing out of the ordinary."""


@dataclass(frozen=True)
class Fault:
    """One mistake.

    Attributes:
        name: in `FLASKSTREAM_FAULTS`.
        sentence: what goes wrong.
        met: where it is met in the wild.
        cause: what the doctor calls it.
        cure: what to do instead.
        signature: tells from a run whether the mistake shows in it.
        install: puts the mistake into the app.
        worker_class: of gunicorn, to show it.
        timeout: of gunicorn, in seconds.
        scenario: under which it shows.
        is_usual: part of the broken mode when no fault is named.
    """

    name: str
    sentence: str
    met: str
    cause: str
    cure: str
    signature: Signature
    install: Callable[[Steps], None] = mistakes.nothing
    worker_class: str = "gevent"
    timeout: int = 30
    scenario: Scenario = AS_USUAL
    is_usual: bool = False


_TABLE = (
    Fault(
        name="joined_body",
        sentence="The view joins its pieces and returns one body: the first token leaves with the last.",
        met="b''.join(...) in a view, a helper that returns a str, an adapter of a platform that wants one body",
        cause="joined_body",
        cure="return the generator itself: @event_stream, or Response(stream_with_context(generator))",
        signature=signatures.held_to_end,
        install=mistakes.join_the_body,
        is_usual=True,
    ),
    Fault(
        name="unstreamed_upstream",
        sentence="requests.post() without stream=True returns when the whole answer of the upstream is there.",
        met="the first line of many a relay; SDK calls without stream=True",
        cause="late_upstream_reader",
        cure="requests.post(..., stream=True), or flaskstream.Upstream",
        signature=signatures.held_to_end,
        install=mistakes.ask_without_stream,
        is_usual=True,
    ),
    Fault(
        name="late_reader",
        sentence="iter_lines() waits for 512 bytes when the upstream's body is not chunked, and is a line behind.",
        met="an upstream behind an HTTP/1.0 hop, or one that closes to end: it streamed in development",
        cause="late_upstream_reader",
        cure="read what is there: response.raw.read1(n, decode_content=True), or flaskstream.Upstream",
        signature=signatures.in_bursts,
        install=mistakes.read_by_lines,
        scenario=Scenario(script="framing=close"),
    ),
    Fault(
        name="body_reading_hook",
        sentence="An after_request hook reads the body (its length, its text), and so runs the generator to its end.",
        met="request loggers, ETag and length hooks, debug toolbars",
        cause="body_reading_hook",
        cure="leave streamed responses alone in hooks (response.is_streamed); @event_stream names the hook",
        signature=signatures.held_to_end,
        install=mistakes.read_the_body_in_a_hook,
    ),
    Fault(
        name="gzip_without_flush",
        sentence="A compressor in the process keeps the events in its window until there are enough of them.",
        met="WSGI gzip middleware, a compressing hook, every layer that calls compress() and no flush()",
        cause="compression",
        cure="keep text/event-stream out of it, or flush after each event (Z_SYNC_FLUSH)",
        signature=signatures.compressed_and_held,
        install=mistakes.compress_without_flush,
    ),
    Fault(
        name="token_accumulator",
        sentence="The view collects tokens until a sentence ends, and sends sentences.",
        met="text-to-speech pipelines, guardrails and filters that look at whole sentences",
        cause="token_accumulator",
        cure="send each token as it comes; collect on the side for whatever needs sentences",
        signature=signatures.in_bursts,
        install=mistakes.collect_sentences,
    ),
    Fault(
        name="sync_worker",
        sentence="A sync worker serves one stream at a time: the next client waits for the whole of the one before.",
        met="gunicorn without -k; gthread with one thread; the development server with threaded=False",
        cause="no_free_worker",
        cure='worker_class = "gevent" (gunicorn -c gunicorn.conf.py)',
        signature=signatures.one_after_another,
        worker_class="sync",
        is_usual=True,
    ),
    Fault(
        name="worker_timeout",
        sentence="A sync worker gives no sign of life while it sends, and is killed at `timeout`, in mid-answer.",
        met="every answer that takes longer than gunicorn's 30 seconds on a sync worker (here: 2 seconds)",
        cause="worker_timeout",
        cure='worker_class = "gevent", which gives its sign of life beside the streams; a longer timeout only moves it',
        signature=signatures.cut_off,
        worker_class="sync",
        timeout=WORKER_TIMEOUT_SECONDS,
        scenario=Scenario(clients=1, seconds=WORKER_TIMEOUT_SECONDS + 2.5),
    ),
    Fault(
        name="unflushed_print",
        sentence="print() without flush: on a pipe the debug lines wait for 8 KB, or for the end of the process.",
        met="docker logs, systemd, every collector: the terminal on the laptop shows each line at once",
        cause="unknown",
        cure="print(..., flush=True), or PYTHONUNBUFFERED=1; FLASKSTREAM_DEBUG_PRINT=1 prints lines that are flushed",
        signature=signatures.debug_lines_late,
        install=mistakes.print_without_flush,
        is_usual=True,
    ),
    Fault(
        name="blocked_hub",
        sentence="The view computes between tokens and never waits, so no other stream of the worker gets a turn.",
        met="local models, tokenizers, big JSON, database drivers in C, under gevent",
        cause="blocked_hub",
        cure="let others run between tokens (gevent.sleep(0), which @event_stream does), or compute in a thread pool",
        signature=signatures.one_after_another,
        install=mistakes.compute_without_waiting,
        scenario=Scenario(script="interval_ms=50"),
    ),
    Fault(
        name="cut_looks_whole",
        sentence="The upstream breaks off, the view swallows the error and says `done`: half an answer looks whole.",
        met="except Exception: pass around the read loop; relays that do not look for the terminal mark",
        cause="unknown",
        cure="without a terminal mark it is no end: flaskstream sends event: error (upstream_truncated)",
        signature=signatures.looks_whole,
        install=mistakes.swallow_the_error,
        scenario=Scenario(script="close_at=2000"),
    ),
    Fault(
        name="upstream_left_open",
        sentence="A thread reads the upstream to its end though the client has gone: every token is paid for.",
        met="a producer thread and a queue between the upstream and the view, with nobody who stops the producer",
        cause="unknown",
        cure="close the upstream when the response is closed: @event_stream closes the generator, `with` the upstream",
        signature=signatures.upstream_goes_on,
        install=mistakes.read_in_the_background,
        scenario=Scenario(leave_after=3),
    ),
)

FAULTS = {fault.name: fault for fault in _TABLE}


def active_faults(names: Iterable[str]) -> tuple[Fault, ...]:
    """Return the faults of these names; without any name the usual ones of the broken mode.

    Raises:
        InvalidSetting: there is no fault of that name.
    """
    names = tuple(names) or tuple(fault.name for fault in _TABLE if fault.is_usual)
    for name in names:
        if name not in FAULTS and name != NO_FAULT:
            raise InvalidSetting(f"faults: expected names among {', '.join(FAULTS)}, {NO_FAULT}; got {name!r}")
    return tuple(FAULTS[name] for name in names if name != NO_FAULT)


def gunicorn_settings_of(names: Iterable[str]) -> dict[str, Any]:
    """Return what the faults set in gunicorn. Raises `InvalidSetting` as `active_faults` does."""
    faults = active_faults(names)
    return {
        "worker_class": "sync" if any(fault.worker_class == "sync" for fault in faults) else "gevent",
        "timeout": min([fault.timeout for fault in faults], default=30),
    }
