"""Streams that are watched by Sentry and OpenTelemetry: each error is told once, and spans belong to their request."""

from __future__ import annotations

import logging

import pytest
from one_view import PATIENCE, eventually
from wrapped import COUNT, TICK, app_to_wrap, assert_closed_behind, assert_prompt

from flaskstream.testing import open_stream, serve

TRACE = "0af7651916cd43dd8448eb211c80319c"
CALLER = "b7ad6b7169203331"


@pytest.fixture
def sentry():
    """Sentry as it is usually set up, with a transport that sends nothing. Gives what it would have sent."""
    sentry_sdk = pytest.importorskip("sentry_sdk", reason="sentry-sdk is not installed")
    sent = []

    class Recorder(sentry_sdk.transport.Transport):
        def capture_envelope(self, envelope):
            sent.extend((item.type, item.payload.json) for item in envelope.items)

    sentry_sdk.init(dsn="http://key@127.0.0.1:9/1", transport=Recorder, traces_sample_rate=1.0)
    try:
        yield sent
    finally:
        sentry_sdk.get_client().close()
        sentry_sdk.get_global_scope().set_client(None)


def of_type(sent, kind):
    return [payload for sent_kind, payload in sent if sent_kind == kind]


def read_all(url):
    """Read an answer to its end, as part of a trace."""
    with open_stream(url, headers={"sentry-trace": f"{TRACE}-{CALLER}-1"}, timeout=PATIENCE) as stream:
        return stream.status, stream.text()


@pytest.mark.parametrize(("path", "status"), [("/fails", 200), ("/refuses", 500)])
def test_sentry_is_told_of_an_error_once(sentry, path, status):
    app = app_to_wrap()
    with serve(app) as server:
        assert read_all(server.url + path)[0] == status
        assert eventually(lambda: of_type(sentry, "transaction"))
    (event,) = of_type(sentry, "event")
    (raised,) = event["exception"]["values"]
    assert (raised["type"], raised["value"]) == ("ZeroDivisionError", "of the view")
    assert raised["stacktrace"]["frames"][-1]["function"] == path[1:]
    assert event["request"]["url"] == server.url + path
    assert event["contexts"]["trace"]["trace_id"] == TRACE


def test_sentry_is_told_of_no_error_where_there_is_none(sentry):
    with serve(app_to_wrap()) as server:
        assert_prompt(server.url)
        assert_closed_behind(server.url)
    assert of_type(sentry, "event") == []


def test_sentry_knows_the_request_in_the_generator(sentry):
    import sentry_sdk

    seen = []

    class Span:
        def __enter__(self):
            self._span = sentry_sdk.start_span(op="tick")
            seen.append(self._span.__enter__().trace_id)

        def __exit__(self, *how):
            self._span.__exit__(*how)

    with serve(app_to_wrap(inside=Span)) as server:
        read_all(server.url + "/ticks")
    assert seen == [TRACE] * COUNT


@pytest.fixture
def exporter():
    pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not installed")
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    return InMemorySpanExporter()


@pytest.fixture
def provider(exporter):
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield provider
    provider.shutdown()


@pytest.fixture(params=["flask", "wsgi", "both"])
def traced(request, provider):
    """An app under OpenTelemetry, with a span for each tick."""
    for_flask = pytest.importorskip("opentelemetry.instrumentation.flask", reason="it is not installed")
    for_wsgi = pytest.importorskip("opentelemetry.instrumentation.wsgi", reason="it is not installed")
    tracer = provider.get_tracer("tests")
    app = app_to_wrap(inside=lambda: tracer.start_as_current_span("tick"))
    app.instrumented_by = request.param
    if request.param != "wsgi":
        for_flask.FlaskInstrumentor.instrument_app(app, tracer_provider=provider)
    if request.param != "flask":
        app.wsgi_app = for_wsgi.OpenTelemetryMiddleware(app.wsgi_app, tracer_provider=provider)
    return app


def test_under_opentelemetry_a_stream_streams_and_its_spans_belong_to_the_request(traced, exporter, caplog):
    caplog.set_level(logging.DEBUG, "opentelemetry")
    with serve(traced) as server:
        assert_prompt(server.url, ("traceparent", f"00-{TRACE}-{CALLER}-01"))
        assert eventually(lambda: len(exporter.get_finished_spans()) == COUNT + len(of_requests(exporter, traced)))
    inner = {"flask": 1, "wsgi": 1, "both": 2}[traced.instrumented_by]
    requests = of_requests(exporter, traced)
    assert len(requests) == inner
    ticks = [span for span in exporter.get_finished_spans() if span.name == "tick"]
    assert len(ticks) == COUNT
    parents = {span.parent.span_id for span in ticks}
    assert parents <= {span.context.span_id for span in requests} and len(parents) == 1
    assert {span.context.trace_id for span in (*requests, *ticks)} == {int(TRACE, 16)}
    if traced.instrumented_by != "flask":
        outer = max(requests, key=lambda span: span.end_time - span.start_time)
        assert outer.end_time - outer.start_time > (COUNT - 1) * TICK * 1e9  # it lasts as long as the answer
    assert complaints(caplog) == []


def of_requests(exporter, app):
    return [span for span in exporter.get_finished_spans() if span.name != "tick"]


def complaints(caplog):
    return [
        record.getMessage()
        for record in caplog.records
        if record.name.startswith("opentelemetry")
        and (record.levelno >= logging.WARNING or "ailed" in record.getMessage() or record.exc_info)
    ]


def test_under_opentelemetry_a_client_that_leaves_is_noticed(traced, exporter, caplog):
    caplog.set_level(logging.DEBUG, "opentelemetry")
    with serve(traced) as server:
        assert_closed_behind(server.url)
    assert complaints(caplog) == []
    names = [span.name for span in exporter.get_finished_spans()]
    assert "tick" in names and len([name for name in names if name != "tick"]) >= 1


@pytest.mark.parametrize(("path", "status"), [("/fails", 200), ("/refuses", 500)])
def test_under_opentelemetry_an_error_ends_every_span(traced, exporter, caplog, path, status):
    caplog.set_level(logging.DEBUG, "opentelemetry")
    with serve(traced) as server, open_stream(server.url + path) as stream:
        assert stream.status == status
        stream.text()
        assert eventually(lambda: len(of_requests(exporter, traced)) == 1 + (traced.instrumented_by == "both"))
    assert complaints(caplog) == []
