"""docs/resume.md shows what is on the wire: its blocks are compared with it, its table of ends is walked through."""

from __future__ import annotations

import re

import pytest
from flask import Flask
from pages import Page, code
from recorded import after, ask, begin, follow, script, stream_id

from flaskstream import Upstream, create_blueprint
from flaskstream.resume.terms import Terms
from flaskstream.serving.deploy import GENERATION_SHARE
from flaskstream.settings import DEFAULT_STORE
from flaskstream.stores.memory import MemoryStore
from flaskstream.stores.protocol import STATES, Retention
from flaskstream.testing import serve

PAGE = Page("docs/resume.md")
DRAWN, WHOLE, REST, STOPPED, EVICTED = PAGE.blocks("text")
MOUNTING, WHOSE = PAGE.blocks("python")


@pytest.fixture(scope="module")
def store():
    return MemoryStore()


@pytest.fixture(scope="module")
def server(model, store):
    app = Flask("resume")
    app.register_blueprint(create_blueprint(Upstream(model.url), store, debug=True), url_prefix="/stream")
    with serve(app) as server:
        yield server


def on_page(body):
    """Return a body as the page shows it: every epoch is the same, and so is every time to come back."""
    shown = re.sub(r"\b[0-9a-f]{20}\b", "0123456789abcdef0123", body.decode())
    return re.sub(r"\bretry: [34]\d{3}\b", "retry: 3000", re.sub("^: open\n", "", shown))


def test_an_answer_read_whole_and_its_rest(server):
    said = script("tick", tokens=2)
    assert on_page(begin(server, said).body) == WHOLE
    first = begin(server, said, stop_after=1)
    assert on_page(follow(server, stream_id(first), after(first)).body) == REST


def test_an_answer_that_was_stopped(server):
    first = begin(server, script("tick", tokens=9, silence_after=1), stop_after=1)
    ask(server, "DELETE", stream_id(first))
    assert on_page(follow(server, stream_id(first)).body) == STOPPED


def test_an_answer_whose_records_are_gone(server, store):
    whole = begin(server, script("tick", tokens=2))
    store.evict(Retention(streams=1, bytes=0))
    assert on_page(follow(server, stream_id(whole), after(whole)).body) == EVICTED
    assert ask(server, "HEAD", stream_id(whole)).header("X-Stream-State") == "evicted"


def test_the_drawing_names_every_end():
    assert set(re.findall(r"event: (\w+)", DRAWN)) == {"done", "stopped", "error", "restart", "reset"}


def test_the_states_and_the_times_are_those_of_the_code():
    assert f"(`{'`, `'.join(STATES[:-1])}` or `{STATES[-1]}`)" in PAGE.text
    assert f"`orphan_timeout` ({Terms.orphan_timeout:g} s)" in PAGE.text
    assert f"`lease` ({Terms.lease:g} s)" in PAGE.text
    assert f"{GENERATION_SHARE * 100:g} % of `graceful_timeout`" in PAGE.text
    kept = Retention()
    said = f"Retention(seconds={kept.seconds:g}, streams={kept.streams:_}, bytes={kept.bytes:_})"
    assert said in PAGE.text
    assert f"`wsgi.py` has {code(DEFAULT_STORE)}" in PAGE.text


def test_the_first_block_is_an_app(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "app"}
    exec(MOUNTING, names)
    assert "/stream/streams/<stream_id>" in {rule.rule for rule in names["app"].url_map.iter_rules()}


def test_the_owner_of_the_page_keeps_others_out(model):
    names = {}
    exec(WHOSE, names)
    app = Flask("whose")
    app.secret_key = "for tests"
    app.add_url_rule("/login/<user>", "login", lambda user: names["session"].update(user=user) or "")
    blueprint = create_blueprint(
        Upstream(model.url), "memory:", debug=True, owner=names["owner"], authorize=names["authorize"]
    )
    app.register_blueprint(blueprint, url_prefix="/stream")
    with serve(app) as server:
        cookies = {}
        for user in ("ann", "bob"):
            with app.test_client() as client:
                cookies[user] = ("Cookie", client.get(f"/login/{user}").headers["Set-Cookie"].partition(";")[0])
        whole = begin(server, script("tick", tokens=2), cookies["ann"])
        assert ask(server, "HEAD", stream_id(whole), cookies["ann"]).status == 200
        assert ask(server, "HEAD", stream_id(whole), cookies["bob"]).status == 404
        assert begin(server, script("tick", tokens=2)).status == 403
