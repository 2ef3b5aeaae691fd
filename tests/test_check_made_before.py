"""`flaskstream check` on views that return an iterator over what is all there."""

from __future__ import annotations

import pytest
from checking import (  # noqa: F401 - one is a fixture
    APPS,
    assert_names,
    codes,
    in_the_folder_of_the_apps,
    the_finding,
)

from flaskstream.doctor.check.examine import check
from flaskstream.doctor.check.judge import CANNOT_TELL, HELD, STREAMS
from flaskstream.doctor.check.paced import PacedUpstream
from flaskstream.doctor.check.question import Question

FILE = APPS / "made_before.py"


def ask(factory, path, config=""):
    return check(Question(f"made_before:{factory}()", path, config=config))


@pytest.mark.parametrize(
    ("path", "mark"),
    [
        ("/appended", "appended"),
        ("/list", "list"),
        ("/expression", "expression"),
        ("/framed", "framed"),
        ("/file", "file"),
        ("/thread", "thread"),
    ],
)
def test_a_generator_that_ended_before_the_view_returned_is_named(path, mark):
    checked = ask("collecting", path)
    assert (checked.verdict.name, codes(checked)) == (HELD, ["body_joined_in_view"])
    assert_names(checked, "body_joined_in_view", mark, FILE)
    assert "6 pieces from its generator" in the_finding(checked, "body_joined_in_view").sentence


def test_so_is_one_in_a_thread_where_nothing_is_patched():
    checked = ask("collecting", "/thread", config="none")
    assert_names(checked, "body_joined_in_view", "thread", FILE)


def test_an_iterator_over_a_list_is_no_stream():
    checked = ask("collecting", "/literal")
    assert (checked.verdict.name, codes(checked)) == (HELD, ["stream_whole_from_start"])
    assert "a list of 2 pieces" in checked.verdict.findings[0].sentence


def test_a_long_wait_and_then_all_at_once_may_be_one():
    checked = ask("collecting", "/waits")
    assert (checked.verdict.name, codes(checked)) == (CANNOT_TELL, [])
    assert "were they made before the first one left?" in checked.verdict.sentence


def test_a_view_that_compresses_without_a_flush_is_named():
    checked = ask("collecting", "/gzip")
    assert (checked.verdict.name, codes(checked)) == (HELD, ["view_compresses"])
    assert checked.verdict.findings[0].places[0].function == "collecting.in_gzip"


@pytest.mark.parametrize("library", ["httpx", "http.client"])
def test_a_library_that_reads_a_whole_stream_of_the_upstream_is_named(library, monkeypatch):
    if library == "httpx":
        pytest.importorskip("httpx")
    with PacedUpstream() as upstream:
        monkeypatch.setenv("UPSTREAM", f"{upstream.url}/view/chunked")
        checked = ask("upstream_first", f"/{library}")
    assert checked.verdict.name == HELD
    assert_names(checked, "unstreamed_upstream", library, FILE)
    assert the_finding(checked, "unstreamed_upstream").sentence.startswith(f"{library} reads a whole")


@pytest.mark.parametrize("config", ["", "none"])
@pytest.mark.parametrize("path", ["/thread", "/passthrough", "/echo", "/other", "/gzip"])
def test_views_that_look_like_those_and_stream_raise_no_alarm(path, config):
    checked = ask("streaming", path, config)
    assert (checked.verdict.name, codes(checked)) == (STREAMS, [])
    assert checked.seen.run.source.pieces >= 4
