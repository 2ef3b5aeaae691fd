"""Take one look: ask the probe behind a URL in some way, and note when each tick comes."""

from __future__ import annotations

import json
import secrets
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Callable, Iterator, Mapping, Sequence
from urllib.parse import urlencode, urlsplit, urlunsplit

from flaskstream.doctor.looks import Look, Tick, Variant
from flaskstream.doctor.measure import Exchange, Request, open_exchange, record
from flaskstream.machine import clock_id
from flaskstream.probe import ticks as ticks_on_the_wire
from flaskstream.probe.plan import PARAMETERS
from flaskstream.probe.ticks import is_finite

PROBE_PATHS = ("/probe", "/debug/stream")

LONGEST_ANSWER_SECONDS = 60.0
ENOUGH_SECONDS, ENOUGH_EVENTS = 10.0, 20
"""An ordinary endpoint is left after the first, or when so much of it was seen: many have no end."""

SLACK_SECONDS = 8.0
"""How long to wait for what is held, after it should all have been sent."""

ASK_SECONDS = 2.0
"""How long after leaving the app is asked whether it has noticed."""

_ASK_EVERY = 0.1
_TICK_OVERHEAD = len("data: \n\n")

Headers = Sequence["tuple[str, str]"]


def longest_seconds(variant: Variant) -> float:
    """Return how long a look at the probe may take at most, where nothing comes of what should."""
    return variant.seconds + SLACK_SECONDS + (0.0 if variant.leave_after is None else ASK_SECONDS)


class Looker:
    """Looks at one hop.

    Args:
        url: of the probe, through this hop; or of an ordinary endpoint that streams.
        headers: sent with every request, such as an `Authorization`.
        tls: for https, an `ssl.SSLContext`; `None`: certificates are verified.
        method, body: for an ordinary endpoint.

    Attributes:
        is_probe: by its path, it is the probe; an ordinary endpoint is asked as seldom as can be, for an answer may
            have its price.

    Raises:
        InvalidSetting: this cannot be asked.
    """

    def __init__(
        self, url: str, headers: Headers = (), tls: Any = None, method: str = "GET", body: bytes | None = None
    ) -> None:
        self.url = url
        self._headers = tuple(headers)
        self._tls = tls
        self._method, self._body = method, body
        Request(url, method, self._headers, body)  # refused now, and not when the first hop has been looked at
        self.is_probe = urlsplit(url).path.endswith(PROBE_PATHS)
        self._asked_url = _without_plan(url) if self.is_probe else url
        self._started_at = time.monotonic()

    def look(self, variant: Variant) -> Look:
        """Return what this variant shows; of several at once, one that was refused, or the one that began last.

        Raises nothing.
        """
        if variant.at_once == 1:
            return self._look(variant)
        looks = self._together([replace(variant, at_once=1)] * variant.at_once, self._look)
        last = max(looks, key=lambda look: (not look.is_answer, look.ticks[0].came if look.ticks else look.ended_at))
        return replace(last, variant=variant)

    def look_all(self, variants: Sequence[Variant], look: Callable[[Variant], Look]) -> dict[str, Look]:
        """Return a look for each variant, all at once; `look` takes one, or several and returns the best."""
        return {variant.name: seen for variant, seen in zip(variants, self._together(variants, look))}

    def _together(self, variants: Sequence[Variant], look: Callable[[Variant], Look]) -> list[Look]:
        start = threading.Barrier(len(variants))

        def wait_and_look(variant: Variant) -> Look:
            start.wait()
            return look(variant)

        pool = ThreadPoolExecutor(len(variants))
        try:
            return list(pool.map(wait_and_look, variants))
        finally:
            pool.shutdown(wait=False)  # after Ctrl-C nobody waits for a server

    def _look(self, variant: Variant) -> Look:
        probe_id = secrets.token_hex(8)
        with open_exchange(self._request(variant, probe_id)) as exchange:
            seen = (_read if variant.is_probe else _read_arrivals)(exchange, variant)
            left_after, was_asked = self._left_after(exchange, variant, seen.ticks, probe_id)
            return self._told(exchange, variant, seen, left_after, was_asked)

    def _request(self, variant: Variant, probe_id: str) -> Request:
        return self._probe_request(variant, probe_id) if variant.is_probe else self._endpoint_request(variant)

    def _endpoint_request(self, variant: Variant) -> Request:
        headers = [("Accept", "text/event-stream, */*"), *self._headers]
        if variant.accept_encoding is not None:
            headers.append(("Accept-Encoding", variant.accept_encoding))
        return Request(
            self.url,
            self._method,
            tuple(headers),
            self._body,
            timeout=LONGEST_ANSWER_SECONDS,
            max_seconds=LONGEST_ANSWER_SECONDS,
            tls=self._tls,
        )

    def _probe_request(self, variant: Variant, probe_id: str) -> Request:
        asked = {"count": variant.count, "interval": variant.interval_ms, "pad": variant.pad, "type": variant.type}
        asked.update(silence=variant.silence_ms, heartbeat=variant.heartbeat_ms)
        said = [("header", f"X-Accel-Buffering:{variant.x_accel_buffering}")]
        if variant.cache_control is not None:
            said.append(("header", f"Cache-Control:{variant.cache_control}"))
        query = urlencode([*asked.items(), ("id", probe_id), *said])
        headers = [("Accept", "*/*"), *self._headers]
        if variant.accept_encoding is not None:
            headers.append(("Accept-Encoding", variant.accept_encoding))
        return Request(
            _with_query(self._asked_url, query),
            variant.method,
            tuple(headers),
            body=b"" if variant.method == "POST" else None,
            http_version=variant.http_version,
            timeout=variant.seconds + SLACK_SECONDS,
            max_seconds=variant.seconds + SLACK_SECONDS,
            tls=self._tls,
        )

    def _left_after(
        self, exchange: Exchange, variant: Variant, ticks: Sequence[Tick], probe_id: str
    ) -> tuple[float | None, bool]:
        """Leave, if that is asked for; return how long the app took to notice, and whether it said anything of it."""
        if variant.leave_after is None or len(ticks) < variant.leave_after:
            return None, False
        exchange.leave()
        left_at, deadline = ticks[-1].sent, time.monotonic() + ASK_SECONDS
        was_asked = False
        while time.monotonic() < deadline:
            state = self._state(probe_id, deadline - time.monotonic())
            noticed: Any = state.get("left_after_ms")
            if state.get("state") == "left" and is_finite(noticed):
                return max(0.0, noticed / 1000 - left_at), True
            was_asked = was_asked or state.get("state") == "running"
            time.sleep(_ASK_EVERY)
        return None, was_asked

    def _state(self, probe_id: str, seconds: float) -> dict[str, Any]:
        """Ask the app what became of a probe; nothing, if it does not say so within these seconds."""
        seconds = max(seconds, _ASK_EVERY)
        url = _with_query(self._asked_url, f"ask={probe_id}")
        asked = Request(
            url, "GET", self._headers, timeout=seconds, max_seconds=seconds, max_bytes=65_536, tls=self._tls
        )
        return _json_object(record(asked).body.decode("utf-8", "replace"))

    def _told(
        self,
        exchange: Exchange,
        variant: Variant,
        seen: _Seen,
        left_after: float | None,
        was_asked: bool,
    ) -> Look:
        sent_at, hello = exchange.sent_at, seen.hello
        return Look(
            variant=variant,
            status=exchange.status,
            headers={name.lower(): value for name, value in exchange.headers},
            framing=exchange.framing,
            coding=exchange.coding,
            connect=exchange.connect_seconds,
            headers_at=_since(sent_at, exchange.headers_at),
            first_byte_at=_since(sent_at, exchange.first_byte_at),
            ticks=tuple(seen.ticks),
            strangers=seen.strangers,
            pieces=_pieces(exchange),
            hello=hello,
            ended=exchange.ended or "",
            ended_at=_since(sent_at, exchange.ended_at) or 0.0,
            error=exchange.error,
            is_whole=seen.is_done and exchange.framing_complete,
            queued=_queued(hello, sent_at),
            left_noticed=left_after,
            left_was_asked=was_asked,
            began_at=sent_at - self._started_at,
            is_direct=hello["peer"] == exchange.address if "peer" in hello else None,
        )


@dataclass(frozen=True)
class _Seen:
    """The ticks, what the first one says of the app, whether the end was told, and how many events are no ticks."""

    ticks: Sequence[Tick]
    hello: Mapping[str, Any]
    is_done: bool
    strangers: int = 0


def _read(exchange: Exchange, variant: Variant) -> _Seen:
    """Read the probe's ticks."""
    ticks: list[Tick] = []
    hello: Mapping[str, Any] = {}
    is_done, strangers = False, 0
    for at, name, data in _lines(exchange, variant):
        said = ticks_on_the_wire.Tick.parse(data)
        if said is None:
            is_done = is_done or name == "done"
            strangers += name != "done" and bool(data.strip())
            continue
        hello = hello or said.told
        size = len(data) + _TICK_OVERHEAD
        ticks.append(Tick(said.n, said.due_ms / 1000, said.sent_ms / 1000, at - exchange.sent_at, size))
        if variant.leave_after is not None and len(ticks) >= variant.leave_after:
            break
    is_last = bool(ticks) and ticks[-1].number == variant.count
    return _Seen(ticks, hello, is_done or (is_last and variant.type != "event-stream"), strangers)


def _read_arrivals(exchange: Exchange, variant: Variant) -> _Seen:
    """Read the events of an ordinary endpoint, or the pieces of its body; of one without end, as many as are needed."""
    is_events = (exchange.header("Content-Type") or "").lower().startswith("text/event-stream")
    names: list[str] = []
    ticks: list[Tick] = []
    for at, name, size in _arrivals(exchange, is_events):
        came = at - exchange.sent_at
        names.append(name)
        ticks.append(Tick(len(ticks), came, came, came, size))
        if came > ENOUGH_SECONDS and len(ticks) > ENOUGH_EVENTS:
            exchange.leave()
            break
    return _Seen(ticks, {}, "error" not in names and not exchange.cut_inside_event)


def _arrivals(exchange: Exchange, is_events: bool) -> Iterator[tuple[float, str, int]]:
    if is_events:
        yield from (
            (timed.at, timed.event.event, len(timed.event.data) + _TICK_OVERHEAD) for timed in exchange.events()
        )
    else:
        yield from ((chunk.at, "", len(chunk.data)) for chunk in exchange.chunks())


def _lines(exchange: Exchange, variant: Variant) -> Iterator[tuple[float, str, str]]:
    """Yield when it came, its name and its data, for each event, or for each line where there are no events."""
    if variant.type == "event-stream":
        yield from ((timed.at, timed.event.event, timed.event.data) for timed in exchange.events())
        return
    rest = b""
    for chunk in exchange.chunks():
        *lines, rest = (rest + chunk.data).split(b"\n")
        yield from ((chunk.at, "", line.decode("utf-8", "replace")) for line in lines)


def _json_object(data: str) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _pieces(exchange: Exchange) -> tuple[tuple[float, int], ...]:
    if exchange.coding_complete is not None:
        return ()
    return tuple((piece.at - exchange.sent_at, len(piece.data)) for piece in exchange.pieces)


def _since(start: float, at: float | None) -> float | None:
    return None if at is None else at - start


def _queued(hello: Mapping[str, Any], sent_at: float) -> float | None:
    """Return how long the request took to the app, where both read the same clock."""
    clock: Any = hello.get("clock")
    if not hello.get("boot") or hello["boot"] != clock_id() or not is_finite(clock):
        return None
    return float(clock) - sent_at


def _without_plan(url: str) -> str:
    """Return the URL without what it asks of the probe: each look says that for itself."""
    parts = urlsplit(url)
    kept = [pair for pair in parts.query.split("&") if pair.partition("=")[0] not in PARAMETERS]
    return urlunsplit(parts._replace(query="&".join(kept)))


def _with_query(url: str, query: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(query="&".join(filter(None, (parts.query, query)))))
