"""Take one look: ask the probe behind a URL in some way, and note when each tick comes."""

from __future__ import annotations

import json
import secrets
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Iterator, Mapping, Sequence
from urllib.parse import urlencode, urlsplit, urlunsplit

from flaskstream.doctor.looks import Look, Tick, Variant
from flaskstream.doctor.measure import Exchange, Request, open_exchange, record
from flaskstream.machine import clock_id
from flaskstream.probe import ticks as ticks_on_the_wire

PROBE_PATHS = ("/probe", "/debug/stream")

LONGEST_ANSWER_SECONDS = 60.0
"""Of an ordinary endpoint; then it is left."""

SLACK_SECONDS = 8.0
"""How long to wait for what is held, after it should all have been sent."""

ASK_SECONDS = 2.0
"""How long after leaving the app is asked whether it has noticed."""

_ASK_EVERY = 0.1
_TICK_OVERHEAD = len("data: \n\n")

Headers = Sequence["tuple[str, str]"]


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
        self.is_probe = urlsplit(url).path.endswith(PROBE_PATHS)
        Request(url, method, self._headers, body)  # and not when the first hop has been looked at
        self._started_at = time.monotonic()

    def look(self, variant: Variant) -> Look:
        """Return what this variant shows; of several at once, the one that began last. Raises nothing."""
        if variant.at_once == 1:
            return self._look(variant)
        looks = self._together([replace(variant, at_once=1)] * variant.at_once)
        last = max(looks, key=lambda look: look.ticks[0].came if look.ticks else look.ended_at)
        return replace(last, variant=variant)

    def look_all(self, variants: Sequence[Variant], together: bool) -> dict[str, Look]:
        """Return a look for each variant, taken together or one after the other."""
        looks = self._together(variants) if together else [self.look(variant) for variant in variants]
        return {variant.name: look for variant, look in zip(variants, looks)}

    def _together(self, variants: Sequence[Variant]) -> list[Look]:
        start = threading.Barrier(len(variants))

        def wait_and_look(variant: Variant) -> Look:
            start.wait()
            return self.look(variant)

        with ThreadPoolExecutor(len(variants)) as pool:
            return list(pool.map(wait_and_look, variants))

    def _look(self, variant: Variant) -> Look:
        probe_id = secrets.token_hex(8)
        with open_exchange(self._request(variant, probe_id)) as exchange:
            ticks, hello, is_done = (_read if variant.is_probe else _read_arrivals)(exchange, variant)
            left_after = self._left_after(exchange, variant, ticks, probe_id)
            return self._told(exchange, variant, ticks, hello, is_done, left_after)

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
            _with_query(self.url, query),
            variant.method,
            tuple(headers),
            body=b"" if variant.method == "POST" else None,
            http_version=variant.http_version,
            timeout=variant.seconds + SLACK_SECONDS,
            max_seconds=2 * variant.seconds + SLACK_SECONDS,
            tls=self._tls,
        )

    def _left_after(self, exchange: Exchange, variant: Variant, ticks: Sequence[Tick], probe_id: str) -> float | None:
        """Leave, if that is asked for; return how long the app took to notice; `None`: it did not say so."""
        if variant.leave_after is None or len(ticks) < variant.leave_after:
            return None
        exchange.leave()
        left_at, deadline = ticks[-1].sent, time.monotonic() + ASK_SECONDS
        while time.monotonic() < deadline:
            answer = record(Request(_with_query(self.url, f"ask={probe_id}"), "GET", self._headers, tls=self._tls))
            state = _json_object(answer.body.decode("utf-8", "replace"))
            if state.get("state") == "left":
                return max(0.0, float(state["left_after_ms"]) / 1000 - left_at)
            time.sleep(_ASK_EVERY)
        return None

    def _told(
        self,
        exchange: Exchange,
        variant: Variant,
        ticks: Sequence[Tick],
        hello: Mapping[str, Any],
        is_done: bool,
        left_after: float | None,
    ) -> Look:
        sent_at = exchange.sent_at
        return Look(
            variant=variant,
            status=exchange.status,
            headers={name.lower(): value for name, value in exchange.headers},
            framing=exchange.framing,
            coding=exchange.coding,
            connect=exchange.connect_seconds,
            headers_at=_since(sent_at, exchange.headers_at),
            first_byte_at=_since(sent_at, exchange.first_byte_at),
            ticks=tuple(ticks),
            pieces=_pieces(exchange),
            hello=hello,
            ended=exchange.ended or "",
            ended_at=_since(sent_at, exchange.ended_at) or 0.0,
            error=exchange.error,
            is_whole=is_done and exchange.framing_complete,
            queued=_queued(hello, sent_at),
            left_noticed=left_after,
            began_at=sent_at - self._started_at,
            is_direct=hello["peer"] == exchange.address if "peer" in hello else None,
        )


def _read(exchange: Exchange, variant: Variant) -> tuple[list[Tick], Mapping[str, Any], bool]:
    """Return the ticks as they came, what the first one says of the app, and whether the end was told."""
    ticks: list[Tick] = []
    hello: Mapping[str, Any] = {}
    is_done = False
    for at, name, data in _lines(exchange, variant):
        said = ticks_on_the_wire.Tick.parse(data)
        if said is None:
            is_done = is_done or name == "done"
            continue
        hello = hello or said.told
        size = len(data) + _TICK_OVERHEAD
        ticks.append(Tick(said.n, said.due_ms / 1000, said.sent_ms / 1000, at - exchange.sent_at, size))
        if variant.leave_after is not None and len(ticks) >= variant.leave_after:
            break
    is_last = bool(ticks) and ticks[-1].number == variant.count
    return ticks, hello, is_done or (is_last and variant.type != "event-stream")


def _read_arrivals(exchange: Exchange, variant: Variant) -> tuple[list[Tick], Mapping[str, Any], bool]:
    """Return the events of an ordinary endpoint, or the pieces of its body, and whether it ended as it should."""
    is_events = (exchange.header("Content-Type") or "").startswith("text/event-stream")
    names: list[str] = []
    ticks: list[Tick] = []
    for at, name, size in _arrivals(exchange, is_events):
        came = at - exchange.sent_at
        names.append(name)
        ticks.append(Tick(len(ticks), came, came, came, size))
    return ticks, {}, "error" not in names and not exchange.cut_inside_event


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
    except ValueError:
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
    if not hello.get("boot") or hello["boot"] != clock_id():
        return None
    return float(hello["clock"]) - sent_at


def _with_query(url: str, query: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(query="&".join(filter(None, (parts.query, query)))))
