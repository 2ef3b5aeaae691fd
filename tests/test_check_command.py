"""`flaskstream check` as it is typed: what it prints, its JSON, its exit codes; and the parts that are pure."""

from __future__ import annotations

import json

import pytest
from checking import (  # noqa: F401 - one is a fixture
    APP,
    ROOT,
    in_the_folder_of_the_apps,
    line_of,
)
from click.testing import CliRunner
from flask.cli import ScriptInfo
from pages import Page, code

from flaskstream.cli import main
from flaskstream.doctor import exit_codes
from flaskstream.doctor.check.boundary import Content
from flaskstream.doctor.check.findings import FAULT, FINDINGS, HOLDS, NOTE, WARNING
from flaskstream.doctor.check.judge import CANNOT_TELL, EXIT_CODES, HELD, RULES, STREAMS
from flaskstream.doctor.check.question import Question
from flaskstream.doctor.check.rules_reading import FRAMINGS, PROMPT, WAYS
from flaskstream.errors import InvalidSetting

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


def test_a_view_is_called_as_flask_calls_its_route():
    shown = invoke("checked:with_a_blueprint()", "/assistant/chat").output
    (line,) = [line for line in shown.splitlines() if line.strip().startswith("view ")]
    assert line.split()[1] == "assistant.chat"


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
    judge = "".join((folder / f"rules_{name}.py").read_text("utf-8") for name in ("body", "process", "reading"))
    for name, row in FINDINGS.items():
        assert f'"{name}"' in judge or name.split("_", 1)[0] in ("hook", "middleware"), name
        assert row.severity in (HOLDS, FAULT, WARNING, NOTE) and row.cure
        assert row.cause or row.severity != HOLDS
    assert set(EXIT_CODES) == {STREAMS, HELD, CANNOT_TELL}
    assert len(RULES) == len(set(RULES))


def test_the_page_has_the_rows_of_the_table_and_how_an_upstream_is_read():
    page = Page("docs/doctor.md")
    rows = [row for row in page.rows("Inside one process") if len(row) == 3]
    cells = [(code(name), row.severity, code(row.cause) if row.cause else "-") for name, row in FINDINGS.items()]
    assert rows == cells
    words = {True: "as it comes", False: "held"}
    for way, written in WAYS.items():
        shown = (code(written), *(words[(way, framing) in PROMPT] for framing in FRAMINGS))
        assert shown in page.rows("Inside one process")


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
