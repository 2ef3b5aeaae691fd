"""When nobody reads on: the generator is closed, once, in its own thread, whatever lost the stream."""

from __future__ import annotations

import contextlib
import gc
import itertools
import threading
import time

import pytest
from flask import Response
from one_view import PATIENCE, app_of, eventually, opened, streamed

from flaskstream.testing import open_stream, serve

TICK = 0.01  # seconds


class Ticks:
    """A view that ticks for ever, and what became of its generator."""

    def __init__(self):
        self.closed = threading.Event()
        self.log = []

    def __call__(self):
        self.log.append(("runs", threading.get_ident()))
        try:
            for n in itertools.count():
                yield str(n)
                time.sleep(TICK)
        finally:
            self.log.append(("closed", threading.get_ident()))
            self.closed.set()

    def assert_closed(self):
        """Closed by itself, and not because the server of the test ended."""
        assert self.closed.wait(PATIENCE)
        assert [what for what, _ in self.log] == ["runs", "closed"]
        assert len({thread for _, thread in self.log}) == 1


@pytest.fixture
def ticks():
    return Ticks()


@contextlib.contextmanager
def without_garbage_collection():
    """What is dropped is gone at once, or not at all."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def no_pump_runs():
    return "flaskstream-pump" not in {thread.name for thread in threading.enumerate()}


def test_a_client_that_leaves(ticks):
    with streamed(ticks) as stream:
        stream.take(3)
        stream.close()
        ticks.assert_closed()


def test_a_client_that_leaves_a_silent_stream_is_noticed_by_the_heartbeats():
    go_on = threading.Event()
    left = threading.Event()

    def view():
        yield "a"
        go_on.wait(PATIENCE)

    with streamed(view, heartbeat=0.02, on_end=lambda report: left.set()) as stream:
        stream.take(1)
        stream.close()
        assert left.wait(PATIENCE)
        go_on.set()


def test_many_clients_that_leave_leave_no_thread_behind(ticks):
    with serve(app_of(ticks)) as server:
        for _ in range(30):
            with open_stream(server.url) as stream:
                stream.take(1)
        assert eventually(no_pump_runs)
    assert [what for what, _ in ticks.log].count("closed") == 30


def test_a_client_that_leaves_before_the_first_event(ticks):
    go_on = threading.Event()

    def view():
        go_on.wait(PATIENCE)
        yield from ticks()

    with streamed(view, status_grace=0, heartbeat=0.02) as stream:
        stream.close()
        go_on.set()
        ticks.assert_closed()


# Whatever loses the stream on its way.


def drop_close(app):
    def middleware(environ, start_response):
        for piece in app(environ, start_response):  # noqa: UP028 - "yield from" would close it
            yield piece

    return middleware


def test_a_middleware_that_drops_close(ticks):
    with without_garbage_collection(), opened(drop_close(app_of(ticks))) as stream:
        stream.take(2)
        stream.close()
        ticks.assert_closed()


def test_a_whole_answer_is_over_for_a_server_that_never_closes_it():
    reports = []
    body = app_of(lambda: iter("ab"), on_end=reports.append).test_client().get("/").response
    assert b"event: done" in list(body)[-1]
    assert [report.reason for report in reports] == ["done"]


def test_a_middleware_that_takes_nothing_of_the_body(ticks):
    app = app_of(ticks)

    def middleware(environ, start_response):
        app(environ, lambda *_: None)
        start_response("204 No Content", [])
        return []

    with without_garbage_collection(), opened(middleware) as stream:
        assert stream.status == 204
        ticks.assert_closed()


def test_a_later_hook_that_fails(ticks):
    app = app_of(ticks)

    @app.after_request
    def fail(response):
        if response.status_code == 200:
            raise ValueError("of a hook")
        return response

    with without_garbage_collection(), opened(app) as stream:
        assert stream.status == 500
        stream.text()
        ticks.assert_closed()


def test_a_later_hook_that_puts_another_response_in_its_place(ticks):
    app = app_of(ticks)
    app.after_request(lambda response: Response("other"))
    with without_garbage_collection(), opened(app) as stream:
        assert stream.text() == "other"
        ticks.assert_closed()


@pytest.mark.parametrize("status", [204, 304])
def test_a_later_hook_that_makes_it_an_answer_without_a_body(ticks, status):
    app = app_of(ticks)
    kept = []  # what is held by somebody must be closed all the same

    @app.after_request
    def change(response):
        kept.append(response)
        response.status_code = status
        return response

    with without_garbage_collection(), opened(app) as stream:
        assert stream.status == status
        ticks.assert_closed()


def test_a_decorator_above_that_forgets_the_response(ticks):
    app = app_of(ticks)
    stream_view = app.view_functions["view"]
    app.view_functions["view"] = lambda: stream_view() and "other"
    with without_garbage_collection(), opened(app) as stream:
        assert stream.text() == "other"
        ticks.assert_closed()


def test_a_hook_that_wraps_the_body_keeps_the_stream(ticks):
    app = app_of(ticks)
    kept = []

    @app.after_request
    def wrap(response):
        kept.append(response.response)
        response.response = (piece.replace(b"data: ", b"data: #") for piece in response.response)
        return response

    with opened(app) as stream:
        assert [timed.event.data for timed in stream.take(2)] == ["#0", "#1"]
        stream.close()
        ticks.assert_closed()


# Generators that misbehave.


def test_a_generator_that_yields_while_it_is_closed_is_contained(caplog):
    cleaned_up = threading.Event()

    def view():
        try:
            while True:
                yield "a"
                time.sleep(TICK)
        except BaseException:
            yield "still here"
        finally:
            cleaned_up.set()

    with streamed(view) as stream:
        stream.take(2)
        stream.close()
        assert cleaned_up.wait(PATIENCE)
        assert eventually(no_pump_runs)
    assert "generator ignored GeneratorExit" in caplog.text


def test_a_generator_whose_cleanup_fails_is_in_the_log(caplog):
    def view():
        try:
            while True:
                yield "a"
                time.sleep(TICK)
        finally:
            raise ValueError("of the cleanup")

    with streamed(view) as stream:
        stream.take(2)
        stream.close()
        assert eventually(no_pump_runs)
    assert "a generator failed while it was closed: ValueError('of the cleanup')" in caplog.text
