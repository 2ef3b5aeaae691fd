"""The embedded model: who leaves is noticed, who asks badly is told, and the log has it all."""

import json
import socket
import struct
import time

import pytest
from raw_client import ROLE, TOKEN, Connection, ask, chat, logged, read_tokens, request

from flaskstream.lab.processes import ModelProcess

CLOSE = ("Connection: close",)
CHAT = "/v1/chat/completions"
MESSAGES = "/v1/messages"


@pytest.fixture(scope="module")
def model():
    with ModelProcess() as process:
        yield process
        assert process.errors() == ""


@pytest.mark.parametrize(
    ("silent", "tokens"),
    [("silence_after=2", 2), ("slow_headers_ms=60000", None), ("interval_ms=60000", 0)],
)
@pytest.mark.parametrize("leaving", ["closes", "resets", "ends its half"])
def test_a_peer_that_leaves_a_silent_model_is_noticed_at_once(model, silent, tokens, leaving):
    script = f"it {leaving}?{silent}"
    with Connection(model.url) as connection:
        connection.send(chat(script))
        if tokens is not None:
            read_tokens(connection, tokens)
        left_at = time.monotonic()
        if leaving == "resets":
            connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if leaving == "ends its half":
            connection.socket.shutdown(socket.SHUT_WR)
        else:
            connection.socket.close()
        entry = logged(model, script)
    assert entry["ended"] == "peer_left"
    assert entry["sent_tokens"] == (tokens or 0)
    assert left_at <= entry["peer_left_at"] <= entry["ended_at"]
    assert entry["peer_left_at"] < left_at + 5  # not the minute of the script


def test_a_peer_that_leaves_between_tokens_gets_no_more_of_them(model):
    script = "between?tokens=50&silence_after=1&silence_ms=5000"
    with Connection(model.url) as connection:
        connection.send(chat(script))
        read_tokens(connection, 1)
    entry = logged(model, script)
    assert entry["peer_left_at"] < connection.arrival(TOKEN, 1 + ROLE) + 5  # before the next was due
    assert (entry["ended"], entry["sent_tokens"], entry["tokens_total"]) == ("peer_left", 1, 50)


def test_a_peer_that_stops_reading_and_leaves_is_noticed_too(model):
    script = "full?tokens=100000&interval_ms=0"
    with Connection(model.url) as connection:
        connection.send(chat(script))
        connection.read_until(TOKEN)
    entry = logged(model, script)
    assert entry["ended"] == "peer_left"
    assert 0 < entry["sent_tokens"] < 100_000


def test_a_next_request_sent_early_does_not_hide_the_peers_end(model):
    with Connection(model.url) as connection:
        connection.send(chat("early?silence_after=0", "X-A: 1"))
        connection.read_until(TOKEN)
        connection.send(chat("never?tokens=1", "X-A: 1"))
    assert logged(model, "early?silence_after=0")["ended"] == "peer_left"


def test_the_log_tells_all_that_came_and_can_be_cleared():
    with ModelProcess() as model:
        before = time.monotonic()
        ask(model.url, "one?tokens=1&interval_ms=1", "Connection: close", "X-Twice: a", "x-twice: b")
        ask(model.url, "two?status=500")
        first, second = model.requests()
        assert (first["id"], first["method"], first["path"]) == (1, "POST", CHAT)
        assert first["headers"]["x-twice"] == "a, b"
        assert first["model"] == "one?tokens=1&interval_ms=1"
        assert before <= first["started_at"] <= first["ended_at"] <= time.monotonic()
        assert first["peer_left_at"] is None
        assert (second["id"], second["sent_tokens"]) == (2, 0)
        model.forget()
        assert model.requests() == []


def test_the_log_keeps_the_last_thousand():
    with ModelProcess() as model, Connection(model.url) as connection:
        for n in range(1, 1011):
            connection.reads.clear()
            connection.send(request("GET", f"/v1/models?{n}"))
            connection.read_until(b"]}")
        paths = [entry["path"] for entry in model.requests()]
        assert paths == [f"/v1/models?{n}" for n in range(11, 1011)]


def test_a_running_request_has_not_ended(model):
    script = "running?tokens=1000"
    with Connection(model.url) as connection:
        connection.send(chat(script))
        connection.read_until(TOKEN + b"\r\n")
        entry = [entry for entry in model.requests() if entry["model"] == script][-1]
        assert entry["ended"] is entry["ended_at"] is None


def test_a_model_that_is_no_text_does_not_spoil_the_log(model):
    assert ask(model.url, "torn \ud800").head.startswith(b"HTTP/1.1 400 ")
    assert logged(model, "torn \ud800")["ended"] == "complete"


def refused(model, data):
    with Connection(model.url) as connection:
        connection.send(data)
        connection.read_to_end()
    status = int(connection.head.split()[1])
    return status, json.loads(connection.raw_body)["error"]


@pytest.mark.parametrize(
    ("data", "status", "message"),
    [
        (request("POST", CHAT, b"{", CLOSE), 400, "expected JSON"),
        (request("POST", CHAT, b"[1]", CLOSE), 400, "expected a JSON object"),
        (request("POST", CHAT, b"[" * 100_000, CLOSE), 400, "expected JSON"),
        (request("POST", CHAT, b'{"model":"tick"}', CLOSE), 400, "messages: expected a list"),
        (request("POST", CHAT, b'{"model":7,"messages":[]}', CLOSE), 400, "model: expected a text, got 7"),
        (chat("tick?tokns=1"), 400, "got 'tokns'"),
        (chat("tick?reset_at=99999"), 400, "reset_at, close_at: expected at most the"),
        (request("POST", CHAT, headers=CLOSE), 411, "Content-Length"),
        (request("POST", CHAT, headers=["Content-Length: -1"]), 411, "got '-1'"),
        (request("POST", CHAT, headers=[f"Content-Length: {10 * 1024 * 1024 + 1}"]), 413, "at most 10485760 bytes"),
        (request("POST", "/v1/embeddings", b"{}"), 404, "POST /v1/embeddings"),
        (request("GET", CHAT, headers=CLOSE), 404, "GET /v1/chat/completions"),
        (request("BREW", CHAT), 501, "BREW"),
        (b"nonsense\r\n\r\n", 400, "nonsense"),
    ],
)
def test_a_bad_request_gets_an_error_object(model, data, status, message):
    got_status, error = refused(model, data)
    assert got_status == status
    assert message in error["message"]
    assert set(error) == {"message", "type", "param", "code"}


@pytest.mark.parametrize(
    ("data", "status", "kind", "message"),
    [
        (chat("x", path=MESSAGES), 400, "invalid_request_error", "max_tokens: expected a whole number"),
        (request("POST", MESSAGES, b'{"max_tokens":1}', CLOSE), 400, "invalid_request_error", "messages: expected"),
        (chat("x?tokns=1", path=MESSAGES, max_tokens=1), 400, "invalid_request_error", "got 'tokns'"),
        (request("GET", MESSAGES, headers=CLOSE), 404, "not_found_error", "GET /v1/messages"),
        (request("POST", MESSAGES, headers=["Content-Length: 99999999"]), 413, "request_too_large", "at most"),
    ],
)
def test_a_bad_request_for_a_message_gets_the_error_of_its_api(model, data, status, kind, message):
    got_status, error = refused(model, data)
    assert (got_status, error["type"], set(error)) == (status, kind, {"type", "message"})
    assert message in error["message"]


def test_a_body_that_is_too_large_does_not_cost_the_client_its_answer(model):
    body = b" " * (10 * 1024 * 1024 + 1)
    with Connection(model.url) as connection:
        connection.send(request("POST", CHAT, body))  # all of it, before a look at the answer
        connection.read_to_end()
    assert connection.head.startswith(b"HTTP/1.1 413 ")
    assert connection.ended == "fin"


def test_a_request_that_breaks_off_is_logged_as_such(model):
    with Connection(model.url) as connection:
        connection.send(request("POST", f"{CHAT}?half", headers=["Content-Length: 9"]) + b"{")
    assert logged(model, f"{CHAT}?half", "path")["ended"] == "peer_left"
