"""`flaskstream compare --serve` without a browser: what it starts, tells and lets choose, and that nothing is left."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from urllib.parse import quote

import pytest
from compare_page import ROOT, served
from marked import PATIENCE, Mark

from flaskstream.app import create_app
from flaskstream.cli.console import EXIT_SIGNAL
from flaskstream.lab.faults import FAULTS, active_faults
from flaskstream.lab.plan import Plan
from flaskstream.lab.processes import ProcessFailed
from flaskstream.lab.side_by_side.choices import PACE_TO_WATCH, choices, first_choice, pace
from flaskstream.lab.side_by_side.desk import Desk, create_desk
from flaskstream.lab.side_by_side.lines import MAX_LINES, Lines
from flaskstream.settings import Settings
from flaskstream.testing import open_stream

PAGE_ORIGIN = "http://127.0.0.1:8000"


def ask(url, method="GET", **headers):
    """Return the status and the JSON of a desk's answer."""
    request = urllib.request.Request(url, method=method, headers=headers)
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=PATIENCE) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


@pytest.fixture(scope="module")
def servers():
    mark = Mark()
    with served(mark, "--faults", "token_accumulator,unflushed_print", "--tokens", "12") as (_, urls):
        yield urls


def choose(servers, name):
    return ask(f"{servers['desk']}/choice?name={name}", "POST", Origin=servers["fixed"])


def answer_of(server, **query):
    told = "&".join(f"{name}={value}" for name, value in {"q": "hello", **query}.items())
    with open_stream(f"{server}/stream/chat?{told}") as stream:
        return [timed.event for timed in stream], stream.headers


def test_both_modes_answer_and_the_page_may_read_the_broken_one(servers):
    choose(servers, "token_accumulator")
    fixed, _ = answer_of(servers["fixed"])
    broken, headers = answer_of(servers["broken"])
    assert [answer[-1].event for answer in (fixed, broken)] == ["done", "done"], (fixed[-1], broken[-1])
    assert len(broken) < len(fixed)
    assert headers["Access-Control-Allow-Origin"] == servers["fixed"]


def test_the_page_may_ask_these_servers_and_no_others(servers):
    with open_stream(servers["page"]) as page:
        policy = dict(part.strip().split(" ", 1) for part in page.headers["Content-Security-Policy"].split(";"))
        text = page.text()
    assert policy["default-src"] == policy["form-action"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == "'self'"
    assert policy["connect-src"] == f"'self' {servers['broken']} {servers['desk']}"
    assert f'<meta name="desk" content="{servers["desk"]}">' in text


def test_the_desk_tells_what_there_is_to_choose(servers):
    _, state = ask(f"{servers['desk']}/state")
    assert [choice["name"] for choice in state["choices"]] == ["broken", "token_accumulator", "unflushed_print"]
    for choice in state["choices"][1:]:
        assert (choice["sentence"], choice["cure"]) == (FAULTS[choice["name"]].sentence, FAULTS[choice["name"]].cure)
    assert state["pace"] == [12, 50] and state["broken"] == servers["broken"] + "/stream"


def test_another_mistake_is_another_server_at_the_same_address(servers):
    status, chosen = choose(servers, "unflushed_print")
    assert (status, chosen["choice"]) == (200, "unflushed_print")
    first, _ = answer_of(servers["broken"])
    assert choose(servers, "token_accumulator")[0] == 200
    second, _ = answer_of(servers["broken"])
    assert len(second) < len(first)
    assert ask(f"{servers['desk']}/state")[1]["choice"] == "token_accumulator"


def test_the_lines_of_both_come_as_they_come_out_and_unflushed_ones_at_the_end(servers):
    choose(servers, "unflushed_print")
    with open_stream(f"{servers['desk']}/lines") as stream:
        events = iter(stream)
        assert next(events).event.event == "hello"
        twelve = quote("lines?tokens=12&interval_ms=20")
        answer_of(servers["broken"], model=twelve)
        answer_of(servers["fixed"], model=twelve)
        lines = [json.loads(next(events).event.data) for _ in range(12)]
        assert {line["side"] for line in lines} == {"fixed"}  # though the broken one answered first
        choose(servers, "token_accumulator")
        late = [json.loads(next(events).event.data) for _ in range(12)]
    assert {line["side"] for line in late} == {"broken"}
    assert min(line["late"] for line in late) > max(line["late"] for line in lines)
    assert all("flaskstream stream=" in line["text"] for line in lines + late)
    numbers = [line["number"] for line in lines + late]
    assert numbers == list(range(numbers[0], numbers[0] + 24))


def test_the_desk_tells_what_the_model_was_asked_and_has_said(servers):
    five = quote("asked-once?tokens=5&interval_ms=5")
    answer_of(servers["fixed"], model=five)
    _, told = ask(f"{servers['desk']}/asked?model={five}")
    assert told == [{"sent_tokens": 5, "tokens_total": 5, "ended": "complete"}]
    assert ask(f"{servers['desk']}/asked?model=nobody") == (200, [])


# Who may ask the desk.


class FakeServer:
    choice = "broken"

    def choose(self, choice):
        if choice == "unflushed_print":
            raise ProcessFailed("no gunicorn here")
        self.choice = choice


def desk(plan=None):
    plan = plan or Plan()
    told = Desk(plan, choices(plan), None, Lines(), FakeServer(), PAGE_ORIGIN, "http://127.0.0.1:8001/stream")
    return create_desk(told).test_client()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": PAGE_ORIGIN}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({}, 403),
        ({"Origin": PAGE_ORIGIN, "Host": "evil.example:80"}, 403),
    ],
)
def test_only_the_page_may_choose(headers, status):
    headers = {"Host": "127.0.0.1:1", **headers}
    assert desk().post("/choice?name=blocked_hub", headers=headers).status_code == status


def test_only_the_page_may_read():
    seen = desk().get("/state", headers={"Host": "127.0.0.1:1", "Origin": "http://evil.example"})
    assert seen.headers["Access-Control-Allow-Origin"] == PAGE_ORIGIN
    assert desk().get("/state", headers={"Host": "evil.example"}).status_code == 403


def test_a_choice_that_is_none_and_a_server_that_does_not_start_are_told():
    headers = {"Host": "127.0.0.1:1", "Origin": PAGE_ORIGIN}
    assert desk().post("/choice?name=none_such", headers=headers).status_code == 400
    failed = desk().post("/choice?name=unflushed_print", headers=headers)
    assert (failed.status_code, failed.get_json()) == (503, {"error": "no gunicorn here"})


def test_a_real_api_is_not_told_what_to_say():
    state = desk(Plan(upstream="http://127.0.0.1:9/v1")).get("/state", headers={"Host": "127.0.0.1:1"}).get_json()
    assert state["pace"] is None
    assert not {choice["name"] for choice in state["choices"]} & {"cut_looks_whole", "late_reader"}


# What it keeps, and what there is to choose.


def test_the_lines_that_are_kept_are_limited_and_counted():
    lines = Lines()
    for n in range(MAX_LINES + 10):
        lines.add("fixed", 1000.0, b"line %d\n" % n)
    count, kept = lines.after(0, 0)
    assert (count, len(kept), kept[0].text, kept[0].late) == (MAX_LINES + 10, MAX_LINES, "line 10", None)
    assert lines.after(None, 0) == (count, [])
    assert lines.after(count + 5, 0) == (count, [])  # of another desk, at the same address before


def test_who_waits_for_lines_gets_them_at_once_and_is_let_go():
    lines, got = Lines(), []
    waiting = threading.Thread(target=lambda: got.extend([lines.after(0, PATIENCE), lines.after(1, PATIENCE)]))
    waiting.start()
    lines.add("broken", 1000.0, b"one\n")
    lines.close()
    waiting.join(PATIENCE)
    assert [count for count, _ in got] == [1, 1]


def test_the_choices_are_the_usual_mistakes_and_each_alone():
    found = {choice.name: choice for choice in choices(Plan())}
    assert list(found) == ["broken", *FAULTS]
    assert all(fault.name in found["broken"].sentence for fault in active_faults(()))
    assert (found["sync_worker"].readers, found["blocked_hub"].readers, found["joined_body"].readers) == (2, 2, 1)
    assert first_choice(Plan()) == "broken" and first_choice(Plan(faults=("sync_worker",))) == "sync_worker"
    assert first_choice(Plan(faults=("none",))) == "broken"
    assert pace(Plan()) == PACE_TO_WATCH and pace(Plan(tokens=12)) == (12, 50)


# What a signal leaves.


@pytest.mark.parametrize(("name", "send"), [("SIGINT", os.killpg), ("SIGTERM", os.kill)], ids=["Ctrl-C", "SIGTERM"])
def test_a_signal_ends_it_and_all_that_it_started(name, send):
    mark, number = Mark(), signal.Signals[name]
    with served(mark, "--faults", "none") as (process, urls), open_stream(f"{urls['desk']}/lines") as lines:
        next(iter(lines))
        send(process.pid, number)
        _, err = process.communicate(timeout=PATIENCE)
        assert mark.commands() == {}
    assert process.returncode == EXIT_SIGNAL + number
    assert err.decode().splitlines()[-1] == f"Error: interrupted by {name}; all that was started has ended"


def test_not_even_a_kill_leaves_anything():
    mark = Mark()
    with served(mark, "--faults", "none") as (process, _):
        process.kill()
        process.communicate()
        mark.wait_until_gone()


def test_a_gunicorn_that_does_not_start_is_told(tmp_path):
    (tmp_path / "gevent").mkdir()
    (tmp_path / "gevent" / "__init__.py").write_text("raise ImportError('no gevent on this machine')\n")
    mark = Mark()
    command = [sys.executable, "-m", "flaskstream", "compare", "--serve"]
    environment = {**os.environ, **mark.environment, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=PATIENCE)
    assert (done.returncode, done.stdout) == (3, b"")
    assert "no gevent on this machine" in done.stderr.decode()
    mark.wait_until_gone()


@pytest.mark.parametrize("arguments", [("--json",), ("--html", "page.html")])
def test_nothing_is_measured_so_nothing_is_reported(arguments):
    command = [sys.executable, "-m", "flaskstream", "compare", "--serve", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=PATIENCE)
    assert done.returncode == 2 and b"--serve: expected neither --json nor --html" in done.stderr


# The page by itself.


def test_without_a_second_server_the_page_asks_its_own_alone():
    client = create_app(Settings(upstream="http://127.0.0.1:1/v1", store=None)).test_client()
    page = client.get("/stream/compare")
    assert "connect-src 'self'; " in page.headers["Content-Security-Policy"]
    assert 'content=""' in page.get_data(as_text=True) and "flaskstream compare --serve" in page.get_data(as_text=True)
    for name, kind in (("compare.js", "text/javascript"), ("compare.css", "text/css")):
        assert client.get(f"/stream/{name}").headers["Content-Type"].startswith(kind)


def test_the_page_has_nothing_inline_and_loads_nothing_from_elsewhere():
    client = create_app(Settings(upstream="http://127.0.0.1:1/v1", store=None)).test_client()
    page = client.get("/stream/compare").get_data(as_text=True)
    assert not re.search(r"<style|style=|\son\w+=|<script(?! type=\"module\" src=)|https?:", page)
    script = client.get("/stream/compare.js").get_data(as_text=True)
    assert not re.search(r"innerHTML|insertAdjacentHTML|outerHTML|document\.write|eval\(", script)
    assert max(map(len, script.splitlines())) <= 120
