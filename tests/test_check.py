"""`flaskstream check` names what eats a stream, by file and line, and has nothing against what streams."""

from __future__ import annotations

import functools
import json
import os
import pathlib
import subprocess
import sys

import pytest
from click.testing import CliRunner
from flask.cli import ScriptInfo

from flaskstream.cli import main
from flaskstream.doctor import exit_codes
from flaskstream.doctor.check.boundary import Content
from flaskstream.doctor.check.examine import check
from flaskstream.doctor.check.findings import FAULT, FINDINGS, HOLDS, NOTE, WARNING
from flaskstream.doctor.check.judge import CANNOT_TELL, EXIT_CODES, HELD, RULES, STREAMS
from flaskstream.doctor.check.question import Question
from flaskstream.errors import InvalidSetting

ROOT = pathlib.Path(__file__).parent.parent
APPS = ROOT / "tests" / "apps"
SAMPLES = ROOT / "samples"
APP = APPS / "checked.py"
KIT_CONFIG = "python:flaskstream.gunicorn_conf"


@pytest.fixture(autouse=True)
def in_the_folder_of_the_apps(monkeypatch):
    monkeypatch.chdir(APPS)
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)


@functools.lru_cache(maxsize=None)
def asked(factory, path, **how):
    return check(Question(f"checked:{factory}()", path, **how))


def line_of(mark, file=APP):
    """The number of the line whose comment ends so."""
    lines = file.read_text("utf-8").splitlines()
    (found,) = [n for n, line in enumerate(lines, 1) if line.endswith((f"# {mark}", f" - {mark}"))]
    return found


def codes(checked, *severities):
    wanted = severities or (HOLDS, FAULT, WARNING, NOTE)
    return [finding.code for finding in checked.verdict.findings if finding.row.severity in wanted]


def the_finding(checked, code):
    (finding,) = [finding for finding in checked.verdict.findings if finding.code == code]
    return finding


def assert_names(checked, code, mark, file=APP):
    """The finding is there, and its first place is the marked line."""
    first = the_finding(checked, code).places[0]
    assert (first.file, first.line) == (str(file), line_of(mark, file))


# What streams.


@pytest.mark.parametrize(
    ("factory", "path"),
    [
        *(("healthy", path) for path in ("/kit", "/plain", "/tuple", "/made")),
        *((factory, "/plain") for factory in ("hook_asks_first", "hook_peeks", "wsgi_gzip_with_flush", "wsgi_peeks")),
        *((factory, "/kit") for factory in ("hook_asks_first", "wsgi_peeks")),
    ],
)
def test_a_healthy_stream_raises_no_alarm(factory, path):
    checked = asked(factory, path)
    assert checked.verdict.name == STREAMS, checked.verdict
    assert not checked.verdict.findings


@pytest.mark.parametrize(
    ("config", "path"),
    [("none", "/plain"), ("none", "/kit"), ("gunicorn_plain.py", "/plain"), ("gunicorn_gthread.py", "/kit")],
)
def test_nor_does_it_under_other_workers(path, config):
    checked = asked("healthy", path, config=config)
    assert checked.verdict.name == STREAMS
    assert codes(checked) == (["sync_worker"] if config == "gunicorn_plain.py" else [])


def test_a_stream_without_end_is_left_after_the_pieces_that_are_needed():
    checked = asked("healthy", "/endless", pieces=5)
    assert (checked.verdict.name, checked.seen.run.source.pieces) == (STREAMS, 5)


def test_a_post_with_its_body_reaches_the_view():
    checked = asked("healthy", "/made", method="POST", body=b"a body", headers=(("Content-Type", "text/plain"),))
    assert ("X-Body", "a body") in checked.seen.run.headers
    assert checked.verdict.name == STREAMS


# What does not, inside of Flask.


@pytest.mark.parametrize(
    ("factory", "through", "mark"),
    [
        ("hook_get_data", "get_data()", "get_data"),
        ("hook_etag", "add_etag()", "add_etag"),
        ("hook_length", "calculate_content_length()", "calculate_content_length"),
        ("hook_conditional", "add_etag()", "make_conditional"),
        ("hook_freeze", "freeze()", "freeze"),
        ("hook_loop", "a loop over it", "loop"),
        ("hook_of_request", "get_data()", "once"),
    ],
)
def test_a_hook_that_reads_the_body_is_named(factory, through, mark):
    checked = asked(factory, "/plain")
    assert checked.verdict.name == HELD
    assert codes(checked) == ["body_read_early"]
    assert_names(checked, "body_read_early", mark)
    sentence = the_finding(checked, "body_read_early").sentence
    assert through in sentence and "12 pieces were made before one was sent" in sentence


@pytest.mark.parametrize(("factory", "mark"), [("hook_get_data", "get_data"), ("hook_etag", "add_etag")])
def test_it_is_only_noted_where_the_kit_keeps_it_off(factory, mark):
    checked = asked(factory, "/kit")
    assert (checked.verdict.name, codes(checked)) == (STREAMS, ["guarded"])
    assert_names(checked, "guarded", mark)


def test_in_debug_mode_the_kit_refuses_and_the_hook_is_named():
    checked = asked("hook_in_debug_mode", "/kit")
    assert (checked.verdict.name, codes(checked)) == (CANNOT_TELL, ["guard_raised"])
    assert_names(checked, "guard_raised", "get_data")


def test_a_loop_over_the_kit_s_body_is_noted_too_though_its_list_takes_the_body_s_place():
    checked = asked("hook_loop", "/kit")
    assert_names(checked, "guarded", "loop")


@pytest.mark.parametrize(("path", "mark"), [("/list", "list"), ("/join", "join"), ("/data", "data")])
def test_a_view_that_runs_its_own_generator_is_named(path, mark):
    checked = asked("of_views", path)
    assert (checked.verdict.name, codes(checked)) == (HELD, ["body_joined_in_view"])
    assert_names(checked, "body_joined_in_view", mark)
    generator = the_finding(checked, "body_joined_in_view").places[1]
    assert generator.function == "events" and "30 pieces" in checked.verdict.findings[0].sentence


def test_events_that_are_all_there_at_once_are_no_stream():
    checked = asked("of_views", "/whole")
    assert (checked.verdict.name, codes(checked)) == (HELD, ["stream_whole_from_start"])
    assert checked.verdict.findings[0].places[0].function == "of_views.whole"


def test_a_hook_that_compresses_without_a_flush_is_named():
    checked = asked("hook_gzip", "/plain")
    assert (checked.verdict.name, codes(checked)) == (HELD, ["hook_compresses"])
    assert_names(checked, "hook_compresses", "hook_gzip")


def test_a_hook_that_drops_close_is_named_and_holds_nothing():
    checked = asked("hook_drops_close", "/plain")
    assert (checked.verdict.name, codes(checked)) == (STREAMS, ["hook_drops_close"])
    assert checked.verdict.findings[0].places[0].function == "hook_drops_close.shout"


def test_flask_compress_is_named_with_the_codings_that_it_holds():
    flask_compress = pytest.importorskip("flask_compress", reason="Flask-Compress is not for Flask 1.1.4")
    checked = asked("compressed", "/plain")
    finding = the_finding(checked, "hook_compresses")
    assert checked.verdict.name == HELD
    assert {place.file for place in finding.places} == {flask_compress.flask_compress.__file__}
    assert "after_request" in finding.places[-1].function
    assert checked.without_coding.name == STREAMS
    assert asked("compressed", "/kit").verdict.name == STREAMS


# And in the layers around it.


@pytest.mark.parametrize(
    ("factory", "code", "mark", "name"),
    [
        ("wsgi_join", "middleware_joins", "JoinAll", "JoinAll"),
        ("wsgi_join_outside", "middleware_joins", "adapter", "wsgi_join_outside.adapter"),
        ("wsgi_gzip", "middleware_compresses", "gzip", "gzip_middleware.gzip"),
        ("wsgi_blocks", "middleware_holds", "blocks", "wsgi_blocks.blocks.in_blocks"),
        ("wsgi_late", "one_piece_late", "late", "wsgi_late.late.one_late"),
    ],
)
def test_a_middleware_that_holds_is_named(factory, code, mark, name):
    checked = asked(factory, "/kit" if code == "middleware_joins" else "/plain")
    assert (checked.verdict.name, codes(checked)) == (HELD, [code])
    assert_names(checked, code, mark)
    assert checked.verdict.findings[0].sentence.startswith(name + " ")


def test_one_of_two_apps_under_a_dispatcher_is_found_behind_its_middleware():
    checked = asked("mounted", "/joined/plain")
    assert codes(checked) == ["middleware_joins"]
    assert_names(checked, "middleware_joins", "Slotted")
    assert asked("mounted", "/plain").verdict.name == STREAMS


def test_a_response_class_that_joins_is_named():
    checked = asked("own_response", "/own")
    assert (checked.verdict.name, codes(checked)) == (HELD, ["response_joins"])
    assert_names(checked, "response_joins", "Joined")


def test_a_compressor_holds_nothing_for_who_offers_no_coding():
    checked = asked("wsgi_gzip", "/plain")
    assert checked.without_coding.name == STREAMS
    told = asked("wsgi_gzip", "/plain", headers=(("Accept-Encoding", "br"),))
    assert (told.verdict.name, told.without_coding) == (STREAMS, None)


def test_a_middleware_that_drops_close_is_named_and_holds_nothing():
    checked = asked("wsgi_drops_close", "/kit")
    assert (checked.verdict.name, codes(checked)) == (STREAMS, ["drops_close"])
    assert_names(checked, "drops_close", "drops close")


# The view's own code.


def test_a_print_that_is_not_flushed_is_named():
    checked = asked("of_views", "/prints")
    assert (checked.verdict.name, codes(checked)) == (STREAMS, ["unflushed_print"])
    assert_names(checked, "unflushed_print", "print")


def test_it_is_no_finding_where_python_flushes_all(monkeypatch):
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")
    assert not asked.__wrapped__("of_views", "/prints").verdict.findings


@pytest.mark.parametrize(("path", "mark"), [("/stubborn", "finally"), ("/catches", "except")])
def test_a_yield_that_runs_while_the_generator_is_closed_is_named(path, mark):
    checked = asked("of_views", path)
    assert codes(checked) == ["yields_while_closing"]
    assert_names(checked, "yields_while_closing", mark)


def test_a_generator_that_fails_before_its_first_piece_is_named():
    checked = asked("of_views", "/fails")
    assert (checked.verdict.name, codes(checked)) == (CANNOT_TELL, ["view_failed"])
    assert_names(checked, "view_failed", "raise")
    assert "ValueError" in checked.verdict.sentence


def test_a_view_that_fails_is_named():
    checked = asked("of_views", "/view")
    assert checked.verdict.name == CANNOT_TELL
    assert f"KeyError: 'of the view' at checked.py:{line_of('view')}" in checked.verdict.sentence


def test_a_view_that_computes_without_a_turn_for_others_is_named():
    checked = asked("of_views", "/computes", pieces=4, seconds=2.0)
    assert (checked.verdict.name, set(codes(checked))) == (STREAMS, {"blocked_hub"})
    assert {finding.places[0].function for finding in checked.verdict.findings} == {"compute"}


def test_a_loop_of_its_own_is_named_under_gevent():
    checked = asked("of_views", "/loop")
    assert_names(checked, "asyncio_run", "asyncio")
    assert "asyncio_run" not in codes(asked("of_views", "/loop", config="none"))


def test_a_stream_that_stops_is_given_up_and_the_line_named_where_it_waits():
    checked = asked("healthy", "/slow", seconds=0.5)
    assert checked.verdict.name == CANNOT_TELL
    assert f"after 1 piece, while it waited at checked.py:{line_of('waits')}" in checked.verdict.sentence


def test_a_feed_that_falls_silent_has_streamed_before():
    checked = asked("healthy", "/idle", seconds=0.5)
    assert (checked.verdict.name, checked.seen.run.source.pieces) == (STREAMS, 4)


# The process.


def test_late_patching_is_named_with_who_imported_what():
    checked = asked("healthy", "/plain", config="patches_late.py")
    finding = the_finding(checked, "late_patching")
    assert "urllib3" in finding.sentence and "RecursionError" in finding.sentence
    assert [str(place) for place in finding.places] == ["patches_late.py:3"]
    assert checked.verdict.name == STREAMS


@pytest.mark.filterwarnings("ignore")
def test_an_app_that_patches_itself_too_late_is_named_too():
    checked = check(Question("patches_itself:app", "/plain", config="none"))
    assert_names(checked, "late_patching", "early", APPS / "patches_itself.py")
    assert checked.seen.one("loaded")["patched_by"] == "app"


def test_the_kit_s_refusal_of_late_patching_is_explained():
    checked = asked("healthy", "/plain", config="patches_too_late.py")
    assert (checked.verdict.name, codes(checked)) == (CANNOT_TELL, ["late_patching"])
    assert [str(place) for place in checked.verdict.findings[0].places] == ["patches_too_late.py:3"]
    assert "gevent must patch before anything uses ssl" in checked.verdict.sentence


def test_a_module_that_blocks_the_hub_is_noted_where_the_app_imports_it():
    extensions = SAMPLES / "legacy" / "extensions.py"
    checked = sample("legacy", "after:app", "", upstream="http://127.0.0.1:9/v1")
    finding = the_finding(checked, "blocking_module")
    lines = extensions.read_text("utf-8").splitlines()
    assert [(place.file, place.line) for place in finding.places] == [
        (str(extensions), lines.index("import sqlite3") + 1)
    ]


def test_an_app_that_cannot_be_loaded_says_why():
    checked = asked("broken", "/plain")
    assert checked.verdict.name == CANNOT_TELL
    assert "LookupError: no settings for the app" in checked.verdict.sentence
    missing = check(Question("no_such_module:app", "/"))
    assert (missing.verdict.name, "no_such_module" in missing.verdict.sentence) == (CANNOT_TELL, True)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/page", "one whole body, and no stream"),
        ("/file", "sends a file"),
        ("/login", "302 FOUND to "),
        ("/no-such", "404 NOT FOUND"),
    ],
)
def test_what_is_no_stream_is_said_to_be_none(path, said):
    checked = asked("healthy", path)
    assert (checked.verdict.name, said in checked.verdict.sentence) == (CANNOT_TELL, True)
    assert not codes(checked)


def test_an_app_without_flask_cannot_be_watched():
    checked = check(Question("checked:not_flask", "/"))
    assert (checked.verdict.name, "no Flask app" in checked.verdict.sentence) == (CANNOT_TELL, True)


def test_without_a_path_nothing_is_run_and_the_routes_are_listed():
    checked = asked("hook_get_data", "")
    assert (checked.verdict.name, checked.seen.run, codes(checked)) == (CANNOT_TELL, None, ["may_read_bodies"])
    assert_names(checked, "may_read_bodies", "get_data")
    routes = {line["rule"]: line["streams"] for line in checked.seen.all("route")}
    assert routes["/kit"] and routes["/plain"] and not routes["/page"]
    assert "/names/<name>" not in routes


# Samples, and what others wrap around an app.


def sample(folder, target, path, upstream, config="", **how):
    before = {name: os.environ.get(name) for name in ("FLASKSTREAM_UPSTREAM",)}
    os.chdir(SAMPLES / folder)
    os.environ["FLASKSTREAM_UPSTREAM"] = upstream
    try:
        return check(Question(target, path, config=config, **how))
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


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


# The command.


def invoke(*arguments):
    return CliRunner().invoke(main, ["check", *arguments])


def test_the_report_names_the_place_and_ends_with_the_verdict():
    result = invoke("checked:hook_get_data()", "/plain")
    assert result.exit_code == exit_codes.EXIT_HELD
    place = f"checked.py:{line_of('get_data')}"
    assert f"where     {place} in log_size" in result.output
    assert result.output.rstrip().splitlines()[-1].endswith(f"Held, inside of this process: {place}.")


def test_json_has_the_same_in_it():
    result = invoke("checked:hook_get_data()", "/plain", "--json")
    told = json.loads(result.output)
    (finding,) = told["findings"]
    assert (told["schema_version"], told["verdict"], finding["cause"]) == (1, "held", "body_reading_hook")
    assert finding["places"][0] == {
        "file": str(APP),
        "line": line_of("get_data"),
        "function": "log_size",
    }
    assert told["run"]["layers"][0]["of"] == "view"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("checked:healthy()", "/plain"), exit_codes.EXIT_STREAMS),
        (("checked:healthy()", "/page"), exit_codes.EXIT_CANNOT_TELL),
        (("checked:healthy()",), exit_codes.EXIT_CANNOT_TELL),
        ((), exit_codes.EXIT_USAGE),
        (("/plain",), exit_codes.EXIT_USAGE),
        (("/plain", "checked:healthy()"), exit_codes.EXIT_USAGE),
        (("checked:healthy()", "/a b"), exit_codes.EXIT_USAGE),
        (("checked:healthy()", "/", "--pieces", "1"), exit_codes.EXIT_USAGE),
        (("checked:healthy()", "/", "-H", "none"), exit_codes.EXIT_USAGE),
        (("checked:healthy()", "/", "--no-such"), exit_codes.EXIT_USAGE),
    ],
)
def test_the_exit_code_says_what_the_verdict_is(arguments, code):
    assert invoke(*arguments).exit_code == code


def test_it_is_a_command_of_flask_too():
    info = ScriptInfo(app_import_path="checked:healthy()")  # which the flask command hands on
    result = CliRunner().invoke(main, ["check", "/plain"], obj=info)
    assert result.exit_code == exit_codes.EXIT_STREAMS, result.output
    assert "checked:healthy()" in result.output
    made_by_a_program = ScriptInfo(create_app=lambda *arguments: None)
    assert CliRunner().invoke(main, ["check", "/plain"], obj=made_by_a_program).exit_code == exit_codes.EXIT_USAGE


# The parts.


@pytest.mark.parametrize(
    ("coding", "piece", "content"),
    [
        ("", b"abc", 3),
        ("br", b"abc", 0),
        ("br", b"a" * 20, 20),
        ("gzip", b"\x1f\x8b\x08\0\0\0\0\0\0\x03", 0),
        ("", "é", 2),
    ],
)
def test_a_header_of_a_coding_is_no_content(coding, piece, content):
    assert Content(coding).count(piece) == content


def test_every_row_of_the_table_can_be_found_and_every_verdict_has_its_code():
    folder = ROOT / "flaskstream" / "doctor" / "check"
    judge = "".join((folder / f"rules_{name}.py").read_text("utf-8") for name in ("body", "process"))
    for code, row in FINDINGS.items():
        assert f'"{code}"' in judge or code.split("_", 1)[0] in ("hook", "middleware"), code
        assert row.severity in (HOLDS, FAULT, WARNING, NOTE) and row.cure
        assert row.cause or row.severity != HOLDS
    assert set(EXIT_CODES) == {STREAMS, HELD, CANNOT_TELL}
    assert len(RULES) == len(set(RULES))


@pytest.mark.parametrize(
    "values",
    [
        {"path": "no-slash"},
        {"target": "module app"},
        {"method": "GET /"},
        {"headers": (("a b", "c"),)},
        {"headers": (("a", "b\nc: d"),)},
        {"pieces": 3},
        {"seconds": 0},
    ],
)
def test_what_cannot_be_asked_is_refused(values):
    with pytest.raises(InvalidSetting):
        Question(**{"target": "module:app", "path": "/", **values})


def test_a_question_is_the_same_after_its_way_to_the_child():
    question = Question("a:b", "/c?d", headers=(("E", "f"),), body=b"\x00\xff", pieces=5, seconds=1.5)
    assert Question.from_json(question.to_json()) == question
