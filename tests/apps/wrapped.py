"""One app with everything around it at once, for gunicorn: `/sent` and `/spans` tell what its watchers were told."""

from __future__ import annotations

import time

import cachelib
import flask_compress
import flask_debugtoolbar
import flask_session
import sentry_sdk
from flask import Flask, jsonify, session
from opentelemetry.instrumentation.flask import FlaskInstrumentor
from opentelemetry.instrumentation.wsgi import OpenTelemetryMiddleware
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from werkzeug.middleware.proxy_fix import ProxyFix
from wrapped import HEARTBEAT, app_to_wrap, hold_on, put_behind

from flaskstream import event_stream
from flaskstream.blueprint import create_blueprint
from flaskstream.settings import Settings
from flaskstream.upstream import Upstream

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
tracer = provider.get_tracer("tests")
sent = []


class Recorder(sentry_sdk.transport.Transport):
    def capture_envelope(self, envelope):
        sent.extend(item.payload.json for item in envelope.items if item.type == "event")


def wrap(app: Flask) -> Flask:
    algorithms = ["zstd", "br", "gzip", "deflate"]
    app.config.update(
        COMPRESS_MIMETYPES=["text/event-stream"],
        COMPRESS_ALGORITHM_STREAMING=algorithms,
        DEBUG_TB_ENABLED=True,
        SESSION_TYPE="cachelib",
        SESSION_CACHELIB=cachelib.SimpleCache(),
    )
    flask_compress.Compress(app)
    flask_debugtoolbar.DebugToolbarExtension(app)
    flask_session.Session(app)
    FlaskInstrumentor.instrument_app(app, tracer_provider=provider)
    app.before_request(lambda: session.update(seen=True))
    app.wsgi_app = hold_on(ProxyFix(OpenTelemetryMiddleware(app.wsgi_app, tracer_provider=provider)))
    return app


sentry_sdk.init(dsn="http://key@127.0.0.1:9/1", transport=Recorder, traces_sample_rate=1.0)
inner = wrap(app_to_wrap(inside=lambda: tracer.start_as_current_span("tick")))
inner.register_blueprint(create_blueprint(Upstream(Settings.from_environment().upstream)), url_prefix="/stream")
app = put_behind(inner)


@inner.route("/silent")
@event_stream(heartbeat=HEARTBEAT)
def silent():
    try:
        yield "waiting"
        time.sleep(3600)
    finally:
        inner.closed.append(time.monotonic())


def kind(event):
    """The class of the exception, or the log's sentence if there is none."""
    if "exception" in event:
        return event["exception"]["values"][-1]["type"]
    return event["logentry"]["message"]


@inner.route("/sent")
def what_was_sent():
    told = [(kind(event), event["request"]["query_string"]) for event in sent]
    sent.clear()
    return jsonify(told)


@inner.route("/spans")
def spans():
    told = [(span.name, format(span.context.trace_id, "032x")) for span in exporter.get_finished_spans()]
    exporter.clear()
    return jsonify(told)
