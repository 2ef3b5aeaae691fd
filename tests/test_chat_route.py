"""`/chat` through real gunicorn: what it takes, what it answers, and what it tells of its upstream."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest
from answer_vectors import DONE, event, said
from conftest import API_KEY
from raw_upstream import RawUpstream, answer, head, polite_end
from relay_client import CHAT, JSON, chat, complete, end, error_code, events, text

from flaskstream.doctor.measure import Recording, Request, record
from flaskstream.errors import MAX_ERROR_BODY_BYTES
from flaskstream.lab.model.script import Script

SCRIPT = Script(tokens=6, interval_ms=5)
PROBLEM = b'{"error": {"message": "no"}}'
FORM = ("Content-Type", "application/x-www-form-urlencoded")


def ask(server: Any, method: str, target: str = "", body: bytes | None = None, *headers: Any) -> Recording:
    return record(Request(server.url + CHAT + target, method, headers, body, timeout=30))


# What it takes


@pytest.mark.parametrize(
    ("method", "target", "body", "headers"),
    [
        ("GET", f"?q=hello&model={quote(SCRIPT.model)}", None, ()),
        ("POST", "", json.dumps({"q": "hello", "model": SCRIPT.model}).encode(), [JSON]),
        ("POST", "", json.dumps({"messages": [{"role": "user"}], "model": SCRIPT.model}).encode(), [JSON]),
        ("POST", "", f"q=hello&model={quote(SCRIPT.model)}".encode(), [FORM]),
    ],
    ids=["get", "json", "messages", "form"],
)
def test_a_question_is_answered_with_tokens_and_done(
    gunicorn: Any, method: str, target: str, body: bytes | None, headers: Any
) -> None:
    recording = ask(gunicorn, method, target, body, *headers)
    assert recording.status == 200
    assert (text(recording), end(recording).event) == (SCRIPT.text, "done")


def test_the_upstream_is_asked_what_the_client_asked(raw_gunicorn: Any, raw_upstream: RawUpstream) -> None:
    model = raw_upstream.plays(answer("chunked", DONE))
    messages = [{"role": "system", "content": "\u6771"}, {"role": "user", "content": "hello"}]
    for fields, expected in [({"q": "hello"}, messages[1:]), ({"messages": messages}, messages)]:
        body = json.dumps({**fields, "model": model}).encode()
        ask(raw_gunicorn, "POST", "", body, JSON)
        payload = raw_upstream.asked_for(model)[-1].payload
        assert payload == {"model": model, "messages": expected, "stream": True}


@pytest.mark.parametrize(
    ("method", "target", "body", "headers"),
    [
        ("GET", "", None, ()),
        ("GET", "?q=", None, ()),
        ("GET", "?messages=hello", None, ()),
        ("POST", "", b"", ()),
        ("POST", "", b"{}", [JSON]),
        ("POST", "", b'{"q": ""}', [JSON]),
        ("POST", "", b'{"q": 5}', [JSON]),
        ("POST", "", b'{"messages": []}', [JSON]),
        ("POST", "", b'{"messages": "hello"}', [JSON]),
        ("POST", "", b'["q"]', [JSON]),
        ("POST", "", b'"q"', [JSON]),
        ("POST", "", b"null", [JSON]),
        ("POST", "", b'{"q": "hello"', [JSON]),
        ("POST", "", b'{"q": "hello", "x": NaN}', [JSON]),
        ("POST", "", b'{"q": "\xff"}', [JSON]),
        ("POST", "", b"[" * 100_000, [JSON]),
        ("POST", "", b'{"q": "hello"}', [FORM]),
    ],
)
def test_what_is_no_question_is_a_clear_400(
    raw_gunicorn: Any, raw_upstream: RawUpstream, method: str, target: str, body: bytes | None, headers: Any
) -> None:
    before = len(raw_upstream.asked)
    recording = ask(raw_gunicorn, method, target, body, *headers)
    assert (recording.status, recording.header("Content-Type")) == (400, "application/json")
    error = json.loads(recording.body)["error"]
    assert error["code"] == "bad_request"
    assert "expected" in error["message"]
    assert len(raw_upstream.asked) == before


def test_other_methods_are_refused(gunicorn: Any) -> None:
    assert ask(gunicorn, "PUT", "?q=hello", b"").status == 405


def test_head_answers_with_the_headers_and_asks_nobody(gunicorn: Any, model: Any) -> None:
    model.forget()
    recording = ask(gunicorn, "HEAD", "?q=hello")
    assert (recording.status, recording.header("Content-Type")) == (200, "text/event-stream")
    assert recording.body == b""
    assert model.requests() == []


def test_an_event_source_that_comes_back_after_done_gets_204_and_no_second_answer(gunicorn: Any, model: Any) -> None:
    model.forget()
    target = f"?q=hello&model={quote(SCRIPT.model)}"
    done = end(ask(gunicorn, "GET", target))
    assert done.id
    recording = ask(gunicorn, "GET", target, None, ("Last-Event-ID", done.id))
    assert (recording.status, recording.body) == (204, b"")
    assert len(model.requests()) == 1


def test_an_event_source_that_had_no_done_is_answered(gunicorn: Any) -> None:
    target = f"?q=hello&model={quote(SCRIPT.model)}"
    assert text(ask(gunicorn, "GET", target, None, ("Last-Event-ID", "7"))) == SCRIPT.text


# What it answers


def test_the_headers_are_those_of_a_stream_and_nothing_of_the_upstream_s(
    raw_gunicorn: Any, raw_upstream: RawUpstream
) -> None:
    headers = (
        "Set-Cookie: a=b",
        "Keep-Alive: timeout=5",
        "Connection: keep-alive",
        "Server: upstream",
        "ETag: x",
        "Access-Control-Allow-Origin: *",
    )
    for ask_for in (chat, complete):
        recording = ask_for(raw_gunicorn, raw_upstream.plays(answer("chunked", said("a"), DONE, headers=headers)))
        names = {name.lower(): value for name, value in recording.headers}
        assert names["content-type"] == "text/event-stream"
        assert names["cache-control"] == "no-cache, no-store, no-transform"
        assert names["x-accel-buffering"] == "no"
        assert names["server"] == "gunicorn"
        ours = {"content-type", "cache-control", "x-accel-buffering", "server-timing"}
        assert names.keys() - ours <= {"server", "date", "connection", "transfer-encoding"}


def test_what_the_browser_can_decompress_is_not_asked_of_the_upstream(gunicorn: Any) -> None:
    """This one compresses without a flush if it may, and then all comes at the end."""
    script = Script("auto", tokens=6, interval_ms=60, coding="auto")
    recording = chat(gunicorn, script.model, ("Accept-Encoding", "gzip, deflate, br, zstd"))
    assert text(recording) == script.text
    *tokens, _ = recording.events
    assert tokens[-1].at - tokens[0].at > 2 * script.interval_ms / 1000


@pytest.mark.parametrize("status", [401, 429, 500])
def test_an_error_status_is_relayed_with_its_body(raw_gunicorn: Any, raw_upstream: RawUpstream, status: int) -> None:
    headers = ("Retry-After: 7", "X-Request-Id: abc", "Set-Cookie: a=b")
    played = answer("length", PROBLEM, status=status, headers=headers, content_type="application/json")
    for ask_for in (chat, complete):
        recording = ask_for(raw_gunicorn, raw_upstream.plays(played))
        assert (recording.status, recording.body) == (status, PROBLEM)
        assert recording.header("Content-Type") == "application/json"
        assert (recording.header("Retry-After"), recording.header("X-Request-Id")) == ("7", "abc")
        assert recording.header("Set-Cookie") is None


def test_an_error_page_is_bounded_and_never_a_page_of_ours(raw_gunicorn: Any, raw_upstream: RawUpstream) -> None:
    page = answer("length", b"<script>x</script>" * 9000, status=502, content_type="text/html")
    recording = chat(raw_gunicorn, raw_upstream.plays(page))
    assert (recording.status, len(recording.body)) == (502, MAX_ERROR_BODY_BYTES)
    assert recording.header("Content-Type") == "text/plain; charset=utf-8"
    assert recording.header("X-Content-Type-Options") == "nosniff"


@pytest.mark.parametrize(
    ("played", "status", "code"),
    [
        (answer("length", b"<html>login</html>", content_type="text/html"), 502, "upstream_error"),
        (answer("length", b'{"error": {}}', content_type="application/json"), 502, "upstream_error"),
        (answer("length", b"", status=307, headers=("Location: http://127.0.0.1:1/",)), 502, "upstream_error"),
        (answer("length", event({"error": {"message": "x"}}), DONE), 502, "upstream_error"),
        (head("chunked", "Content-Encoding: br") + b"5\r\nhello\r\n0\r\n\r\n", 502, "upstream_"),
        (head("close"), 502, "upstream_truncated"),
        (b"", 502, "upstream_refused"),
    ],
    ids=["html", "json", "redirect", "error_at_once", "unknown_coding", "empty", "nothing"],
)
@pytest.mark.parametrize("ask_for", [chat, complete])
def test_what_is_no_answer_is_a_real_status(
    raw_gunicorn: Any, raw_upstream: RawUpstream, ask_for: Any, played: bytes, status: int, code: str
) -> None:
    recording = ask_for(raw_gunicorn, raw_upstream.plays(*filter(None, [played]), end=polite_end(played)))
    if ask_for is complete and b'data: {"error"' in played:
        assert (recording.status, recording.body) == (200, event({"error": {"message": "x"}}) + DONE)
        return
    assert (recording.status, recording.header("Content-Type")) == (status, "application/json")
    error = json.loads(recording.body)["error"]
    assert sorted(error) == ["code", "id", "message"]
    assert error["code"].startswith(code)


@pytest.mark.parametrize(("played", "code"), [((), "upstream_timeout"), ((head("chunked"),), "idle_timeout")])
def test_silence_before_the_first_token_is_a_504(
    raw_gunicorn: Any, raw_upstream: RawUpstream, played: Any, code: str
) -> None:
    recording = chat(raw_gunicorn, raw_upstream.plays(*played, end="hold"))
    assert recording.status == 504
    assert json.loads(recording.body)["error"]["code"] == code


def test_a_stray_line_of_html_is_left_out_with_a_warning(raw_gunicorn: Any, raw_upstream: RawUpstream) -> None:
    model = raw_upstream.plays(answer("chunked", said("a"), b"<html>oops 4711</html>\n", said("b"), DONE))
    assert text(chat(raw_gunicorn, model)) == "ab"
    assert "<html>oops 4711</html>" in raw_gunicorn.errors()


def test_the_api_key_is_nowhere(raw_gunicorn: Any, raw_upstream: RawUpstream) -> None:
    key = API_KEY.encode()
    told = {"error": {"message": API_KEY, "type": API_KEY}}
    plays = [
        answer("length", b"bad key " + key, status=401, content_type="text/plain"),
        answer("length", key, status=200, content_type="text/html"),
        answer("chunked", said("a"), b"<p>" + b"x" * 70 + key + b"\n", DONE),
        answer("chunked", said("a"), b"data: " + b"x" * 70 + key + b"\n\n", DONE),
        answer("chunked", said("a"), event(told), DONE),
        answer("chunked", event(told), DONE),
    ]
    for played in plays:
        for ask_for in (chat, complete):
            recording = ask_for(raw_gunicorn, raw_upstream.plays(played, end=polite_end(played)))
            assert b"sk-secret" not in b"".join(read.data for read in recording.reads)
    assert "sk-secret" not in raw_gunicorn.errors()


def test_text_comes_out_as_it_went_in_and_is_one_line_for_every_reader(
    raw_gunicorn: Any, raw_upstream: RawUpstream
) -> None:
    odd = "\u4f60 \U0001f30d \x85 \u2028 \u2029 \ufeff \r \n \x0b \x00"
    model = raw_upstream.plays(answer("close", said(odd), DONE), end="fin")
    recording = chat(raw_gunicorn, model)
    assert text(recording) == odd
    assert recording.body.decode().splitlines() == recording.body.decode().split("\n")[:-1]


def test_an_error_event_names_a_code_and_an_id_of_the_log(raw_gunicorn: Any, raw_upstream: RawUpstream) -> None:
    recording = chat(raw_gunicorn, raw_upstream.plays(head("close") + said("a"), end="fin"))
    assert error_code(recording) == "upstream_truncated"
    assert events(recording)[-1].json()["id"] in raw_gunicorn.errors()
