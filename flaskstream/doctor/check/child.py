"""The fresh process: loads the app, looks at it, runs one request, and writes down what it sees. It judges nothing.

Nothing that gevent must patch first is imported here before the app's own config has been read.
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import TYPE_CHECKING, Any

from flaskstream.doctor.check.boundary import place_of_error
from flaskstream.doctor.check.imports import ImportWatch
from flaskstream.doctor.check.load_limit import LoadLimit
from flaskstream.doctor.check.log import Log
from flaskstream.doctor.check.places import KIT, OWN, STDLIB, Place, frames_from, kind_of, place_of_frame
from flaskstream.doctor.check.question import BROWSER_CODINGS, Question

if TYPE_CHECKING:
    import threading

PATIENCE_SECONDS = 2.0
"""Beyond the seconds of the question: for what a layer does when the stream has ended."""


def main(descriptor: int) -> None:
    """Answer the question on standard input, to the pipe of this descriptor; never returns."""
    question = Question.from_json(sys.stdin.readline())
    log = Log(descriptor)
    log.say("began")
    try:
        _check(question, log)
        log.say("done")
    except BaseException as error:
        log.say("crashed", error="".join(traceback.format_exception(type(error), error, error.__traceback__))[-4000:])
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                pass
        os._exit(0)  # a request that is stuck keeps nobody waiting


def _check(question: Question, log: Log) -> None:
    app = _load(question, log)
    if app is None:
        return
    from flaskstream.doctor.check.flask_app import watch_flask
    from flaskstream.doctor.check.layers import is_factory, put_probes
    from flaskstream.doctor.check.reading import try_readers
    from flaskstream.doctor.check.stage import Stage
    from flaskstream.doctor.check.static import look_at_app, look_at_view

    if question.reads_from:
        try_readers(question.reads_from, log)
    if is_factory(app):
        log.say("factory", name=app.__name__)
        return
    stage = Stage(log, question.pieces, question.seconds)
    probe, apps = put_probes(app, stage)
    for flask in apps:
        look_at_app(flask, log)
        if question.path:
            look_at_view(flask, question.path.partition("?")[0], question.method, log)
        watch_flask(flask, stage)
    log.say("found", flask=[flask.name for flask in apps], debug=any(flask.debug for flask in apps))
    if question.path:
        _run(probe, stage, question, log)


def _load(question: Question, log: Log) -> Any:
    """Return the app, or `None`: why it cannot be loaded is written down."""
    from flaskstream.doctor.check.loading import load
    from flaskstream.doctor.check.modules import look_at_modules
    from flaskstream.doctor.check.tls import look_at_tls

    watch = ImportWatch()
    watch.start()
    app = None
    limit = LoadLimit(question.load_seconds, log)
    try:
        app = load(question, log)
    except BaseException as error:  # SystemExit too: so gunicorn gives up
        log.say("not_loaded", error=f"{type(error).__name__}: {error}", at=place_of_error(error))
    limit.lift()
    watch.stop()
    look_at_tls(log, watch, app is not None)
    look_at_modules(log, watch)
    return app


def _run(probe: Any, stage: Any, question: Question, log: Log) -> None:
    """Run the request in a thread, which is a greenlet where gevent has patched, as it is in a worker."""
    import threading

    from flaskstream.doctor.check.call import run_request
    from flaskstream.doctor.check.calls import watching_calls
    from flaskstream.doctor.check.hub import watching_hub
    from flaskstream.doctor.check.stage import SERVE

    over = threading.Event()
    where: list[Any] = []
    codings = BROWSER_CODINGS if question.codings is None else question.codings

    def work() -> None:
        where.append(_current())
        try:
            with watching_calls(log), watching_hub(log, lambda: bool(stage.phase == SERVE)):
                run_request(probe, stage, question, codings)
        finally:
            over.set()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    if not over.wait(question.seconds + PATIENCE_SECONDS):
        log.say("stuck", at=_place_in(thread, where))


def _current() -> Any:
    """Return the greenlet of this code, if threads are greenlets here."""
    if "gevent.monkey" not in sys.modules:
        return None
    from gevent import getcurrent

    return getcurrent()


def _place_in(thread: threading.Thread, where: list[Any]) -> Place | None:
    """Return the line at which the request is: the app's own nearest one, in its thread or in any other."""
    frames = dict(sys._current_frames())
    frame = getattr(where[0], "gr_frame", None) if where and where[0] is not None else None
    first = frame or frames.pop(thread.ident or 0, None)
    for start in (first, *frames.values()):
        for one in frames_from(start):
            if kind_of(one.f_code.co_filename) == OWN:
                return place_of_frame(one)
    for one in frames_from(first):
        if kind_of(one.f_code.co_filename) not in (KIT, STDLIB):
            return place_of_frame(one)
    return None
