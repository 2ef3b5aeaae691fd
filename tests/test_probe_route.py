"""What the probe can be asked for, and what it answers to whom."""

from __future__ import annotations

import re
import zlib
from urllib.parse import parse_qsl

import pytest
from flask import Flask
from pages import Page, code

from flaskstream import create_blueprint
from flaskstream.errors import InvalidSetting, MaxDuration
from flaskstream.probe.plan import CONTENT_TYPES, HEADERS, NUMBERS, ProbePlan
from flaskstream.probe.records import MAX_RECORDS, ProbeRecords
from flaskstream.probe.ticks import Tick, TickLines
from flaskstream.upstream import Upstream

PATHS = ("/stream/probe", "/stream/debug/stream")
SHORT = "?count=2&interval=5"


def app_of(**options):
    app = Flask(__name__)
    blueprint = create_blueprint(Upstream("http://127.0.0.1:9/v1"), **{"debug": ["probe"], **options})
    app.register_blueprint(blueprint, url_prefix="/stream")
    return app


@pytest.fixture
def client():
    return app_of().test_client()


# The plan.


def test_without_parameters_it_is_two_seconds_of_a_tick_each_100_ms():
    assert ProbePlan.parse([]) == ProbePlan()
    assert ProbePlan().query() == ""
    assert ProbePlan().due_ms(20) == 2000


def test_what_is_asked_for_can_be_written_and_read_again():
    headers = (("X-Accel-Buffering", ""), ("Cache-Control", "no-cache, private"), ("Content-Encoding", "identity"))
    plan = ProbePlan(5, 10, 100, "event-stream", 2000, 1000, headers, "0123456789abcdef")
    assert ProbePlan.parse(parse_qsl(plan.query(), keep_blank_values=True)) == plan


@pytest.mark.parametrize("name", NUMBERS)
def test_every_number_has_its_bounds(name):
    bounds = NUMBERS[name]
    for value in (bounds.lowest, bounds.highest):
        assert getattr(ProbePlan.parse([(name, str(value))]), bounds.field) == value
    for value in (bounds.lowest - 1, bounds.highest + 1, "", "1.5", "1e2", "٥", "x"):
        with pytest.raises(InvalidSetting, match=f"^{name}: expected .*from {bounds.lowest} to {bounds.highest}, got"):
            ProbePlan.parse([(name, str(value))])


REFUSED = {
    "type=json": "type: expected one of event-stream, plain, ndjson, got 'json'",
    "type=plain&heartbeat=5": "heartbeat: expected 0 with type=plain, which has no comments, got '5'",
    "id=123": "id: expected 8 to 32 characters of 0-9 and a-f, got '123'",
    "id=0123456G": "id: expected 8 to 32 characters of 0-9 and a-f, got '0123456G'",
    "ask=": "ask: expected 8 to 32 characters of 0-9 and a-f, got ''",
    "ask=01234567&count=1": "ask: expected it alone, got 2 parameters",
    "count=1&count=2": "count: expected it once, got '2'",
    "intervall=5": "probe: expected parameters out of",
    "Type=plain": "probe: expected parameters out of",
    "&".join(f"a{n}=1" for n in range(11)): "probe: expected at most 10 parameters that mean nothing here, got '11'",
    "header=Set-Cookie:a": "header: expected Name:value with a name out of X-Accel-Buffering,",
    "header=Content-Encoding:gzip": "header: expected identity or nothing for Content-Encoding, got 'gzip'",
    "header=Cache-Control:a%0d%0aX: y": "header: expected up to 200 visible characters for Cache-Control, got",
    "header=Cache-Control:a&header=cache-control:b": "header: expected each name once",
}


@pytest.mark.parametrize("query", REFUSED)
@pytest.mark.parametrize("path", PATHS)
def test_what_cannot_be_is_a_400_that_says_what_was_expected(client, path, query):
    answer = client.get(f"{path}?{query}")
    assert answer.status_code == 400
    error = answer.get_json()["error"]
    assert error["code"] == "bad_request" and error["message"].startswith(REFUSED[query])


def test_the_page_says_what_the_parameters_are():
    rows = Page("docs/operations.md").rows("`/probe`")
    numbers = {name: (bounds, default) for name, bounds, default, _ in rows if " to " in bounds and "0-9" not in bounds}
    defaults = ProbePlan()
    assert numbers == {
        code(name): (f"{bounds.lowest} to {bounds.highest}", str(getattr(defaults, bounds.field)))
        for name, bounds in NUMBERS.items()
    }
    others = {name: re.findall(r"`([\w-]+)`", bounds) for name, bounds, *_ in rows if name not in numbers}
    assert others == {"`type`": list(CONTENT_TYPES), "`header`": list(HEADERS), "`id`": ["0-9a-f"]}


# Who may.


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["get", "post", "head"])
def test_it_is_there_where_it_is_asked_for_and_guarded_like_every_route(path, method):
    def status(**options):
        return getattr(app_of(**options).test_client(), method)(path + SHORT).status_code

    assert status() == status(debug=True) == 200
    assert status(debug=False) == status(debug=["stats", "model"]) == 404
    assert status(authorize=lambda stream: False) == 403


def test_nobody_is_told_what_became_of_a_probe_who_may_not_ask():
    client = app_of(authorize=lambda stream: False).test_client()
    assert client.get(PATHS[0] + "?ask=0123456789abcdef").status_code == 403


def test_a_probe_that_nobody_knows_is_a_404(client):
    answer = client.get(PATHS[0] + "?ask=0123456789abcdef")
    assert answer.status_code == 404
    assert answer.get_json() == {"schema_version": 1, "id": "0123456789abcdef", "known": False}
    assert answer.headers["Cache-Control"] == "no-store"


# What it answers.


def ticks_of(answer):
    lines = answer.get_data(as_text=True).splitlines()
    return [Tick.parse(line[6:]) for line in lines if line.startswith('data: {"n"')]


def test_a_form_says_the_same_as_a_query(client):
    answer = client.post(PATHS[0] + "?interval=5", data={"count": "3"})
    assert [tick.due_ms for tick in ticks_of(answer)] == [0, 5, 10, 15]


def test_json_says_the_same_as_a_form(client):
    asked = {"count": 3, "interval": "5", "header": ["X-Accel-Buffering:", "Cache-Control:private"], "token": {"a": 1}}
    answer = client.post(PATHS[0], json=asked)
    first, *others = ticks_of(answer)
    assert [tick.due_ms for tick in others] == [5, 10, 15] and first.told["ignored"] == ["token"]
    assert answer.headers["Cache-Control"] == "private" and "X-Accel-Buffering" not in answer.headers


@pytest.mark.parametrize(
    "body, said",
    [
        ('{"count": 0}', "count: expected a whole number from 1 to 1000, got '0'"),
        ('{"count": true}', "count: expected a whole number from 1 to 1000, got 'true'"),
        ('{"count": [1, 2]}', "count: expected it once, got '2'"),
        ('{"intervall": 5}', "probe: expected parameters out of"),
        ("[1]", "probe: expected a JSON object, got '[1]'"),
        ("count=1", "probe: expected a JSON object, got 'count=1'"),
    ],
)
def test_json_has_the_same_names_and_bounds(client, body, said):
    answer = client.post(PATHS[0], data=body, content_type="application/json")
    assert answer.status_code == 400 and answer.get_json()["error"]["message"].startswith(said)


@pytest.mark.parametrize("kind, came", [("text/xml", "'text/xml'"), (None, "a body without a Content-Type")])
def test_another_body_is_refused_and_not_passed_over(client, kind, came):
    answer = client.post(PATHS[0] + SHORT, data="<a/>", content_type=kind)
    assert answer.status_code == 415
    expected = f"expected a form, or JSON (Content-Type: application/json), got {came}"
    assert answer.get_json()["error"]["message"] == expected


def test_an_empty_body_says_nothing_whatever_its_type(client):
    for kind in (None, "application/json", "text/plain"):
        assert client.post(PATHS[0] + SHORT, data="", content_type=kind).status_code == 200


def test_what_the_url_says_to_others_is_ignored_and_its_name_told(client):
    answer = client.get(f"{PATHS[0]}{SHORT}&token=secret&uid=5&token=other&{'n' * 99}=1")
    first, *others = ticks_of(answer)
    assert first.told["ignored"] == ["token", "uid", "n" * 60] and len(others) == 2
    assert b"secret" not in answer.get_data()
    assert "ignored" not in ticks_of(client.get(PATHS[0] + SHORT))[0].told


def test_who_asks_after_a_probe_may_say_more_as_well(client):
    assert client.get(PATHS[0] + "?token=secret&ask=0123456789abcdef").status_code == 404


def test_head_says_the_headers_of_get(client):
    query = SHORT + "&type=ndjson&header=X-Accel-Buffering:&header=Cache-Control:private"
    head, get = client.head(PATHS[0] + query), client.get(PATHS[0] + query)
    assert head.status_code == 200 and not head.data
    for name in ("Content-Type", "Cache-Control", "X-Accel-Buffering", "Content-Length"):
        assert head.headers.get(name) == get.headers.get(name)
    assert (get.headers["Cache-Control"], get.headers["Content-Type"]) == ("private", "application/x-ndjson")


def test_headers_are_as_the_client_wants_them_whatever_a_hook_says():
    app = app_of()

    @app.after_request
    def usual_recipe(response):
        response.headers["X-Accel-Buffering"] = "no"
        response.headers["Cache-Control"] = "no-cache"
        return response

    def headers(query):
        return app.test_client().get(PATHS[0] + SHORT + query).headers

    usual = headers("")
    assert usual["X-Accel-Buffering"] == "no" and "no-transform" in usual["Cache-Control"]
    assert "Content-Encoding" not in usual
    asked = headers("&header=x-accel-buffering:%20yes&header=Cache-Control:public&header=Content-Encoding:identity")
    assert (asked["X-Accel-Buffering"], asked["Cache-Control"]) == ("yes", "public")
    assert asked["Content-Encoding"] == "identity"


def test_a_header_is_left_out(client):
    answer = client.get(PATHS[0] + SHORT + "&header=X-Accel-Buffering:&header=Cache-Control:&header=Content-Encoding:")
    assert not {"X-Accel-Buffering", "Cache-Control", "Content-Encoding"} & set(answer.headers.keys())


def test_the_pad_has_its_size_and_no_compressor_hides_it(client):
    answer = client.get(PATHS[0] + "?count=20&interval=5&pad=1000")
    assert {len(tick.pad) for tick in ticks_of(answer)} == {1000}
    assert len(zlib.compress(answer.data, 9)) > 0.7 * len(answer.data)


def test_the_mount_hears_of_its_end_too():
    reports = []
    assert len(ticks_of(app_of(on_end=reports.append).test_client().get(PATHS[0] + SHORT))) == 3
    assert [(report.reason, report.events) for report in reports] == [("done", 3)]


def test_a_probe_that_the_app_ends_has_failed():
    client = app_of(max_duration=0.1).test_client()
    answer = client.get(PATHS[0] + "?interval=1000&id=0123456789abcdef")
    assert "event: error" in answer.get_data(as_text=True)
    assert client.get(PATHS[0] + "?ask=0123456789abcdef").get_json()["state"] == "failed"


def test_lines_that_the_app_ends_are_cut():
    client = app_of(max_duration=0.1).test_client()
    lines = []
    with pytest.raises(MaxDuration):
        lines.extend(client.get(PATHS[0] + "?interval=1000&type=plain").response)
    first, *_, last = lines
    assert Tick.parse(first.decode()).n == 0 and b"max_duration" in last


def test_a_failed_line_is_json_and_no_tick():
    line = TickLines(str).failed(MaxDuration("expected less"), "some-id").decode()
    assert line.endswith("\n") and '"max_duration"' in line
    assert Tick.parse(line) is None


def test_a_tick_is_read_as_it_was_written():
    tick = Tick(3, 300.0, 300.125, "pad", {"boot": None})
    assert Tick.parse(tick.to_json()) == tick
    for text in ("", "1", "{}", '{"n":1,"due_ms":1}', '{"n":true,"due_ms":1,"sent_ms":1}', '{"t":"Hello"}'):
        assert Tick.parse(text) is None


# What is kept.


def test_the_newest_records_are_kept():
    records = ProbeRecords()
    oldest = records.begin("0" * 8, 0)
    for n in range(MAX_RECORDS):
        records.begin(f"{n:08x}", 0).sent(n)
    oldest.sent(99)
    oldest.ended("left")
    found = [records.find(f"{n:08x}") for n in range(MAX_RECORDS)]
    assert [(one.sent, one.state) for one in found] == [(n, "running") for n in range(MAX_RECORDS)]


def test_the_newest_of_one_name_is_meant():
    records = ProbeRecords()
    records.begin("abcdef01", 0).ended("whole")
    records.begin("abcdef01", 0).sent(1)
    assert (records.find("abcdef01").state, records.find("abcdef01").sent) == ("running", 1)


def test_names_that_are_one_number_are_two_names():
    records = ProbeRecords()
    records.begin("0" * 8 + "ff" * 12, 0)
    assert records.find("ff" * 12) is None and records.find("0" * 8 + "ff" * 12)
