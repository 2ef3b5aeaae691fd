"""`flaskstream check` on the samples, on the mistakes of the lab, and on what others wrap around an app."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from checking import (  # noqa: F401 - one is a fixture
    KIT_CONFIG,
    SAMPLES,
    codes,
    in_the_folder_of_the_apps,
    the_finding,
)

from flaskstream.doctor.check.examine import check
from flaskstream.doctor.check.findings import HOLDS
from flaskstream.doctor.check.judge import HELD, STREAMS
from flaskstream.doctor.check.question import Question


def sample(folder, target, path, upstream, config="", **how):
    before = {name: os.environ.get(name) for name in ("FLASKSTREAM_UPSTREAM",)}
    os.chdir(SAMPLES / folder)
    os.environ["FLASKSTREAM_UPSTREAM"] = upstream
    try:
        return check(Question(target, path, config=config, **how))
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def test_a_module_that_blocks_the_hub_is_noted_where_the_app_imports_it():
    extensions = SAMPLES / "legacy" / "extensions.py"
    checked = sample("legacy", "after:app", "", upstream="http://127.0.0.1:9/v1")
    finding = the_finding(checked, "blocking_module")
    lines = extensions.read_text("utf-8").splitlines()
    assert [(place.file, place.line) for place in finding.places] == [
        (str(extensions), lines.index("import sqlite3") + 1)
    ]


@pytest.mark.parametrize(
    ("folder", "target", "path"),
    [
        ("", "plain_generator:app", "/clock"),
        ("", "openai_relay:app", "/chat?q=hello"),
        ("..", "wsgi:app", "/stream/chat?q=hello"),
    ],
)
def test_the_samples_raise_no_alarm(folder, target, path, model):
    config = "" if folder else KIT_CONFIG
    checked = sample(folder, target, path, model.url, config, pieces=5)
    assert checked.verdict.name == STREAMS, checked.verdict
    assert not checked.verdict.findings


@pytest.fixture(scope="module")
def cookie():
    """A login, as the browser of the legacy samples has it."""
    code = (
        "import before; client = before.app.test_client();"
        "answer = client.post('/login', data={'name': 'ada', 'password': 'lovelace'});"
        "print(answer.headers['Set-Cookie'].split(';')[0])"
    )
    environment = {**os.environ, "FLASKSTREAM_UPSTREAM": "http://127.0.0.1:9/v1"}
    made = subprocess.run(
        [sys.executable, "-c", code], cwd=SAMPLES / "legacy", env=environment, stdout=subprocess.PIPE, check=True
    )
    return (("Cookie", made.stdout.decode().strip()),)


@pytest.mark.parametrize("path", ["/assistant/chat?q=hello", "/backup"])
def test_the_legacy_sample_is_held_by_its_hook_and_by_its_upstream(path, cookie, model):
    hook = SAMPLES / "legacy" / "size_log.py"
    checked = sample("legacy", "before:app", path, model.url, headers=cookie)
    assert checked.verdict.name == HELD
    place = the_finding(checked, "body_read_early").places[0]
    line = hook.read_text("utf-8").splitlines()[place.line - 1]
    assert place.file == str(hook) and "response.get_data()" in line
    relays = path.startswith("/assistant")
    assert codes(checked, HOLDS) == ["body_read_early"] + ["unstreamed_upstream"] * relays
    if relays:
        (asks,) = the_finding(checked, "unstreamed_upstream").places
        assert (
            asks.file.endswith("before.py")
            and "requests.post" in (SAMPLES / "legacy" / "before.py").read_text("utf-8").splitlines()[asks.line - 1]
        )


@pytest.mark.parametrize("path", ["/assistant/chat?q=hello", "/backup"])
def test_the_mended_sample_streams_and_its_hook_is_noted(path, cookie, model):
    checked = sample("legacy", "after:app", path, model.url, headers=cookie)
    assert checked.verdict.name == STREAMS
    assert codes(checked) == ["guarded", "blocking_module"]


@pytest.mark.parametrize(
    ("fault", "code", "function"),
    [
        ("joined_body", "body_joined_in_view", "body"),
        ("body_reading_hook", "body_read_early", "log_length"),
        ("gzip_without_flush", "middleware_compresses", "_gzipped"),
        ("unstreamed_upstream", "unstreamed_upstream", ""),
        ("none", "", ""),
    ],
)
def test_the_mistakes_of_the_lab_are_found(fault, code, function, model, monkeypatch):
    monkeypatch.setenv("FLASKSTREAM_FAULTS", fault)
    checked = sample("..", "wsgi:app", "/stream/chat?q=hello", model.url, KIT_CONFIG)
    assert checked.verdict.name == (HELD if code else STREAMS), checked.verdict
    assert codes(checked, HOLDS) == ([code] if code else [])
    if function:
        assert function in the_finding(checked, code).places[0].function


def test_what_others_wrap_around_an_app_raises_no_alarm(model):
    for name in ("flask_compress", "flask_debugtoolbar", "flask_session", "sentry_sdk", "opentelemetry"):
        pytest.importorskip(name, reason="the peers are not for Flask 1.1.4")
    checked = sample("../tests", "apps.wrapped:app", "/ticks", model.url)
    assert checked.verdict.name == STREAMS, checked.verdict
    assert codes(checked) == ["drops_close"] * 2  # by two middlewares of that app, which are there to do so
    droppers = {finding.places[0].function.split(".")[0] for finding in checked.verdict.findings}
    assert droppers == {"put_behind", "hold_on"}
