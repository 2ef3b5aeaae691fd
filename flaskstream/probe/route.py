"""The route `/probe`: ticks that say when they were sent, for whoever looks for the hop that holds them."""

from __future__ import annotations

import base64
import os
import threading
import time
from dataclasses import replace
from typing import Any, Callable, Iterator, Mapping

from flask import Blueprint, Response, jsonify, request

from flaskstream.chat_request import json_body
from flaskstream.come_back import reconnection_times
from flaskstream.errors import InvalidSetting
from flaskstream.guard import refusal
from flaskstream.machine import clock_id
from flaskstream.options import StreamOptions
from flaskstream.probe.plan import CONTENT_TYPES, EVENTS, PARAMETERS, ProbePlan, check_probe_id, pairs_of
from flaskstream.probe.records import FAILED, LEFT, PROBE_RECORDS, SCHEMA_VERSION, WHOLE, ProbeRecord
from flaskstream.probe.ticks import Tick, TickEvents, TickLines
from flaskstream.response import streaming
from flaskstream.serving.shortcomings import server_of
from flaskstream.tally import StreamReport
from flaskstream.unbuffered import StreamResponse
from flaskstream.wire import Wire

PATHS = {"probe": "/probe", "debug_stream": "/debug/stream"}
"""The route by its two names."""

PROXY_HEADERS = ("Via", "Forwarded", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Real-IP")
"""What proxies add to a request: the first tick says which of them came, and not what is in them."""

_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")

_STATES = {"done": WHOLE, "client_gone": LEFT, "error": FAILED}


def add_probe(blueprint: Blueprint, options: StreamOptions) -> None:
    """Add the route, under both of its names.

    Args:
        blueprint: which gets it.
        options: of its streams; the heartbeat is the client's choice.
    """
    PROBE_RECORDS.share()

    def probe() -> Any:
        reached_at = time.monotonic()
        if not _is_readable():
            expected = "expected a form, or JSON (Content-Type: application/json)"
            return refusal(415, "unsupported_media_type", f"{expected}, got {_shown_type()}")
        try:
            parameters = _parameters()
            if any(name == "ask" for name, _ in parameters):
                return _answer(parameters)
            return _stream(ProbePlan.parse(parameters), options, reached_at)
        except InvalidSetting as error:
            return refusal(400, "bad_request", str(error))

    for endpoint, path in PATHS.items():
        blueprint.add_url_rule(path, endpoint, probe, methods=["GET", "POST"])


def _is_readable() -> bool:
    """Tell whether the request has no body, or one that says parameters."""
    return request.mimetype in _FORMS or request.is_json or not request.get_data()


def _shown_type() -> str:
    return f"{request.mimetype[:60]!r}" if request.mimetype else "a body without a Content-Type"


def _parameters() -> list[tuple[str, str]]:
    """Return what the request says: in its query, and in its form or its JSON."""
    pairs: list[tuple[str, str]] = list(request.values.items(multi=True))  # type: ignore[arg-type]
    has_json = request.is_json and request.get_data()
    return pairs + (pairs_of(json_body(), request.get_data(as_text=True)) if has_json else [])


def _answer(parameters: list[tuple[str, str]]) -> Response:
    """Tell what became of a probe."""
    ours = [value for name, value in parameters if name == "ask" or name in PARAMETERS]
    if len(ours) > 1:
        raise InvalidSetting(f"ask: expected it alone, got {len(ours)} parameters")
    (probe_id,) = ours
    check_probe_id("ask", probe_id)
    found = PROBE_RECORDS.find(probe_id)
    if found is None:
        response = jsonify(schema_version=SCHEMA_VERSION, id=probe_id, known=False)
        response.status_code = 404
    else:
        response = jsonify(found.as_json())
    response.headers["Cache-Control"] = "no-store"
    return response


def _stream(plan: ProbePlan, options: StreamOptions, reached_at: float) -> Response:
    told = {**_told(request.environ, reached_at), **({"ignored": plan.ignored} if plan.ignored else {})}
    probe = _Probe(plan, reached_at, told, options.on_end)
    options = replace(options, heartbeat=plan.heartbeat_ms / 1000, keep_context=False, on_end=probe.end)
    view: Callable[[], Any] = probe.numbers
    response: Response = streaming(options, probe.wire)(view)()
    if isinstance(response, StreamResponse):
        probe.begin()
    if response.status_code == 200:
        for name, value in (("Content-Type", CONTENT_TYPES[plan.type]), *plan.headers):
            _send_header(response, name, value)
    return response


def _send_header(response: Response, name: str, value: str) -> None:
    if isinstance(response, StreamResponse):
        response.send_header(name, value)
    elif value:
        response.headers[name] = value
    else:
        response.headers.pop(name, None)


def _told(environ: Mapping[str, Any], reached_at: float) -> dict[str, Any]:
    """Return what the first tick says of the app and of the request as it came there."""
    return {
        "clock": round(reached_at, 6),
        "boot": clock_id(),
        **_peer(environ),
        "protocol": environ.get("SERVER_PROTOCOL"),
        "server": environ.get("SERVER_SOFTWARE"),
        "worker": _kind_of_worker(environ),
        "pid": os.getpid(),
        "accept_encoding": request.headers.get("Accept-Encoding"),
        "via": [name for name in PROXY_HEADERS if name in request.headers],
        "scheme": request.scheme,
    }


def _peer(environ: Mapping[str, Any]) -> dict[str, str]:
    """Return who is connected to the server: the client itself, where there is nothing between. Not all servers say."""
    address, port = environ.get("REMOTE_ADDR"), environ.get("REMOTE_PORT")
    return {"peer": f"{address}:{port}"} if address and port else {}


def _kind_of_worker(environ: Mapping[str, Any]) -> str:
    server = server_of(environ)
    if not server.is_concurrent:
        return "sync"
    return "gevent" if server.has_greenlets else "threads"


class _Probe:
    """One probe: when its ticks come, what is in them, and what is kept of it.

    Args:
        plan: how it goes.
        reached_at: when its request reached the app, in seconds of the monotonic clock.
        told: what the first tick says.
        on_end: called after this with the stream's report.
    """

    def __init__(
        self,
        plan: ProbePlan,
        reached_at: float,
        told: Mapping[str, Any],
        on_end: Callable[[StreamReport], None] | None = None,
    ) -> None:
        self._plan = plan
        self._reached_at = reached_at
        self._told = told
        self._on_end = on_end
        self._record: ProbeRecord | None = None
        # A bare lock, free when it has ended: the collector may end a stream in the middle of this very wait.
        self._is_over = threading.Lock()
        self._is_over.acquire()

    def begin(self) -> None:
        """Have it recorded, if it has a name."""
        if self._plan.probe_id is not None:
            self._record = PROBE_RECORDS.begin(self._plan.probe_id, self._reached_at)

    def numbers(self) -> Iterator[int]:
        """Yield the number of each tick when it is due, until it is over."""
        for n in range(self._plan.count + 1):
            left_ms = self._plan.due_ms(n) - self._now_ms()
            if self._is_over.acquire(timeout=max(0.0, left_ms / 1000)):
                return
            yield n

    def wire(self, options: StreamOptions) -> Wire:
        """Return what writes them."""
        if self._plan.type != EVENTS:
            return TickLines(self._data)
        return TickEvents(self._data, *reconnection_times(options.retry), options.heartbeat_form)

    def _data(self, n: int) -> str:
        if self._record is not None:
            self._record.sent(n + 1)
        pad, told = _pad(self._plan.pad), {} if n else self._told
        return Tick(n, self._plan.due_ms(n), self._now_ms(), pad, told).to_json()

    def end(self, report: StreamReport) -> None:
        """Note how it went."""
        if self._record is not None:
            self._record.ended(_STATES[report.reason])
        self._is_over.release()
        if self._on_end is not None:
            self._on_end(report)

    def _now_ms(self) -> float:
        return (time.monotonic() - self._reached_at) * 1000


def _pad(size: int) -> str:
    """Return so many characters that no compressor makes much shorter: never the same ones twice."""
    return base64.b64encode(os.urandom(size * 3 // 4 + 3))[:size].decode()
