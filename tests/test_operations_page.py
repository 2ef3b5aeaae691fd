"""docs/operations.md says what an operator sees: its block runs, its tables and figures are those of the code."""

from __future__ import annotations

import dataclasses
import inspect
import logging
import re

from flask import Flask
from pages import Page, code

from flaskstream import Upstream, create_blueprint, sse
from flaskstream.guard import MAX_BODY_BYTES
from flaskstream.options import StreamOptions
from flaskstream.serving.client import VANISHED_SECONDS
from flaskstream.tally import StreamReport
from flaskstream.testing import open_stream, serve
from flaskstream.upstream import retries

PAGE = Page("docs/operations.md")
(LINE,) = PAGE.blocks("text")
(BILL,) = PAGE.blocks("python")
MIB = 1024 * 1024


def test_the_bill_is_written_when_the_stream_has_ended(capsys, caplog):
    names = {"__name__": "bill"}
    exec(BILL, names)
    app = Flask("bill")
    app.add_url_rule("/", view_func=names["view"])
    caplog.set_level(logging.INFO, "flaskstream.tally")
    with serve(app) as server, open_stream(server.url + "/") as stream:
        assert [timed.event.event for timed in stream] == ["message", "message", "done"]
    stream_id, reason, tokens, first = capsys.readouterr().out.split()
    assert (reason, tokens) == ("done", "2") and float(first) > 0
    (line,) = [record.getMessage() for record in caplog.records if record.name == "flaskstream.tally"]
    assert f"id={stream_id}" in line
    assert re.sub(r"=\S+", "=", line) == re.sub(r"=\S+", "=", LINE.strip())


def test_the_values_of_a_report_are_those_of_the_table():
    assert [row[0] for row in PAGE.rows("`on_end`")] == [code(field.name) for field in dataclasses.fields(StreamReport)]


def test_the_limits_are_those_of_the_code():
    defaults = {
        name: parameter.default
        for function in (create_blueprint, Upstream, StreamOptions)
        for name, parameter in inspect.signature(function).parameters.items()
    }
    rows = PAGE.rows("What is bounded")
    named = {name: row[2] for row in rows for name in re.findall(r"`(?:Upstream\()?(\w+)(?:=\.\.\.\))?`", row[1])}
    for name in ("max_streams", "max_duration", "content_timeout"):
        assert not defaults[name] and named[name] == "no limit"
    for name in ("idle_timeout", "connect_timeout"):
        assert named[name] == f"{defaults[name]:g} s"
    assert named["max_body_bytes"] == f"{MAX_BODY_BYTES // MIB} MiB"
    assert named["event_too_large"] == f"{sse.MAX_EVENT_BYTES // MIB} MiB"
    assert named["TCP_USER_TIMEOUT"].startswith(f"{VANISHED_SECONDS} s")


def test_what_is_asked_again_is_what_the_page_says():
    section = " ".join(PAGE.section("When the upstream fails").split())
    assert set(map(int, re.findall(r"\b[45]\d\d\b", section))) == retries.PASSING_STATUSES
    assert f"up to {retries.LONGEST_WAIT_SECONDS:g} s" in section
    assert f"`Upstream(retries={inspect.signature(Upstream).parameters['retries'].default})`" in section
