"""The embedded model behind TLS: the same answers, a client's going seen at once, no word about clients that fail."""

from __future__ import annotations

import json
import pathlib
import socket
import ssl
import time
from typing import Any, Iterator

import pytest
import requests
from leaving import fin, left_at, read_until, reset
from raw_client import ask, chat, logged

from flaskstream.lab.model.command import tls_of
from flaskstream.lab.model.script import Script
from flaskstream.lab.processes import ModelProcess

AT_ONCE = 1.0  # seconds; a busy machine takes its time
PATIENCE = 10.0


@pytest.fixture(scope="module")
def model(certificate: str) -> Iterator[ModelProcess]:
    with ModelProcess(certfile=certificate) as process:
        yield process
        assert process.errors() == ""


def connected(model: ModelProcess, context: ssl.SSLContext) -> ssl.SSLSocket:
    port = int(model.url.rpartition(":")[2].partition("/")[0])
    plain = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    try:
        return context.wrap_socket(plain, server_hostname="127.0.0.1")
    finally:
        plain.close()  # wrapped, it is detached from the connection


@pytest.mark.parametrize("framing", ["chunked", "close", "http10", "length"])
def test_whoever_trusts_it_gets_the_whole_answer(model: ModelProcess, certificate: str, framing: str) -> None:
    assert model.url.startswith("https://127.0.0.1:")
    script = Script("whole", tokens=5, interval_ms=1, framing=framing)
    asked = {"model": script.model, "stream": True, "messages": []}
    answer = requests.post(f"{model.url}/chat/completions", json=asked, verify=certificate, timeout=PATIENCE)
    events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
    assert "".join(event["choices"][0]["delta"].get("content", "") for event in events) == script.text
    assert logged(model, script.model)["ended"] == "complete"


@pytest.mark.parametrize("go", [fin, reset])
def test_a_client_that_leaves_a_silent_answer_is_seen_to_go(model: ModelProcess, certificate: str, go: Any) -> None:
    name = f"silent-{go.__name__}"
    client = connected(model, ssl.create_default_context(cafile=certificate))
    client.sendall(chat(f"{name}?interval_ms=1&silence_after=2"))
    read_until(client, b"word")
    gone_at = time.monotonic()
    go(client)
    assert left_at(model, name) - gone_at < AT_ONCE


def test_clients_that_fail_are_no_news(model: ModelProcess) -> None:
    with pytest.raises(ssl.SSLError):
        connected(model, ssl.create_default_context())  # which does not trust it
    assert b"200" not in ask(model.url, "tick").received  # which speaks no TLS
    assert model.requests() is not None  # it goes on; and at its end it has complained of nothing


def test_a_certificate_has_a_key(certificate: str, tmp_path: pathlib.Path) -> None:
    alone = tmp_path / "alone.crt"
    begin = "-----BEGIN CERT"
    alone.write_text(begin + pathlib.Path(certificate).read_text().rpartition(begin)[2])
    assert isinstance(tls_of(str(alone), certificate), ssl.SSLContext)
    assert tls_of(None) is None
    for certfile, keyfile in ((str(alone), None), (None, certificate), (str(tmp_path / "missing"), None)):
        with pytest.raises(ValueError, match="expected a certificate"):
            tls_of(certfile, keyfile)
