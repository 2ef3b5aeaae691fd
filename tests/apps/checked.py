"""Apps for `flaskstream check`: each factory is one way to hold a stream, or none. A comment marks the line to name."""

from __future__ import annotations

import asyncio
import io
import itertools
import os
import resource
import signal
import subprocess
import time
import zlib

from flask import (
    Blueprint,
    Flask,
    Response,
    abort,
    after_this_request,
    jsonify,
    redirect,
    render_template_string,
    request,
    stream_with_context,
)
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.middleware.proxy_fix import ProxyFix
from werkzeug.wsgi import ClosingIterator

from flaskstream import event_stream


def events(count=30):
    for n in range(count):
        yield f"data: {n}\n\n"


def healthy():
    """An app with every kind of view that streams, and some that have nothing to stream."""
    app = Flask("healthy")

    @app.route("/kit")
    @event_stream
    def kit():
        for n in range(30):
            print("a line", n, flush=True)  # noqa: T201
            yield str(n)

    @app.route("/plain")
    def plain():
        return Response(stream_with_context(events()), mimetype="text/event-stream")

    @app.route("/tuple")
    def a_tuple():
        return Response(events(5)), 200, {"X-Accel-Buffering": "no"}

    @app.route("/made", methods=["GET", "POST"])
    def made():
        response = app.make_response(Response(events()))
        response.headers["X-Body"] = request.get_data(as_text=True)
        return response

    @app.route("/endless")
    def endless():
        def forever():
            while True:
                yield b"tick\n"

        return Response(forever())

    @app.route("/slow")
    def slow():
        def waits():
            yield "data: 1\n\n"
            time.sleep(3600)  # waits

        return Response(waits())

    @app.route("/idle")
    def idle():
        def feed():
            yield from events(4)
            time.sleep(3600)

        return Response(feed())

    @app.route("/page")
    def page():
        return "a page"

    @app.route("/file")
    def file():
        return Response(io.BytesIO(b"a file"), direct_passthrough=True)

    @app.route("/login")
    def login():
        return redirect("/page")

    @app.route("/user/")
    def user():
        return "a user"

    @app.route("/posted", methods=["POST"])
    def posted():
        return "posted"

    @app.route("/needs")
    def needs():
        return request.args["q"]

    @app.route("/gone")
    def gone():
        abort(404)

    @app.route("/names/<name>")
    def names(name):
        return name

    return app


def of_views():
    """Views that are wrong by themselves."""
    app = Flask("of_views")

    @app.route("/list")
    def a_list():
        return Response(list(events()), mimetype="text/event-stream")  # list

    @app.route("/export")
    def export():
        def rows():
            for n in range(9):
                yield f"{n},{n * n}\n"

        return Response("".join(rows()), mimetype="text/csv")  # export

    @app.route("/items")
    def items():
        return "".join(f"<li>{n}</li>" for n in range(9))

    @app.route("/tokens")
    def tokens():
        def words():
            for word in ("the", "words", "of", "a", "model"):
                yield word + " "
                time.sleep(0.1)

        return "".join(words())  # tokens

    @app.route("/join")
    def join():
        return Response("".join(events()))  # join

    @app.route("/data")
    def data():
        response = Response(events())
        return response.get_data()  # data

    @app.route("/whole")
    def whole():
        return Response("data: 1\n\ndata: 2\n\n", mimetype="text/event-stream")

    @app.route("/prints")
    def prints():
        def body():
            for piece in events():
                print("debug", piece)  # noqa: T201 - print
                yield piece

        return Response(body())

    @app.route("/fails")
    def fails():
        def body():
            raise ValueError("of the view")  # raise
            yield

        return Response(body())

    @app.route("/stubborn")
    def stubborn():
        def body():
            try:
                yield from events()
            finally:
                yield "data: end\n\n"  # finally

        return Response(body())

    @app.route("/catches")
    def catches():
        def body():
            try:
                yield "1"
                yield "2"
            except BaseException:
                yield "data: error\n\n"  # except

        return Response(body())

    @app.route("/number")
    def number():
        def body():
            yield "data: a\n\n"
            yield 5  # number

        return Response(body())

    @app.route("/raises/<name>")
    def raises(name):
        kinds = {kind.__name__: kind for kind in (SystemExit, KeyboardInterrupt, GeneratorExit)}

        def body():
            yield from events(3)
            raise kinds[name]

        return Response(body())

    @app.route("/exits")
    def exits():
        def body():
            yield from events(3)
            os._exit(3)

        return Response(body())

    @app.route("/crashes")
    def crashes():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.kill(os.getpid(), signal.SIGSEGV)

    @app.route("/view")
    def view():
        raise KeyError("of the view")  # view

    @app.route("/computes")
    def computes():
        def body():
            for piece in events():
                compute()
                yield piece

        def compute():
            end = time.perf_counter() + 1.5
            while time.perf_counter() < end:
                sum(range(1000))

        return Response(body())

    @app.route("/spins")
    def spins():
        def body():
            yield "1"
            while True:
                len("")  # spins

        return Response(body())

    @app.route("/template")
    def template():
        return render_template_string("<ul>{% for n in numbers %}<li>{{ n }}</li>{% endfor %}</ul>", numbers=range(9))

    @app.route("/json")
    def as_json():
        return jsonify(list(events()))

    @app.route("/loop")
    def loop():
        async def nothing():
            return "of a loop"

        def body():
            yield asyncio.run(nothing())  # asyncio
            yield from events()

        return Response(body())

    return app


def with_a_page_for_errors():
    """A page that a generator makes, where there is no other."""
    app = healthy()

    @app.errorhandler(404)
    def not_found(error):
        return Response("".join(f"data: {word}\n\n" for word in ("no", "such", "page"))), 404

    @app.route("/view/<path:path>")
    def of_any_path(path):
        return Response("".join(f"data: {word}\n\n" for word in ("no", "such", "page"))), 404

    return app


def with_a_blueprint():
    app = Flask("with_a_blueprint")
    blueprint = Blueprint("assistant", __name__)

    @blueprint.route("/chat")
    def chat():
        return Response(events(), mimetype="text/event-stream")

    @blueprint.after_request
    def measure(response):
        response.get_data()  # measure
        return response

    @app.route("/single")
    def single():
        return Response(events(1), mimetype="text/event-stream")

    app.register_blueprint(blueprint, url_prefix="/assistant")
    app.after_request(measure)
    return app


def _with_hook(hook):
    app = healthy()
    app.after_request(hook)
    return app


def hook_get_data():
    def log_size(response):
        size = len(response.get_data())  # get_data
        response.headers["X-Size"] = str(size)
        return response

    return _with_hook(log_size)


def hook_etag():
    def tag(response):
        response.add_etag()  # add_etag
        return response

    return _with_hook(tag)


def hook_length():
    def measure(response):
        response.headers["X-Length"] = str(response.calculate_content_length())  # calculate_content_length
        return response

    return _with_hook(measure)


def hook_conditional():
    def conditional(response):
        response.add_etag()  # make_conditional
        return response.make_conditional(request)

    return _with_hook(conditional)


def hook_freeze():
    def freeze(response):
        response.freeze()  # freeze
        return response

    return _with_hook(freeze)


def hook_loop():
    def rewrite(response):
        response.response = [piece.upper() for piece in response.response]  # loop
        return response

    return _with_hook(rewrite)


def hook_of_request():
    """The same by a function for one request only."""
    app = healthy()

    @app.before_request
    def before():
        @after_this_request
        def once(response):
            response.get_data()  # once
            return response

    return app


def hook_gzip():
    def compress(response):
        compressor = zlib.compressobj(wbits=31)

        def pieces(body):
            try:
                for piece in body:  # hook_gzip
                    yield compressor.compress(piece.encode())
                yield compressor.flush()
            finally:
                body.close()

        response.response = pieces(response.response)
        response.headers["Content-Encoding"] = "gzip"
        return response

    return _with_hook(compress)


def hook_drops_close():
    def shout(response):
        response.response = (piece.upper() for piece in response.response)
        return response

    return _with_hook(shout)


def hook_asks_first():
    """A hook that leaves streams alone, and one that wraps them as it should."""

    def log_size(response):
        if not response.is_streamed:
            response.headers["X-Size"] = str(len(response.get_data()))
        return response

    def count(response):
        if response.is_streamed:
            body = response.response
            response.response = ClosingIterator((piece for piece in body), [body.close])
        return response

    app = _with_hook(log_size)
    app.after_request(count)
    return app


def hook_in_debug_mode():
    app = hook_get_data()
    app.debug = True
    return app


def hook_peeks():
    """A hook that looks at the first piece, and puts it back: that holds nothing."""

    def peek(response):
        if response.is_streamed and response.mimetype == "text/event-stream":
            body = response.response
            first = next(iter(body))
            response.headers["X-First"] = str(len(first))
            response.response = ClosingIterator(itertools.chain([first], body), [body.close])
        return response

    return _with_hook(peek)


def mounted():
    """The Flask app as one of two under a dispatcher, with the middleware in a slot."""

    class Slotted:
        __slots__ = ("_inner",)

        def __init__(self, inner):
            self._inner = inner

        def __call__(self, environ, start_response):
            body = self._inner(environ, start_response)
            try:
                return [b"".join(body)]  # Slotted
            finally:
                body.close()

    return DispatcherMiddleware(healthy(), {"/joined": Slotted(healthy())})


def own_response():
    """A response class that joins what it is given."""

    class Joined(Response):
        def iter_encoded(self):
            return iter([b"".join(super().iter_encoded())])  # Joined

    app = healthy()
    app.response_class = Joined

    @app.route("/own")
    def own():
        return Joined(events())

    return app


def _wrapped(middleware):
    app = healthy()
    app.wsgi_app = ProxyFix(middleware(ProxyFix(app.wsgi_app)))
    return app


class JoinAll:
    def __init__(self, app):
        self.app = app

    def __call__(self, environ, start_response):
        body = self.app(environ, start_response)
        try:
            return [b"".join(body)]  # JoinAll
        finally:
            body.close()


def wsgi_join():
    return _wrapped(JoinAll)


def wsgi_join_outside():
    """As an adapter of a platform does: around the app, and not inside of it."""
    app = healthy()

    def adapter(environ, start_response):
        body = app(environ, start_response)
        try:
            return [b"".join(body)]  # adapter
        finally:
            body.close()

    return adapter


def gzip_middleware(app, flush=None):
    def gzip(environ, start_response):
        if "gzip" not in environ.get("HTTP_ACCEPT_ENCODING", ""):
            return app(environ, start_response)

        def start(status, headers, exc_info=None):
            return start_response(status, [*headers, ("Content-Encoding", "gzip")], exc_info)

        return pieces(app(environ, start))

    def pieces(body):
        compressor = zlib.compressobj(wbits=31)
        try:
            for piece in body:  # gzip
                yield compressor.compress(piece) + (compressor.flush(flush) if flush else b"")
            yield compressor.flush()
        finally:
            body.close()

    return gzip


def wsgi_gzip():
    return _wrapped(gzip_middleware)


def wsgi_gzip_with_flush():
    return _wrapped(lambda app: gzip_middleware(app, zlib.Z_SYNC_FLUSH))


def wsgi_blocks():
    def blocks(app):
        def in_blocks(environ, start_response):
            body, block = app(environ, start_response), b""
            try:
                for piece in body:  # blocks
                    block += piece
                    if len(block) > 40:
                        yield block
                        block = b""
                yield block
            finally:
                body.close()

        return in_blocks

    return _wrapped(blocks)


def wsgi_late():
    def late(app):
        def one_late(environ, start_response):
            body, last = app(environ, start_response), b""
            try:
                for piece in body:  # late
                    if last:
                        yield last
                    last = piece
                yield last
            finally:
                body.close()

        return one_late

    return _wrapped(late)


def wsgi_drops_close():
    def tracer(app):
        def trace(environ, start_response):  # drops close
            for piece in app(environ, start_response):  # noqa: UP028 - "yield from" would close it
                yield piece

        return trace

    return _wrapped(tracer)


def wsgi_peeks():
    """A middleware that takes the first piece before it says the status: that holds nothing."""

    def peek(app):
        def peeks(environ, start_response):
            body = iter(app(environ, start_response))
            first = next(body, b"")

            def pieces():
                try:
                    yield first
                    yield from body
                finally:
                    body.close()

            return pieces()

        return peeks

    return _wrapped(peek)


def compressed():
    """Flask-Compress, told to compress events."""
    from flask_compress import Compress

    app = healthy()
    app.config["COMPRESS_MIMETYPES"] = ["text/event-stream"]
    Compress(app)
    return app


def not_flask(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/event-stream")])
    return (piece.encode() for piece in events())


def broken():
    raise LookupError("no settings for the app")  # broken


def exits():
    os._exit(3)


def exits_with_a_child():
    """What it has forked holds the pipe to the check open."""
    if os.fork() == 0:
        time.sleep(600)
    os._exit(3)


def starts_a_process():
    """A process of its own, which holds the pipe that $STARTED names; and it says there when it is interrupted."""
    pipe = open(os.environ["STARTED"], "wb", 0)  # noqa: SIM115 - until the end of the process

    def interrupted(*arguments):
        pipe.write(b"interrupted")
        os._exit(0)

    signal.signal(signal.SIGINT, interrupted)
    subprocess.Popen(["sleep", "600"], stdout=pipe)
    pipe.write(b"started ")
    return healthy()
