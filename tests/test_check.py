"""`flaskstream check` names what eats a stream, by file and line, and has nothing against what streams."""

from __future__ import annotations

import pytest
from checking import (  # noqa: F401 - one is a fixture
    APP,
    asked,
    assert_names,
    codes,
    in_the_folder_of_the_apps,
    line_of,
    the_finding,
)

from flaskstream.doctor.check.judge import CANNOT_TELL, HELD, STREAMS

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
    first, *_ = [found for found in checked.verdict.findings if found.code == "guarded"]  # the loop, then its list
    assert (first.places[0].file, first.places[0].line) == (str(APP), line_of("loop", APP))


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


def test_a_view_that_never_lets_go_is_killed_and_named():
    checked = asked("of_views", "/spins", seconds=0.5)
    assert (checked.verdict.name, codes(checked)) == (CANNOT_TELL, ["blocked_hub"])
    place = checked.verdict.findings[0].places[0]
    assert place.function == "body" and abs(place.line - line_of("spins")) < 2
    assert "killed" in checked.verdict.sentence
