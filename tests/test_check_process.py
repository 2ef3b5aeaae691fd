"""`flaskstream check` on the process: who patches when, what cannot be loaded, what is no stream."""

from __future__ import annotations

import pytest
from checking import (  # noqa: F401 - one is a fixture
    APPS,
    asked,
    assert_names,
    codes,
    in_the_folder_of_the_apps,
    the_finding,
)

from flaskstream.doctor.check.examine import check
from flaskstream.doctor.check.judge import CANNOT_TELL, HELD, STREAMS
from flaskstream.doctor.check.question import Question


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
        ("/no-such", "no route for this PATH (404)"),
        ("/made/", "no route for this PATH (404)"),
        ("/user", "308 PERMANENT REDIRECT to http://127.0.0.1:8000/user/ (give that PATH)"),
        ("/posted", "405 METHOD NOT ALLOWED (-X POST)"),
        ("/needs", "400 BAD REQUEST (something is missing?"),
        ("/gone", "the app answered 404 NOT FOUND"),
    ],
)
def test_what_is_no_stream_is_said_to_be_none(path, said):
    checked = asked("healthy", path)
    assert (checked.verdict.name, said in checked.verdict.sentence) == (CANNOT_TELL, True)
    assert not codes(checked)


@pytest.mark.parametrize("path", ["/template", "/json"])
def test_a_page_that_is_made_by_generators_is_no_stream_either(path):
    checked = asked("of_views", path)
    assert (checked.verdict.name, codes(checked)) == (CANNOT_TELL, [])


@pytest.mark.parametrize("path", ["/export", "/items"])
def test_a_page_that_the_view_joins_is_a_page_and_a_note_says_how_it_would_stream(path):
    checked = asked("of_views", path)
    assert (checked.verdict.name, codes(checked)) == (CANNOT_TELL, ["page_joined_in_view"])
    assert "one whole body, and no stream" in checked.verdict.sentence
    assert "<" not in the_finding(checked, "page_joined_in_view").sentence


def test_what_takes_its_time_is_a_stream_whatever_its_type():
    checked = asked("of_views", "/tokens")
    assert (checked.verdict.name, codes(checked)) == (HELD, ["body_joined_in_view"])
    assert_names(checked, "body_joined_in_view", "tokens")


@pytest.mark.parametrize(("path", "said"), [("/no-such", "no route for this PATH"), ("/view/of/it", "404 NOT FOUND")])
def test_an_error_page_holds_no_stream_however_it_is_made(path, said):
    checked = asked("with_a_page_for_errors", path)
    assert (checked.verdict.name, said in checked.verdict.sentence, codes(checked)) == (CANNOT_TELL, True, [])


def test_one_piece_is_told_as_one():
    sentence = the_finding(asked("with_a_blueprint", "/single"), "body_read_early").sentence
    assert sentence.endswith("after the view: nothing was sent before.")


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


def test_of_the_kit_s_own_routes_those_look_like_streams_that_are():
    routes = check(Question("kit_routes:app")).seen.all("route")
    streams = {line["rule"] for line in routes if line["streams"]}
    assert streams == {"/stream/chat", "/stream/probe", "/stream/debug/stream", "/other/chat", "/mine"}
    assert {"/stream/client.js", "/stream/stats"} <= {line["rule"] for line in routes}
