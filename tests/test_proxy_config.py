"""`flaskstream proxy-config`: what it prints is run by the real program, with the probe through it.

The app behind says nothing that helps: no X-Accel-Buffering, no no-transform. Each program compresses what it can, and
beside the stream there are ordinary routes.
"""

from __future__ import annotations

import itertools
import json
import secrets
import statistics
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, Callable, Iterator

import pytest
from apps.beside import ASKED, BROKEN, PAGE, PIECES
from apps.beside import INTERVAL as SLOW_INTERVAL
from click.testing import CliRunner
from proxies import (
    ApacheProcess,
    CaddyProcess,
    ExpressProcess,
    HaproxyProcess,
    LighttpdProcess,
    NginxProcess,
    ProxyProcess,
    VarnishProcess,
)
from servers import TESTS

from flaskstream.cli import main
from flaskstream.doctor.diagnosis import Cause
from flaskstream.doctor.evidence import Evidence
from flaskstream.doctor.exit_codes import EXIT_USAGE
from flaskstream.doctor.experiments import BROWSER_CODINGS
from flaskstream.doctor.fingerprints import PRODUCTS
from flaskstream.doctor.looks import Look, Variant
from flaskstream.doctor.measure import Recording, Request, open_exchange, record
from flaskstream.doctor.snippets import with_snippet
from flaskstream.errors import InvalidSetting
from flaskstream.lab.gunicorn import GunicornProcess
from flaskstream.proxies import PROXIES, snippet_for

PATIENCE = 10
READ_TIMEOUT = 1  # seconds
INTERVAL = 0.15
TICKS = 8
UNMARKED = "header=X-Accel-Buffering:&header=Cache-Control:no-cache"
PROBE = f"/stream/probe?{UNMARKED}&count={TICKS}&interval={INTERVAL * 1000:.0f}"
BROWSER = (("Accept-Encoding", BROWSER_CODINGS),)


def in_nginx(snippet: str, app: str) -> ProxyProcess:
    ordinary = f"location / {{ proxy_pass http://{app}; }}"
    compressing = "gzip on; gzip_types text/event-stream text/csv;"
    unwilling = "proxy_ignore_client_abort on;"
    return NginxProcess(f"{compressing} {unwilling} server {{ listen {{listen}}; {ordinary}\n{snippet} }}")


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


def in_lighttpd(snippet: str, app: str) -> ProxyProcess:
    host, _, port = app.partition(":")
    ordinary = f'proxy.server = ( "" => (( "host" => "{host}", "port" => {port} )) )'
    compressing = 'deflate.mimetypes = ( "text/" )\ndeflate.allowed-encodings = ( "gzip", "br" )'
    return LighttpdProcess(f"{ordinary}\n{compressing}\n{snippet}")


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
    "lighttpd": in_lighttpd,
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


LATE_SECONDS = {"lighttpd": 2}
"""How much later a product notices a silence: it looks once a second, and stays with the client for one more."""


def name_of(request: Any) -> str:
    return str(request.node.callspec.params["front"])


@pytest.fixture
def shows_cuts(request: Any, front: str) -> bool:
    """Whether the product passes on that an answer broke off: Caddy 2.6 makes it look whole."""
    if name_of(request) != "caddy":
        return True
    version = subprocess.run(["caddy", "version"], capture_output=True, text=True, check=True).stdout
    return not version.lstrip("v").startswith("2.6")


def asked(url: str, **request: Any) -> Recording:
    return record(Request(url, timeout=PATIENCE, **request))


def gaps(seen: Recording) -> list[float]:
    arrivals = [timed.at for timed in seen.events[:-1]]
    return [later - earlier for earlier, later in zip(arrivals, arrivals[1:])]


def came_one_by_one(seen: Recording) -> bool:
    """Tell whether nearly each tick came by itself, and not later than it was sent: two bunches are the machine's."""
    assert len(seen.events) == TICKS + 2, (seen.status, seen.error)
    apart = [gap > INTERVAL / 3 for gap in gaps(seen)]
    ticks = [(timed.at, timed.event.json()) for timed in seen.events[:-1]]
    reached_at = ticks[0][1]["clock"]  # the app's clock is ours
    delays = [came_at - reached_at - tick["sent_ms"] / 1000 for came_at, tick in ticks]
    return sum(apart) >= TICKS - 2 and statistics.median(delays) < INTERVAL / 2


# With the real programs.


@pytest.mark.parametrize("headers", [(), BROWSER], ids=["plain", "browser"])
def test_the_route_streams(front: str, headers: Any) -> None:
    seen = asked(front + PROBE, headers=headers)
    assert came_one_by_one(seen)
    assert (seen.status, seen.coding, seen.framing_complete) == (200, "identity", True)
    assert seen.framing == "chunked"  # so that a cut stream would not look whole


@pytest.mark.parametrize("name", ["nginx", "haproxy", "lighttpd", "varnish", "express"])
def test_without_the_snippet_it_does_not(name: str, start: Callable[[str, bool], str]) -> None:
    plain, browser = (asked(start(name, False) + PROBE, headers=headers) for headers in ((), BROWSER))
    assert not (came_one_by_one(plain) and browser.coding == "identity" and came_one_by_one(browser))


def test_large_events_are_not_one_late(front: str) -> None:
    assert came_one_by_one(asked(f"{front}{PROBE}&pad=6000", headers=BROWSER))


def test_a_post_streams_as_well(front: str) -> None:
    assert came_one_by_one(asked(front + PROBE, method="POST", headers=BROWSER, body=b""))


def test_heartbeats_outlive_the_read_timeout_and_silence_does_not(request: Any, front: str, shows_cuts: bool) -> None:
    late = LATE_SECONDS.get(name_of(request), 0)
    silence_ms = READ_TIMEOUT * 1800 + late * 1000
    silence = f"{front}/stream/probe?{UNMARKED}&count=2&interval=50&silence={silence_ms}"
    with ThreadPoolExecutor(2) as pool:
        alive, silent = pool.map(asked, (f"{silence}&heartbeat={READ_TIMEOUT * 200}", silence))
    assert alive.framing_complete and alive.events[-1].event.event == "done"
    assert len(alive.comments) > 4
    assert len(silent.events) == 2 and looks_whole(silent) != shows_cuts
    assert READ_TIMEOUT * 0.8 < silent.ended_at - silent.events[-1].at < READ_TIMEOUT * 1.8 + late


def looks_whole(seen: Recording) -> bool:
    """Tell whether the end says that nothing is missing."""
    assert seen.ended != "timeout", "the client would wait for ever"
    return seen.framing_complete


def test_an_answer_that_breaks_off_does_not_look_whole(front: str, shows_cuts: bool) -> None:
    seen = asked(front + BROKEN)
    assert len(seen.events) == 1 and looks_whole(seen) != shows_cuts


def left(front: str, probe: str) -> dict[str, Any]:
    """Leave a probe after three ticks; return what the app knows of it in the end."""
    name = secrets.token_hex(8)
    with open_exchange(Request(f"{front}/stream/probe?{UNMARKED}&{probe}&id={name}", timeout=PATIENCE)) as exchange:
        assert len(list(itertools.islice(exchange.events(), 3))) == 3
    deadline = time.monotonic() + PATIENCE
    while True:
        known = json.loads(asked(f"{front}/stream/probe?ask={name}").body)
        if known["state"] != "running":
            return dict(known)
        assert time.monotonic() < deadline
        time.sleep(INTERVAL)


def test_the_going_of_a_client_is_passed_on(front: str) -> None:
    known = left(front, "count=100&interval=50")
    assert known["state"] == "left" and known["sent"] < 60


@pytest.mark.parametrize("name", ["nginx", "caddy", "express"])
def test_these_pass_it_on_also_while_nothing_is_said(name: str, start: Callable[[str, bool], str]) -> None:
    silence = READ_TIMEOUT * 900
    known = left(start(name, True), f"count=4&interval=50&silence={silence}")
    assert (known["state"], known["sent"]) == ("left", 3) and known["left_after_ms"] < silence


def test_a_page_beside_it_is_compressed_as_before(front: str) -> None:
    seen = asked(front + "/page", headers=BROWSER)
    assert seen.coding in ("gzip", "br") and (seen.coding == "br" or seen.body.decode() == PAGE)


def test_a_big_answer_beside_it_is_buffered_as_before(start: Callable[[str, bool], str]) -> None:
    seen = asked(start("nginx", True) + "/slow")  # of the others none buffers what comes slowly
    assert seen.body.count(b"\n") == PIECES
    assert seen.chunks[-1].at - seen.chunks[0].at < PIECES * SLOW_INTERVAL / 2


def test_the_app_is_asked_as_the_client_asked(front: str) -> None:
    seen = asked(f"{front}{ASKED}?a=%20b", headers=BROWSER)
    told = json.loads(seen.body)
    headers = told["headers"]
    assert told["url"] == f"{ASKED}?a=%20b"
    assert (headers["Host"], headers["X-Forwarded-For"]) == (front.partition("://")[2], "127.0.0.1")
    assert "Accept-Encoding" not in headers, "its compressors would take part"


# What the doctor says.


def evidence(**more: Any) -> Evidence:
    return Evidence("https://example.com/app/probe", {"first": Look(Variant(), 200, **more)}, "nginx")


def cause(name: str) -> Cause:
    return Cause(name, 0.9, "seen", "cure")


@pytest.mark.parametrize("name", ["proxy_buffering", "compression", "idle_timeout"])
def test_a_cause_comes_with_the_snippet_of_the_product(name: str) -> None:
    other, cured, again = with_snippet([cause("no_free_worker"), cause(name), cause(name)], evidence())
    assert cured.snippet == snippet_for("nginx", "/app/") and "location ^~ /app/ {" in cured.snippet
    assert not other.snippet and not again.snippet


def test_a_whole_body_is_cured_where_the_product_itself_reads_it() -> None:
    looks = {"first": Look(Variant(), 200)}
    (held,) = with_snippet([cause("whole_body_filter")], Evidence("http://a/stream/probe", looks, "lighttpd"))
    (other,) = with_snippet([cause("whole_body_filter")], Evidence("http://a/stream/probe", looks, "nginx"))
    assert "server.stream-response-body = 2" in held.snippet and not other.snippet


def test_without_a_proxy_there_is_no_snippet() -> None:
    assert with_snippet([cause("proxy_buffering")], evidence(is_direct=True)) == (cause("proxy_buffering"),)


def test_haproxy_is_known_by_its_cork() -> None:
    nameless = Evidence("http://example.com/stream/probe", {"first": Look(Variant(), 200)})
    (corked,) = with_snippet([cause("kernel_cork")], nameless)
    (other,) = with_snippet([cause("proxy_buffering")], nameless)
    assert "option http-no-delay" in corked.snippet and not other.snippet


# What is printed.


def printed(*arguments: str) -> str:
    done = CliRunner().invoke(main, ["proxy-config", *arguments])
    assert done.exit_code == 0, done.output
    return done.output


def test_without_a_name_it_lists_them() -> None:
    assert [line.split()[0] for line in printed().splitlines()] == list(PROXIES)


@pytest.mark.parametrize("name", PROXIES)
def test_the_options_are_all_that_changes(name: str) -> None:
    said = printed(name, "--route", "/a.b/", "--upstream", "app.example:81", "--read-timeout", "97")
    assert said == PROXIES[name].snippet("/a.b/", "app.example:81", 97)
    assert "app.example" in said and "97" in said and "@" not in said
    assert printed(name) == snippet_for(name)


@pytest.mark.parametrize("name", ["nginx", "varnish"])
@pytest.mark.parametrize("arguments", [(), ("--upstream", "[::1]:8", "--read-timeout", "3600")])
def test_comments_stand_below_one_another_whatever_the_values(name: str, arguments: tuple[str, ...]) -> None:
    lines = [line for line in printed(name, *arguments).splitlines() if "  # " in line]
    columns = [line.index("# ") for line in lines]
    usual = max(columns, key=columns.count)
    assert columns.count(usual) > 5
    assert all(column == usual or line[:column].endswith(";  ") for column, line in zip(columns, lines))


@pytest.mark.parametrize("name", PROXIES)
def test_each_line_has_its_reason(name: str) -> None:
    """On it, or in the line above; lines that open or close a block need none."""
    mark = PROXIES[name].comment
    lines = PROXIES[name].snippet().splitlines()
    assert lines[0].startswith(mark)
    for above, line in zip(lines, lines[1:]):
        is_bracket = line.endswith(("{", "(", ">")) or not any(map(str.isalnum, line))
        assert is_bracket or mark in line.split() or above.strip().startswith(mark), line


@pytest.mark.parametrize(
    "arguments",
    [
        ("apache", "--route", "stream"),
        ("apache", "--route", '/"x'),
        ("nginx", "--route", "/a b/"),
        ("nginx", "--upstream", "http://127.0.0.1:8000"),
        ("nginx", "--upstream", "127.0.0.1:65536"),
        ("nginx", "--upstream", "127.0.0.1:0"),
        ("nginx", "--upstream", "[1:2]:80"),
        ("nginx", "--upstream", "[::1]"),
        ("nginx", "--read-timeout", "0"),
        ("iis",),
    ],
)
def test_what_cannot_be_written_is_refused(arguments: tuple[str, ...]) -> None:
    done = CliRunner().invoke(main, ["proxy-config", *arguments])
    assert done.exit_code == EXIT_USAGE and "Usage" in done.output


@pytest.mark.parametrize("name", PROXIES)
def test_the_app_may_listen_at_an_address_of_ipv6(name: str) -> None:
    said = printed(name, "--upstream", "[::1]:8000")
    assert ('"::1"' if name in ("lighttpd", "varnish") else "[::1]:8000") in said


def test_who_calls_it_is_told_what_was_expected() -> None:
    with pytest.raises(InvalidSetting, match="expected HOST:PORT"):
        PROXIES["nginx"].snippet(upstream="8000")


def test_products_are_named_as_the_doctor_names_them() -> None:
    assert set(PROXIES) <= {product for product, _, _ in PRODUCTS}
    assert snippet_for("iis") == snippet_for("") == ""


def test_a_route_that_cannot_be_written_becomes_the_usual_one() -> None:
    assert snippet_for("nginx", "/a;b/") == snippet_for("nginx")
    assert "location = /clock {" in snippet_for("nginx", "/clock")
