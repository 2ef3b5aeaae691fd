"""Teardown functions run when the view has returned and again when its generator has ended, each for its own things."""

from __future__ import annotations

import sqlite3
import threading
import time

import pytest
from flask import Flask, g, request
from one_view import app_of, eventually, names_and_data, opened

from flaskstream import event_stream


class Store:
    """A legacy app's database, opened on first use and kept in `g`; as in Flask's own tutorial."""

    def __init__(self):
        self.opened = 0
        self.closed = 0

    def connection(self):
        if "db" not in g:
            g.db = sqlite3.connect(":memory:")  # refuses every thread but the one that opened it
            self.opened += 1
        return g.db

    def close(self, error=None):
        connection = g.pop("db", None)
        if connection is not None:
            connection.close()
            self.closed += 1

    def ask(self):
        return self.connection().execute("select 'answer'").fetchone()[0]


@pytest.fixture
def store():
    return Store()


def app_with(store, view, **options):
    app = Flask("legacy")
    app.add_url_rule("/", "view", event_stream(**options)(view))
    app.teardown_appcontext(store.close)
    return app


def asked_slowly(store):
    for _ in range(3):
        yield store.ask()
        time.sleep(0.05)  # the view's teardown comes meanwhile


ANSWERS = [("message", "answer")] * 3 + [("done", '{"events":3}')]


def test_a_connection_of_the_generator_lives_as_long_as_it_does(store):
    with opened(app_with(store, lambda: asked_slowly(store))) as stream:
        assert names_and_data(stream) == ANSWERS
        assert (store.opened, store.closed) == (1, 1)  # by the time that the client has its end


def test_a_connection_of_a_hook_is_closed_with_the_view_and_the_generator_opens_its_own(store):
    app = app_with(store, lambda: asked_slowly(store))
    app.before_request(lambda: store.ask() and None)
    with opened(app) as stream:
        assert names_and_data(stream) == ANSWERS
    assert (store.opened, store.closed) == (2, 2)


def test_a_connection_of_the_view_is_not_held_by_a_long_stream(store):
    def view():
        answer = store.ask()

        def items():
            yield answer
            yield str(eventually(lambda: store.closed))

        return items()

    with opened(app_with(store, view)) as stream:
        assert [data for _, data in names_and_data(stream)] == ["answer", "1", '{"events":2}']


def test_a_connection_of_the_generator_is_closed_when_the_client_leaves(store):
    def view():
        while True:
            yield store.ask()
            time.sleep(0.01)

    with opened(app_with(store, view)) as stream:
        stream.take(2)
        stream.close()
        assert eventually(lambda: store.closed)
    assert (store.opened, store.closed) == (1, 1)


# How often, when, and where.


class Teardowns:
    """Notes the order in which things happen, and in which thread."""

    def __init__(self, view, **options):
        self.log = []
        self.app = app_of(view, **options)
        self.app.teardown_request(lambda error: self.note("request"))
        self.app.teardown_appcontext(lambda error: self.note("app"))

    def note(self, what):
        self.log.append((what, threading.get_ident()))

    def of(self, thread):
        return [what for what, ident in self.log if ident == thread]


def ticking_once_torn_down(get):
    """Yield; wait until the view's teardown is over; yield again."""
    get().note("generator")
    yield "a"
    assert eventually(lambda: len(get().log) == 3)
    yield "b"


@pytest.mark.parametrize("debug", [False, True])
def test_teardown_runs_in_the_views_thread_first_and_in_the_generators_last(debug):
    teardowns = Teardowns(lambda: ticking_once_torn_down(lambda: teardowns), debug=debug)
    with opened(teardowns.app) as stream:
        assert len(names_and_data(stream)) == 3
        assert [what for what, _ in teardowns.log] == ["generator", "request", "app", "request", "app"]
    (_, generators), (_, views), *_ = teardowns.log
    assert generators != views
    assert teardowns.of(generators) == ["generator", "request", "app"]
    assert teardowns.of(views) == ["request", "app"]


def test_without_the_context_it_runs_once():
    teardowns = Teardowns(lambda: ticking_once_torn_down(lambda: teardowns), keep_context=False)
    with opened(teardowns.app) as stream:
        assert len(names_and_data(stream)) == 3
    assert [what for what, _ in teardowns.log] == ["generator", "request", "app"]


@pytest.mark.parametrize("debug", [False, True])
def test_it_runs_twice_when_the_generator_fails_in_the_middle(debug):
    def view():
        yield "a"
        raise ValueError

    teardowns = Teardowns(view, debug=debug)
    with opened(teardowns.app) as stream:
        assert [name for name, _ in names_and_data(stream)] == ["message", "error"]
    assert sorted(what for what, _ in teardowns.log) == ["app", "app", "request", "request"]


def test_a_teardown_that_fails_at_the_end_does_not_take_the_answer_back(caplog):
    app = app_of(lambda: iter([request.path]))
    views_thread = []
    app.before_request(lambda: views_thread.append(threading.get_ident()))

    @app.teardown_request
    def fail(error):
        if threading.get_ident() not in views_thread:
            raise ValueError("of a teardown function")

    with opened(app) as stream:
        assert names_and_data(stream)[-1][0] == "done"
    assert "a stream has ended, and what came after it failed: ValueError('of a teardown function')" in caplog.text
