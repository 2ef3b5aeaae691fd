"""The same under gunicorn with gevent, with all of them around one app, and many streams of one worker interleaved."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from one_view import PATIENCE
from relay_client import complete
from wrapped import COUNT, assert_closed_behind, assert_prompt, held_until_the_end

from flaskstream.doctor.measure import Request, record
from flaskstream.lab.gunicorn import GunicornProcess
from flaskstream.testing import open_stream

NEEDED = (
    "cachelib",
    "flask_compress",
    "flask_debugtoolbar",
    "flask_session",
    "opentelemetry.instrumentation.flask",
    "opentelemetry.instrumentation.wsgi",
    "opentelemetry.sdk",
    "sentry_sdk",
)
OFFER = ("Accept-Encoding", "gzip, deflate, br")
MANY = 8
TICK_OF_MANY = 0.5  # seconds: in each of them two cores write a tick of all streams, through all wrappers, and read it


@pytest.fixture(scope="module")
def server(model):
    for package in NEEDED:
        pytest.importorskip(package, reason=f"{package} is not installed")
    tests = os.path.dirname(os.path.abspath(__file__))
    with GunicornProcess({"upstream": model.url}, app="apps.wrapped:app", folder=tests) as process:
        process.wait_until_it_answers("/closed")
        record(Request(process.url + "/ticks?seconds=0", timeout=PATIENCE))  # the wrappers import much when first used
        yield process
        assert "Failed to detach context" not in process.errors()


def told(server, path):
    with open_stream(server.url + path, timeout=PATIENCE) as answer:
        return answer.json()


def at_once(function):
    """Call it for many clients at the same time, with the number of each."""
    with ThreadPoolExecutor(MANY) as pool:
        return list(pool.map(function, range(MANY)))


def test_streams_come_tick_by_tick(server):
    of_its_own = [("X-Forwarded-For", f"203.0.113.{n}") for n in range(MANY)]
    at_once(lambda n: assert_prompt(server.url, OFFER, of_its_own[n], seconds=TICK_OF_MANY))


def test_the_control_the_usual_stream_is_held(server):
    usual = record(Request(server.url + "/usual", headers=(OFFER,)))
    assert usual.header("Content-Encoding") == "br"
    assert held_until_the_end(usual)


@pytest.mark.parametrize("path", ["/endless", "/silent"])
def test_a_client_that_leaves_is_noticed(server, path):
    assert_closed_behind(server.url, OFFER, path=path)


def test_each_span_belongs_to_its_own_request(server):
    told(server, "/spans")
    traces = [f"{n + 1:032x}" for n in range(MANY)]
    parents = [("traceparent", f"00-{trace}-b7ad6b7169203331-01") for trace in traces]
    at_once(lambda n: assert_prompt(server.url, parents[n], seconds=TICK_OF_MANY))
    spans = [tuple(span) for span in told(server, "/spans")]
    for trace in traces:
        assert spans.count(("tick", trace)) == COUNT
        assert spans.count(("GET /ticks", trace)) == 2  # one of Flask, one of WSGI


@pytest.mark.parametrize("path", ["/fails", "/refuses"])
def test_each_error_is_told_once_and_of_its_own_request(server, path):
    told(server, "/sent")
    at_once(lambda n: record(Request(f"{server.url}{path}?client={n}")))
    assert sorted(told(server, "/sent")) == [["ZeroDivisionError", f"client={n}"] for n in range(MANY)]


def test_an_upstream_that_breaks_is_told_once(server):
    told(server, "/sent")
    recording = complete(server, "tick?tokens=8&interval_ms=20&reset_at=900")
    assert recording.status == 200 and not recording.framing_complete
    kinds = [kind for kind, _ in told(server, "/sent")]
    assert kinds.count("UpstreamTruncated") == 1  # however often it is raised: there may be a line of the log beside it
