"""Each sample runs alone, through real gunicorn, and does what it says: by the times at which its events arrive."""

from __future__ import annotations

import contextlib
import difflib
import os
import pathlib
import re
import subprocess
import sys
import time

import pytest
import requests

from flaskstream.lab.gunicorn import GunicornProcess
from flaskstream.lab.model.script import Script
from flaskstream.lab.processes import ModelProcess
from flaskstream.testing import open_stream

SAMPLES = pathlib.Path(__file__).parent.parent / "samples"
LEGACY = SAMPLES / "legacy"
APPS = ("plain_generator", "openai_relay", "legacy/before", "legacy/after", "chat/chat")

SCRIPT = Script(tokens=8, interval_ms=50)
INTERVAL = SCRIPT.interval_ms / 1000
BACKUP_STEPS, BACKUP_INTERVAL = 11, 0.1  # as samples/legacy/*.py have them

CHAT = "/assistant/chat?q=My+printer+is+on+fire."


def config_of(sample):
    if sample == "plain_generator":  # the one that asks no model
        return "python:flaskstream.gunicorn_conf"
    return "../" * (sample.count("/") + 1) + "gunicorn.conf.py"


@contextlib.contextmanager
def running(sample, **settings):
    """Serve a sample as its first lines say: from its own folder, with the settings of the kit."""
    path = SAMPLES / sample
    app, folder = f"{path.name}:app", str(path.parent)
    with GunicornProcess(settings, app=app, folder=folder, config=config_of(sample)) as server:
        server.wait_until_it_answers("/no-such-page")
        yield server


@pytest.fixture(scope="module")
def model():
    with ModelProcess(SCRIPT) as model:
        yield model


@pytest.fixture(scope="module")
def before(model):
    with running("legacy/before", upstream=model.url) as server:
        yield server


@pytest.fixture(scope="module")
def after(model):
    with running("legacy/after", upstream=model.url) as server:
        yield server


@pytest.fixture(scope="module")
def relay(model):
    with running("openai_relay", upstream=model.url, api_key="sk-of-a-test", model="mine") as server:
        yield server


def log_in(server, name="ada", password="lovelace"):
    """Return the header with which a browser is known after its login."""
    form = {"name": name, "password": password}
    answer = requests.post(server.url + "/login", data=form, allow_redirects=False, timeout=30)
    assert answer.status_code == 302
    return {"Cookie": f"session={answer.cookies['session']}"}


def read(url, **how):
    """Return what came before the end, and the end."""
    with open_stream(url, **how) as stream:
        assert stream.status == 200
        *events, end = stream
    return events, end.event


def text_of(events):
    return "".join(event.event.json()["t"] for event in events)


def assert_one_by_one(events, count, interval):
    gaps = [later.at - earlier.at for earlier, later in zip(events, events[1:])]
    assert len(events) == count
    assert events[-1].at - events[0].at > (count - 1) * interval * 0.7
    assert sum(gap > interval / 5 for gap in gaps) >= len(gaps) / 2


def assert_all_at_once(events, count, interval):
    assert len(events) == count
    assert events[-1].at - events[0].at < interval
    assert events[0].at > (count - 1) * interval * 0.9


def test_the_plain_generator_sends_each_item_when_it_is_yielded():
    with running("plain_generator") as server:
        with open_stream(server.url + "/clock") as stream:
            ticks = stream.take(3)
        assert [tick.event.json()["tick"] for tick in ticks] == [1, 2, 3]
        assert_one_by_one(ticks, 3, 0.5)
        assert '<script>\n  const source = new EventSource("/clock")' in requests.get(server.url, timeout=30).text


def test_before_every_token_arrives_with_the_last(before):
    tokens, end = read(before.url + CHAT, headers=log_in(before))
    assert (text_of(tokens), end.event) == (SCRIPT.text, "done")
    assert_all_at_once(tokens, SCRIPT.tokens, INTERVAL)


def test_after_the_tokens_arrive_one_by_one(after):
    tokens, end = read(after.url + CHAT, headers=log_in(after))
    assert (text_of(tokens), end.event) == (SCRIPT.text, "done")
    assert_one_by_one(tokens, SCRIPT.tokens, INTERVAL)


def test_before_the_hook_alone_holds_a_generator(before):
    steps, _ = read(before.url + "/backup", headers=log_in(before))
    assert_all_at_once(steps, BACKUP_STEPS, BACKUP_INTERVAL)


def test_after_a_generator_streams_and_reads_the_session(after):
    steps, end = read(after.url + "/backup", headers=log_in(after, "grace", "hopper"))
    assert_one_by_one(steps, BACKUP_STEPS, BACKUP_INTERVAL)
    assert [step.event.json() for step in steps] == [{"percent": n * 10, "for": "grace"} for n in range(BACKUP_STEPS)]
    assert end.event == "done"


def test_two_users_stream_at_once_and_each_has_a_session_of_their_own(after):
    with open_stream(after.url + "/backup", headers=log_in(after, "ada", "lovelace")) as adas, open_stream(
        after.url + "/backup", headers=log_in(after, "grace", "hopper")
    ) as graces:
        pairs = list(zip(adas.take(3), graces.take(3)))
    assert [(ada.event.json()["for"], grace.event.json()["for"]) for ada, grace in pairs] == [("ada", "grace")] * 3


def test_after_the_hook_still_runs_and_is_named_once(after):
    cookie = log_in(after)
    for _ in range(2):
        read(after.url + CHAT, headers=cookie)
    line = 1 + (LEGACY / "size_log.py").read_text("utf-8").splitlines().index(
        "    size = len(response.get_data())  # reads the whole body, and so runs a generator to its end"
    )
    log = after.errors()
    assert log.count("get_data() would read a whole stream") == 1
    assert f"{LEGACY / 'size_log.py'}:{line} in log_size" in log
    assert log.count("GET /assistant/chat: 200, 0 bytes") >= 2
    assert re.search(r"POST /login: 302, [1-9]\d* bytes", log)


@pytest.mark.parametrize("path", [CHAT, "/backup", "/"])
@pytest.mark.parametrize("app", ["before", "after"])
def test_nobody_gets_in_without_a_login(app, path, model, request):
    server = request.getfixturevalue(app)
    model.forget()
    answer = requests.get(server.url + path, allow_redirects=False, timeout=30)
    assert answer.status_code == 302
    assert answer.headers["Location"].endswith("/login")
    assert model.requests() == []


@pytest.mark.parametrize("app", ["before", "after"])
def test_the_login_takes_the_right_password_only(app, request):
    server = request.getfixturevalue(app)
    form = {"name": "ada", "password": "hopper"}
    assert requests.post(server.url + "/login", data=form, timeout=30).status_code == 403
    home = requests.get(server.url, headers=log_in(server), timeout=30)
    assert "Hello, ada." in home.text
    assert '"/assistant/chat?q="' in home.text


def test_the_upstream_is_left_when_the_client_leaves(after, model):
    cookie = log_in(after)
    model.forget()
    with open_stream(after.url + CHAT, headers=cookie) as stream:
        stream.take(2)
    (asked,) = wait_for(lambda: [request for request in model.requests() if request["ended"]])
    assert asked["sent_tokens"] < SCRIPT.tokens


def wait_for(look, seconds=30):
    deadline = time.monotonic() + seconds
    while not look() and time.monotonic() < deadline:
        time.sleep(0.01)
    return look()


def test_the_difference_is_few_lines():
    diff = difflib.ndiff(lines_of("before"), lines_of("after"))
    added = [line for line in diff if line.startswith("+ ") and line.strip() != "+"]
    assert 0 < len(added) < 10
    assert len(lines_of("after")) < len(lines_of("before"))


def lines_of(name):
    """The lines of one of the two apps, without its docstring, which names the file."""
    return (LEGACY / f"{name}.py").read_text("utf-8").split('"""', 2)[2].splitlines()


def test_the_relay_sends_events_of_its_own(relay):
    tokens, end = read(relay.url + "/chat?q=hello")
    assert (text_of(tokens), end.event) == (SCRIPT.text, "done")
    assert_one_by_one(tokens, SCRIPT.tokens, INTERVAL)


def test_the_relay_sends_the_api_s_own_events_to_its_own_clients(relay):
    payload = {"model": "mine", "stream": True, "messages": [{"role": "user", "content": "hello"}]}
    chunks, end = read(relay.url + "/v1/chat/completions", json=payload)
    texts = [chunk.event.json()["choices"][0]["delta"].get("content") for chunk in chunks]
    tokens = [chunk for chunk, text in zip(chunks, texts) if text]
    assert ("".join(filter(None, texts)), end.data) == (SCRIPT.text, "[DONE]")
    assert_one_by_one(tokens, SCRIPT.tokens, INTERVAL)


def test_the_relay_adds_the_key_and_the_model(relay, model):
    model.forget()
    with open_stream(relay.url + "/chat?q=hello", headers={"Authorization": "Bearer of-the-browser"}) as stream:
        stream.take(1)
    (asked,) = model.requests()
    assert asked["headers"]["authorization"] == "Bearer sk-of-a-test"
    assert asked["model"] == "mine"


def test_an_official_client_prints_each_word_when_it_comes(relay):
    pytest.importorskip("openai", reason="openai is not installed")
    client = str(SAMPLES / "openai_client.py")
    environment = {**os.environ, "OPENAI_BASE_URL": relay.url + "/v1"}
    with subprocess.Popen([sys.executable, client, "hello"], stdout=subprocess.PIPE, env=environment) as process:
        pieces = [(time.monotonic(), data) for data in iter(lambda: os.read(process.stdout.fileno(), 4096), b"")]
    assert process.returncode == 0
    assert b"".join(data for _, data in pieces).decode() == SCRIPT.text + "\n"
    assert pieces[-1][0] - pieces[0][0] > (SCRIPT.tokens - 1) * INTERVAL * 0.7


@pytest.mark.parametrize("sample", ["openai_relay", "legacy/after"])
def test_without_an_upstream_the_embedded_model_answers(sample):
    with running(sample) as server:
        headers, path = (log_in(server), CHAT) if sample == "legacy/after" else ({}, "/chat?q=hello")
        with open_stream(server.url + path, headers=headers) as stream:
            assert text_of(stream.take(3)) == "Each word leaves"


@pytest.mark.parametrize("sample", APPS)
def test_the_command_is_the_one_that_is_tested_here(sample):
    command = f"gunicorn -c {config_of(sample)} {sample.split('/')[-1]}:app\n"
    source = (SAMPLES / f"{sample}.py").read_text("utf-8")
    assert command in source.split('"""')[1]
    assert command in (SAMPLES / "README.md").read_text("utf-8")


def test_every_app_is_in_the_index():
    apps = {
        str(path.relative_to(SAMPLES).with_suffix(""))
        for path in SAMPLES.rglob("*.py")
        if "\napp = " in path.read_text("utf-8")
    }
    assert apps == set(APPS)
