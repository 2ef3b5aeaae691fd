"""The doctor asks by HTTP/2, too, where the hop offers it, and says where only one of the two versions is held."""

from __future__ import annotations

import dataclasses
import ssl

import pytest

from flaskstream.doctor.chain import judge
from flaskstream.doctor.diagnosis import Hop
from flaskstream.doctor.evidence import Evidence
from flaskstream.doctor.examine import examine, examine_hop
from flaskstream.doctor.experiments import FIRST, FLOWING, HELD, HTTP2, possible
from flaskstream.doctor.look import Looker
from flaskstream.doctor.looks import Look, Tick, Variant
from flaskstream.lab.gunicorn import GunicornProcess

pytest.importorskip("h2", reason="h2 is not installed")
from test_http2 import nginx

PROBE = "/stream/probe"
HELD_BY_1, HELD_BY_2 = "HTTP/1.1 is held, HTTP/2 streams", "HTTP/1.1 streams, HTTP/2 is held"


@pytest.fixture
def tls(certificate: str) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=certificate)


def examined(url: str, tls: ssl.SSLContext | None = None) -> Hop:
    (hop,) = examine([Looker(url + PROBE, tls=tls)]).hops
    return hop


def test_a_hop_that_streams_is_asked_by_http_2_as_well(
    gunicorn: GunicornProcess, certificate: str, tls: ssl.SSLContext
) -> None:
    with nginx(gunicorn.url, certificate) as process:
        hop = examined(process.url.replace("http:", "https:"), tls)
    look = hop.evidence.looks["http2"]
    assert (look.framing, look.ended, look.is_whole) == ("http2", "end_stream", True)
    assert hop.evidence.streamed("first") and hop.evidence.streamed("http2")
    assert not hop.is_offender and not any("HTTP/2" in note for note in hop.notes)


class OfHttp1(Looker):
    """A hop over TLS that streams, and knows HTTP/1 alone."""

    def look(self, variant: Variant) -> Look:
        if variant is HTTP2:
            return Look(variant, None, ended="refused", error="expected a peer that speaks HTTP/2, got http/1.1")
        return look(variant, is_held=False)


def test_a_server_of_http_1_alone_is_no_fault() -> None:
    seen = examine_hop(OfHttp1("https://example.com/stream/probe"), 0.0, lambda line: None)
    assert seen.streamed("gzip") and "http2" not in seen.looks


def test_in_the_clear_browsers_do_not_speak_it_and_nor_does_the_doctor() -> None:
    for looks in (FLOWING, HELD):
        assert HTTP2 in possible(looks, "https://example.com/stream/probe")
        assert HTTP2 not in possible(looks, "http://example.com/stream/probe")


def test_a_hop_that_holds_for_http_1_alone_is_told_so(
    gunicorn: GunicornProcess, certificate: str, tls: ssl.SSLContext
) -> None:
    # Over TLS this nginx collects what it is given in pieces of 16 KB; its HTTP/2 sends each at once.
    with nginx(gunicorn.url, certificate, "proxy_http_version 1.1; proxy_ignore_headers X-Accel-Buffering;") as process:
        hop = examined(process.url.replace("http:", "https:"), tls)
    assert hop.is_offender and hop.causes[0].name == "proxy_buffering"
    assert "location ^~ /stream/ {" in hop.causes[0].snippet and "proxy_buffering off;" in hop.causes[0].snippet
    assert hop.evidence.streamed("http2")
    assert any(note.startswith(HELD_BY_1) for note in hop.notes)


# One that holds by HTTP/2 alone: none was found, and it would be named.


def look(variant: Variant, is_held: bool) -> Look:
    sent = [number * variant.interval for number in range(variant.count + 1)]
    ticks = tuple(Tick(n, at, at, sent[-1] if is_held else at, 60) for n, at in enumerate(sent))
    answer = Look(variant, 200, {"content-type": "text/event-stream"}, "http2", ticks=ticks, is_whole=True)
    return dataclasses.replace(
        answer, ended="end_stream", ended_at=sent[-1], headers_at=0.0, first_byte_at=0.0, queued=0.0
    )


def test_what_is_held_by_http_2_alone_is_held() -> None:
    gzip = next(variant for variant in FLOWING if variant.name == "gzip")
    looks = {variant.name: look(variant, is_held=variant is HTTP2) for variant in (FIRST, gzip, HTTP2)}
    (hop,) = judge([Evidence("https://example.com/stream/probe", looks)])
    assert (hop.verdict.name, hop.verdict.look, hop.causes[0].name) == ("held_to_end", "http2", "proxy_buffering")
    assert "by HTTP/1.1 it streams" in hop.verdict.sentence
    assert any(note.startswith(HELD_BY_2) for note in hop.notes)
