"""The raw client in HTTP/2: against what a peer may say, byte by byte, and against real servers."""

from __future__ import annotations

import itertools
import json
import secrets
import ssl
import statistics
import time
from typing import Any, Iterator

import pytest
from proxies import HaproxyProcess, NghttpxProcess, NginxProcess
from test_measure import PATIENCE, served

from flaskstream.doctor.measure import Recording, Request, open_exchange, record
from flaskstream.doctor.wire import Body, End, Head
from flaskstream.errors import InvalidSetting
from flaskstream.lab.gunicorn import GunicornProcess

pytest.importorskip("h2", reason="h2 is not installed")
import h2.config
import h2.connection
import h2.errors
import hyperframe.frame

from flaskstream.doctor.http2 import WINDOW_BYTES, Http2

STREAM = 1
EVENTS = [(":status", "200"), ("content-type", "text/event-stream")]
INTERVAL = 0.12
TICKS = 8
PROBE = f"/stream/probe?count={TICKS}&interval={INTERVAL * 1000:.0f}"


class Server:
    """The other side of one connection, without a socket."""

    def __init__(self, client: Http2) -> None:
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        self.h2.initiate_connection()
        self.client = client
        self.heard: list[Any] = []
        self.hear(client.outgoing())

    def hear(self, data: bytes) -> None:
        self.heard += self.h2.receive_data(data)

    def asked(self) -> dict[str, str]:
        """Return the headers that were asked with."""
        (event,) = [event for event in self.heard if isinstance(event, h2.events.RequestReceived)]
        return dict(event.headers)

    def body(self) -> bytes:
        return b"".join(event.data for event in self.heard if isinstance(event, h2.events.DataReceived))

    def head(self, headers: Any = EVENTS, **more: Any) -> bytes:
        self.h2.send_headers(STREAM, headers, **more)
        return bytes(self.h2.data_to_send())

    def data(self, data: bytes, **more: Any) -> bytes:
        self.h2.send_data(STREAM, data, **more)
        return bytes(self.h2.data_to_send())

    def reset(self) -> bytes:
        self.h2.reset_stream(STREAM, h2.errors.ErrorCodes.INTERNAL_ERROR)
        return bytes(self.h2.data_to_send())


def goaway(last: int, code: int = 0, said: bytes = b"") -> bytes:
    return hyperframe.frame.GoAwayFrame(0, last_stream_id=last, error_code=code, additional_data=said).serialize()


def asking(**request: Any) -> tuple[Http2, Server]:
    client = Http2(Request("http://example.com:81/path?query", http_version="2", **request))
    return client, Server(client)


# What is sent.


def test_the_request_says_what_one_of_http_1_says() -> None:
    _, server = asking(headers=(("Accept", "text/event-stream"), ("Connection", "close"), ("TE", "gzip")))
    assert server.asked() == {
        ":method": "GET",
        ":scheme": "http",
        ":authority": "example.com:81",
        ":path": "/path?query",
        "accept": "text/event-stream",
    }


def test_a_host_of_its_own_is_the_authority() -> None:
    _, server = asking(headers=(("Host", "inner.example"),))
    assert server.asked()[":authority"] == "inner.example"
    assert "host" not in server.asked()


def test_a_body_waits_for_the_room_that_the_peer_has() -> None:
    body = bytes(range(256)) * 1000
    client, server = asking(method="POST", body=body)
    assert len(server.body()) == 65535  # RFC 9113 6.9.2: so much without having been asked
    server.h2.increment_flow_control_window(len(body))
    server.h2.increment_flow_control_window(len(body), STREAM)
    client.feed(server.h2.data_to_send())
    server.hear(client.outgoing())
    assert server.body() == body
    assert server.asked()["content-length"] == str(len(body))


def test_a_ping_is_answered() -> None:
    client, server = asking()
    server.h2.ping(b"12345678")
    client.feed(server.h2.data_to_send())
    server.hear(client.outgoing())
    assert any(isinstance(event, h2.events.PingAckReceived) for event in server.heard)


def test_who_leaves_says_so() -> None:
    client, server = asking()
    client.feed(server.head())
    server.hear(client.farewell())
    assert [type(event).__name__ for event in server.heard[-2:]] == ["StreamReset", "ConnectionTerminated"]


def test_without_its_package_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flaskstream.doctor.request.speaks_http2", lambda: False)
    with pytest.raises(InvalidSetting, match=r"flaskstream\[http2\]"):
        Request("http://example.com", http_version="2")


# What the bytes mean. Each is read whole, and byte by byte.


def joined(parts: list[Any]) -> list[Any]:
    """Return the parts, bodies that follow one another as one."""
    kept: list[Any] = []
    for part in parts:
        if kept and isinstance(part, Body) and isinstance(kept[-1], Body):
            kept[-1] = Body(kept[-1].data + part.data)
        else:
            kept.append(part)
    return kept


def parts_of(play: Any, is_bytewise: bool) -> list[Any]:
    """Return the parts that a client makes of what `play(server)` sends, and of the end of the connection."""
    client, server = asking()
    data = play(server)
    pieces = [data[n : n + 1] for n in range(len(data))] if is_bytewise else [data]
    return joined([part for piece in pieces for part in client.feed(piece)] + client.close())


PLAYS: dict[str, tuple[Any, list[Any]]] = {
    "whole": (
        lambda server: server.head() + server.data(b"data: 1\n\n") + server.data(b"data: 2\n\n", end_stream=True),
        [Body(b"data: 1\n\ndata: 2\n\n"), End("end_stream")],
    ),
    "head alone": (lambda server: server.head(end_stream=True), [End("end_stream")]),
    "trailers": (
        lambda server: server.head() + server.data(b"x") + server.head([("checksum", "1")], end_stream=True),
        [Body(b"x"), End("end_stream", trailers=(("checksum", "1"),))],
    ),
    "reset": (
        lambda server: server.head() + server.data(b"x") + server.reset(),
        [Body(b"x"), End("reset", "expected END_STREAM, got RST_STREAM (INTERNAL_ERROR)")],
    ),
    "closed": (
        lambda server: server.head() + server.data(b"x"),
        [Body(b"x"), End("close", "expected END_STREAM, got the end")],
    ),
    "goodbye, and the answer goes on": (
        lambda server: server.head() + goaway(STREAM) + server.data(b"x", end_stream=True),
        [Body(b"x"), End("end_stream")],
    ),
    "goodbye, and it does not": (
        lambda server: server.head() + goaway(STREAM, 11, b"slow down") + server.data(b"x"),
        [Body(b"x"), End("close", "expected END_STREAM, got the end, after GOAWAY (ENHANCE_YOUR_CALM) 'slow down'")],
    ),
}


@pytest.mark.parametrize("is_bytewise", [False, True], ids=["whole", "byte by byte"])
@pytest.mark.parametrize("name", PLAYS)
def test_an_answer_is_read(name: str, is_bytewise: bool) -> None:
    play, expected = PLAYS[name]
    head, *rest = parts_of(play, is_bytewise)
    assert head == Head("2", 200, "", (("content-type", "text/event-stream"),), "http2", None)
    assert rest == expected


@pytest.mark.parametrize("is_bytewise", [False, True], ids=["whole", "byte by byte"])
def test_an_interim_head_is_no_answer(is_bytewise: bool) -> None:
    interim, head, *_ = parts_of(lambda server: server.head([(":status", "103")]) + server.head(), is_bytewise)
    assert (interim.status, interim.interim, head.status, head.interim) == (103, True, 200, False)


def test_a_goodbye_to_this_stream_is_a_reset() -> None:
    settings = hyperframe.frame.SettingsFrame(0).serialize()
    assert parts_of(lambda server: settings + goaway(0, 1), False) == [
        End("reset", "expected an answer, got GOAWAY (PROTOCOL_ERROR)")
    ]


def test_a_body_that_is_shorter_than_it_says_is_no_http() -> None:
    head = [*EVENTS, ("content-length", "5")]
    *_, end = parts_of(lambda server: server.head(head) + server.data(b"abc", end_stream=True), False)
    assert end.how == "malformed" and end.error


# Over sockets.


def test_a_client_that_leaves_says_so_and_closes_with_fin() -> None:
    def script(peer: Any) -> list[str]:
        server = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        server.initiate_connection()
        heard = server.receive_data(peer.request)
        while not any(isinstance(event, h2.events.RequestReceived) for event in heard):
            heard = server.receive_data(peer.connection.recv(65536))
        server.send_headers(STREAM, EVENTS)
        peer.send(server.data_to_send())
        rest = b"".join(iter(lambda: peer.connection.recv(65536), b""))
        return [type(event).__name__ for event in server.receive_data(rest)]

    with served(script) as server:
        with open_exchange(Request(server.url, http_version="2", timeout=PATIENCE)) as exchange:
            assert exchange.status == 200
        assert server.result.result(PATIENCE)[-2:] == ["StreamReset", "ConnectionTerminated"]


def test_a_server_that_speaks_http_1_is_told_apart() -> None:
    with served(lambda peer: peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as server:
        got = record(Request(server.url, http_version="2", timeout=PATIENCE))
    assert (got.status, got.ended) == (None, "malformed")
    assert "expected HTTP/2" in got.error and "HTTP/1.1 400" in got.error


NGINX = """
server {{
    listen {{listen}} ssl {http2};
    ssl_certificate {certificate};
    ssl_certificate_key {certificate};
    client_max_body_size 10m;
    location / {{ proxy_pass {upstream}; {more} }}
}}
"""


def nginx(upstream: str, certificate: str, more: str = "", http2: str = "http2") -> NginxProcess:
    return NginxProcess(NGINX.format(upstream=upstream, certificate=certificate, more=more, http2=http2))


@pytest.fixture(scope="module")
def secured(gunicorn: GunicornProcess, certificate: str) -> Iterator[str]:
    """The URL of an nginx that speaks HTTP/2 and HTTP/1.1 over TLS, in front of the kit."""
    with nginx(gunicorn.url, certificate) as process:
        yield process.url.replace("http:", "https:")


@pytest.fixture(scope="module")
def in_the_clear(gunicorn: GunicornProcess) -> Iterator[str]:
    """The URL of an nghttpx in front of the kit."""
    with NghttpxProcess(f"--backend={gunicorn.url.rpartition('/')[2].replace(':', ',')}") as process:
        yield process.url


@pytest.fixture(params=["secured", "in_the_clear"])
def front(request: Any) -> str:
    return str(request.getfixturevalue(request.param))


@pytest.fixture
def tls(certificate: str) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=certificate)


def asked(url: str, tls: ssl.SSLContext, **request: Any) -> Recording:
    return record(Request(url, http_version="2", tls=tls, timeout=PATIENCE, **request))


def gaps(seen: Recording) -> list[float]:
    arrivals = [timed.at for timed in seen.events[:-1]]
    return [later - earlier for earlier, later in zip(arrivals, arrivals[1:])]


def test_ticks_come_one_by_one_through_real_servers(front: str, tls: ssl.SSLContext) -> None:
    seen = asked(front + PROBE, tls)
    assert (seen.status, seen.http_version, seen.framing, seen.ended) == (200, "2", "http2", "end_stream")
    assert seen.framing_complete and not seen.error and not seen.cut_inside_event
    assert (seen.header("Content-Type") or "").startswith("text/event-stream")
    assert len(seen.events) == TICKS + 2 and seen.events[-1].event.event == "done"
    assert INTERVAL / 2 < statistics.median(gaps(seen)) < INTERVAL * 2
    assert seen.headers_at is not None and seen.headers_at < seen.events[1].at


def test_an_answer_that_is_larger_than_the_window_comes_whole(front: str, tls: ssl.SSLContext) -> None:
    count, pad = 280, 65536
    seen = asked(f"{front}/stream/probe?count={count}&interval=5&pad={pad}", tls)
    assert (len(seen.events), seen.ended, seen.error) == (count + 2, "end_stream", "")
    assert len(seen.body) > count * pad > WINDOW_BYTES


def test_a_body_that_is_larger_than_the_window_goes_out_whole(secured: str, tls: ssl.SSLContext) -> None:
    form = (("Content-Type", "application/x-www-form-urlencoded"),)
    seen = asked(secured + "/stream/probe", tls, method="POST", headers=form, body=b"count=" + b"1" * 300_000)
    # nginx asks the app when it has all of it; and the app was given all of it, for it wants fewer ticks.
    assert (seen.status, seen.ended) == (400, "end_stream")
    assert "count" in json.loads(seen.body)["error"]["message"]


def test_the_app_is_told_that_the_client_has_left(front: str, tls: ssl.SSLContext) -> None:
    name = secrets.token_hex(8)
    request = Request(f"{front}/stream/probe?count=100&interval=50&id={name}", http_version="2", tls=tls)
    with open_exchange(request) as exchange:
        assert len(list(itertools.islice(exchange.events(), 3))) == 3
    deadline = time.monotonic() + PATIENCE
    while json.loads(asked(f"{front}/stream/probe?ask={name}", tls).body)["state"] != "left":
        assert time.monotonic() < deadline
        time.sleep(INTERVAL)


def test_a_server_without_http_2_refuses(gunicorn: GunicornProcess, certificate: str, tls: ssl.SSLContext) -> None:
    with nginx(gunicorn.url, certificate, http2="") as process:
        url = process.url.replace("http:", "https:")
        got = asked(url + PROBE, tls)
        assert (got.ended, got.status) == ("refused", None)
        assert got.error == "expected a peer that speaks HTTP/2, got http/1.1"
        assert record(Request(url + PROBE, tls=tls, timeout=PATIENCE)).http_version == "1.1"


def test_one_tls_context_serves_both_versions(secured: str, tls: ssl.SSLContext) -> None:
    seen = [record(Request(secured + PROBE, http_version=version, tls=tls)) for version in ("2", "1.1", "2", "1.0")]
    assert [one.http_version for one in seen] == ["2", "1.1", "2", "1.1"]
    assert [one.ended for one in seen] == ["end_stream", "final_chunk", "end_stream", "close"]


def bunches(seen: Recording) -> int:
    """Return how many ticks came with the one before."""
    return sum(gap < INTERVAL / 3 for gap in gaps(seen))


def test_haproxy_holds_ticks_for_http_1_and_not_for_http_2(gunicorn: GunicornProcess, tls: ssl.SSLContext) -> None:
    address = gunicorn.url.partition("://")[2]
    with HaproxyProcess(f"    server app {address}\n") as process:  # which speaks both on one port
        url = f"{process.url}/stream/probe?count=20&interval={INTERVAL * 1000:.0f}"
        corked, prompt = record(Request(url, timeout=PATIENCE)), asked(url, tls)
    assert (corked.http_version, prompt.http_version) == ("1.1", "2")
    assert bunches(corked) > 10 > 4 > bunches(prompt)


def test_a_stream_that_the_server_gives_up_is_a_reset(
    gunicorn: GunicornProcess, certificate: str, tls: ssl.SSLContext
) -> None:
    with nginx(gunicorn.url, certificate, "proxy_read_timeout 1s;") as process:
        url = process.url.replace("http:", "https:")
        seen = asked(f"{url}/stream/probe?count=4&interval=20&silence=5000", tls)
    assert (seen.status, seen.ended, seen.framing_complete) == (200, "reset", False)
    assert "RST_STREAM" in seen.error
