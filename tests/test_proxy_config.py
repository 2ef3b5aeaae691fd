"""`flaskstream proxy-config`: what it prints is run by the real program, with the probe through it.

The app behind says nothing that helps: no X-Accel-Buffering, no no-transform. Each program compresses what it can, and
beside the stream there are ordinary routes.
"""

from __future__ import annotations

import itertools
import json
import secrets
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, Callable, Iterator

import pytest
from apps.beside import INTERVAL as SLOW_INTERVAL
from apps.beside import BROKEN, PAGE, PIECES
from click.testing import CliRunner
from proxies import (
    ApacheProcess,
    CaddyProcess,
    ExpressProcess,
    HaproxyProcess,
    NginxProcess,
    ProxyProcess,
    VarnishProcess,
)
from servers import TESTS

from flaskstream.cli import main
from flaskstream.doctor.experiments import BROWSER_CODINGS
from flaskstream.doctor.measure import Recording, Request, open_exchange, record
from flaskstream.errors import InvalidSetting
from flaskstream.lab.gunicorn import GunicornProcess
from flaskstream.proxies import PROXIES, snippet_for

PATIENCE = 10
READ_TIMEOUT = 1  # seconds
INTERVAL = 0.06
TICKS = 8
UNMARKED = "header=X-Accel-Buffering:&header=Cache-Control:no-cache"
PROBE = f"/stream/probe?{UNMARKED}&count={TICKS}&interval={INTERVAL * 1000:.0f}"
BROWSER = (("Accept-Encoding", BROWSER_CODINGS),)


def in_nginx(snippet: str, app: str) -> ProxyProcess:
    ordinary = f"location / {{ proxy_pass http://{app}; }}"
    compressing = "gzip on; gzip_types text/event-stream text/csv;"
    return NginxProcess(f"{compressing} server {{ listen {{listen}}; {ordinary}\n{snippet} }}")


def in_haproxy(snippet: str, app: str) -> ProxyProcess:
    compressing = "compression algo gzip\ncompression type text/html text/csv text/event-stream"
    line, _, backend = snippet.partition("\nbackend ")
    more = f"\nbackend {backend}" if backend else ""
    return HaproxyProcess(f"server app {app}{more}\nfrontend\n{line}\n{compressing}\ndefaults\n")


def in_caddy(snippet: str, app: str) -> ProxyProcess:
    return CaddyProcess(f"encode gzip\nreverse_proxy {app}\n{snippet}")


def in_apache(snippet: str, app: str) -> ProxyProcess:
    compressing = "AddOutputFilterByType DEFLATE text/html text/csv text/event-stream"
    return ApacheProcess(f"{snippet}\n{compressing}\nProxyPass / http://{app}/\n")


def in_varnish(snippet: str, app: str) -> ProxyProcess:
    host, _, port = app.partition(":")
    backend = f'vcl 4.1;\nbackend default {{ .host = "{host}"; .port = "{port}"; }}\n'
    compressing = "sub vcl_backend_response { set beresp.do_gzip = true; }"
    return VarnishProcess(f"{backend}{snippet}\n{compressing}\n")


def in_express(snippet: str, app: str) -> ProxyProcess:
    ordinary = f'app.use(createProxyMiddleware({{ target: "http://{app}" }}));'
    return ExpressProcess(f"{snippet}\napp.use(compression({{ filter: () => true }}));\n{ordinary}")


STARTERS: dict[str, Callable[[str, str], ProxyProcess]] = {
    "nginx": in_nginx,
    "haproxy": in_haproxy,
    "caddy": in_caddy,
    "apache": in_apache,
    "varnish": in_varnish,
    "express": in_express,
}


@pytest.fixture(scope="module")
def app() -> Iterator[str]:
    """Where the app listens."""
    config = "python:flaskstream.gunicorn_conf"
    with GunicornProcess(
        {"upstream": "http://127.0.0.1:9/v1"}, (), "apps.beside:create_app()", config, TESTS
    ) as server:
        server.wait_until_it_answers()
        yield server.url.partition("://")[2]


@pytest.fixture(scope="module")
def start(app: str) -> Iterator[Callable[[str, bool], str]]:
    """Return the URL of a product with its snippet, or without; each is started once."""
    with ExitStack() as stack:
        urls: dict[tuple[str, bool], str] = {}

        def started(name: str, has_snippet: bool) -> str:
            key = (name, has_snippet)
            if key not in urls:
                snippet = PROXIES[name].snippet("/stream/", app, READ_TIMEOUT) if has_snippet else ""
                urls[key] = stack.enter_context(STARTERS[name](snippet, app)).url
            return urls[key]

        yield started


@pytest.fixture(params=PROXIES)
def front(request: Any, start: Callable[[str, bool], str]) -> str:
    """The URL of each product, with its snippet."""
    return start(request.param, True)


def asked(url: str, **request: Any) -> Recording:
    return record(Request(url, timeout=PATIENCE, **request))


def gaps(seen: Recording) -> list[float]:
    arrivals = [timed.at for timed in seen.events[:-1]]
    return [later - earlier for earlier, later in zip(arrivals, arrivals[1:])]


def came_one_by_one(seen: Recording) -> bool:
    """Tell whether nearly each tick came by itself, and at its time: two bunches are the machine's."""
    assert len(seen.events) == TICKS + 2, (seen.status, seen.error)
    apart = [gap > INTERVAL / 3 for gap in gaps(seen)]
    return sum(apart) >= TICKS - 2 and INTERVAL / 2 < statistics.median(gaps(seen)) < INTERVAL * 2


# With the real programs.


@pytest.mark.parametrize("headers", [(), BROWSER], ids=["plain", "browser"])
def test_the_route_streams(front: str, headers: Any) -> None:
    seen = asked(front + PROBE, headers=headers)
    assert came_one_by_one(seen)
    assert (seen.status, seen.coding, seen.framing_complete) == (200, "identity", True)
    assert seen.framing == "chunked"  # so that a cut stream would not look whole


@pytest.mark.parametrize("name", ["nginx", "haproxy", "varnish", "express"])
def test_without_the_snippet_it_does_not(name: str, start: Callable[[str, bool], str]) -> None:
    plain, browser = (asked(start(name, False) + PROBE, headers=headers) for headers in ((), BROWSER))
    assert not (came_one_by_one(plain) and browser.coding == "identity" and came_one_by_one(browser))


def test_a_post_streams_as_well(front: str) -> None:
    assert came_one_by_one(asked(front + PROBE, method="POST", headers=BROWSER, body=b""))


def test_heartbeats_outlive_the_read_timeout_and_silence_does_not(front: str) -> None:
    silence = f"{front}/stream/probe?{UNMARKED}&count=2&interval=50&silence={READ_TIMEOUT * 1800}"
    with ThreadPoolExecutor(2) as pool:
        alive, silent = pool.map(asked, (f"{silence}&heartbeat={READ_TIMEOUT * 200}", silence))
    assert alive.framing_complete and alive.events[-1].event.event == "done"
    assert len(alive.comments) > 4
    assert was_cut(silent, front) and len(silent.events) == 2
    assert READ_TIMEOUT * 0.8 < silent.ended_at - silent.events[-1].at < READ_TIMEOUT * 1.8


def was_cut(seen: Recording, front: str) -> bool:
    """Tell whether the end shows that it is none."""
    return not seen.framing_complete and seen.ended != "timeout"


def test_an_answer_that_breaks_off_does_not_look_whole(front: str) -> None:
    seen = asked(front + BROKEN)
    assert len(seen.events) == 1 and was_cut(seen, front)


def test_the_going_of_a_client_is_passed_on(front: str) -> None:
    name = secrets.token_hex(8)
    url = f"{front}/stream/probe?{UNMARKED}&count=200&interval=50&id={name}"
    with open_exchange(Request(url, timeout=PATIENCE)) as exchange:
        assert len(list(itertools.islice(exchange.events(), 3))) == 3
    left_at = time.monotonic()
    while json.loads(asked(f"{front}/stream/probe?ask={name}").body)["state"] != "left":
        assert time.monotonic() < left_at + 3, "it would have taken 10 s to the end"
        time.sleep(INTERVAL)


def test_a_page_beside_it_is_compressed_as_before(front: str) -> None:
    seen = asked(front + "/page", headers=BROWSER)
    assert seen.coding in ("gzip", "br") and (seen.coding == "br" or seen.body.decode() == PAGE)


def test_a_big_answer_beside_it_is_buffered_as_before(start: Callable[[str, bool], str]) -> None:
    seen = asked(start("nginx", True) + "/slow")  # of the others none buffers what comes slowly
    assert seen.body.count(b"\n") == PIECES
    assert seen.chunks[-1].at - seen.chunks[0].at < PIECES * SLOW_INTERVAL / 2


def test_the_app_sees_the_name_that_the_client_used(front: str) -> None:
    name = secrets.token_hex(8)
    seen = asked(f"{front}/stream/probe?count=1&id={name}", headers=(("Host", "stream.example"),))
    assert seen.status == 200
