"""The browser client: what it is, how it reads, and how it is served. tests/node/client.test.mjs has what it does."""

from __future__ import annotations

import base64
import json
import random
import subprocess
from typing import Any, Iterable, Mapping

import browser
import pytest
from client_page import page_app, shown
from decoders import node
from pages import ROOT
from sse_reading import FRAGMENTS
from sse_reference import interpret
from sse_vectors import LIMITS, VECTORS
from wire_vectors import STREAMS

from flaskstream.client_js import MAX_AGE, SOURCE

MOST_BYTES = 8000
"""Minified, before compression."""
RANDOM_STREAMS = 200


def node_is_missing() -> str | None:
    if node.missing():
        return node.missing()
    tools = [name for name in ("typescript", "terser") if not (node.FOLDER / "node_modules" / name).is_dir()]
    return f"{', '.join(tools)} of tests/node is not installed here (`make test` does it)" if tools else None


needs_node = pytest.mark.skipif(node_is_missing() is not None, reason=str(node_is_missing()))
needs_chromium = pytest.mark.skipif(browser.missing() is not None, reason=str(browser.missing()))


def run(*command: str, told: str = "", seconds: float = node.PATIENCE) -> str:
    """Run something of tests/node; return what it prints."""
    done = subprocess.run(command, cwd=node.FOLDER, input=told, capture_output=True, encoding="utf-8", timeout=seconds)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def tool(package: str, name: str) -> str:
    return str(node.FOLDER / "node_modules" / package / "bin" / name)


# What it is


@needs_node
def test_it_is_small() -> None:
    small = run("node", tool("terser", "terser"), str(SOURCE), "--module", "--compress", "--mangle")
    assert len(small.encode()) < MOST_BYTES


@needs_node
def test_its_types_are_right() -> None:
    run("node", tool("typescript", "tsc"), "--project", "tsconfig.json")


def test_it_needs_nothing_and_makes_no_html_of_what_comes() -> None:
    source = SOURCE.read_text("utf-8")
    code = source[source.index("*/") :]  # behind the example
    assert "import " not in code and "require(" not in code
    assert not any(word in code for word in ("innerHTML", "insertAdjacent", "document.write", "eval("))
    assert max(map(len, source.splitlines())) <= 120


@needs_node
def test_it_does_what_it_should() -> None:
    run("node", "--test", "client.test.mjs")


# How it reads


class Streams:
    """What is to be read, and what the standard makes of it."""

    def __init__(self) -> None:
        self.cases: list[dict[str, Any]] = []
        self.expected: dict[str, Any] = {}

    def add(self, name: str, stream: bytes, cuts: Iterable[list[int]]) -> None:
        self.cases.append({"bytes": base64.b64encode(stream).decode(), "cuts": list(cuts)})
        read = interpret(stream)
        events = [[event.event, event.data, event.id, event.last_event_id] for event in read.events]
        retry = None if read.retry is None else float(read.retry)  # JavaScript has no other numbers
        self.expected[name] = [{"events": events, "lastEventId": read.last_event_id, "retry": retry}]


def everywhere(length: int) -> list[list[int]]:
    """Whole, byte by byte, and cut in two at each place."""
    return [[], list(range(1, length)), *([place] for place in range(length + 1))]


def of_vectors() -> Streams:
    streams = Streams()
    for vector in VECTORS:
        if vector.mode == "strict" and vector not in LIMITS:  # the others are not the standard's, but ours
            places = [0]
            for piece in vector.pieces:
                places.append(places[-1] + len(piece))
            streams.add(vector.name, vector.stream, [places[1:-1], *everywhere(len(vector.stream))])
    for name, stream in STREAMS.items():
        is_short = len(stream) < 4096
        streams.add(name, stream, everywhere(len(stream)) if is_short else [[], list(range(1021, len(stream), 1021))])
    return streams


def of_anything() -> Streams:
    streams, chosen = Streams(), random.Random("anything")
    for n in range(RANDOM_STREAMS):
        stream = b"".join(chosen.choices(FRAGMENTS, k=chosen.randint(1, 30)))
        streams.add(f"random{n}", stream, everywhere(len(stream)))
    return streams


def compare(streams: Streams, answers: Any) -> None:
    assert isinstance(answers, list), answers  # or a text: what went wrong in the page
    wrong: Mapping[str, Any] = {
        name: (answer, expected)
        for (name, expected), answer in zip(streams.expected.items(), answers)
        if answer != expected
    }
    assert not wrong
    assert len(answers) == len(streams.expected) > 50


@needs_node
@pytest.mark.parametrize("make", [of_vectors, of_anything])
def test_node_reads_what_the_standard_says_wherever_it_is_cut(make: Any) -> None:
    streams = make()
    compare(streams, json.loads(run("node", "client_read.mjs", str(SOURCE), told=json.dumps(streams.cases))))


@needs_chromium
def test_chromium_reads_what_the_standard_says_wherever_it_is_cut() -> None:
    streams = of_vectors()
    app = page_app("""
        const { everyReading } = await import("/node/client_vectors.mjs");
        return everyReading(client.Decoder, await (await fetch("/cases")).json());
    """)
    app.add_url_rule("/cases", "cases", lambda: json.dumps(streams.cases))
    with shown(app) as heard:
        compare(streams, heard())


# How it is served


def test_it_is_served_as_it_stands_under_every_prefix() -> None:
    client = page_app("").test_client()
    seen = client.get("/stream/client.js")
    assert seen.status_code == 200 and seen.data == SOURCE.read_bytes()
    assert seen.headers["Content-Type"] == "text/javascript; charset=utf-8"
    assert seen.headers["X-Content-Type-Options"] == "nosniff"
    assert seen.headers["Cache-Control"] == f"private, max-age={MAX_AGE}"
    assert client.head("/stream/client.js").headers["ETag"] == seen.headers["ETag"]


def test_who_has_it_is_sent_it_no_second_time() -> None:
    client = page_app("").test_client()
    etag = client.get("/stream/client.js").headers["ETag"]
    again = client.get("/stream/client.js", headers={"If-None-Match": etag})
    assert (again.status_code, again.data, again.headers["ETag"]) == (304, b"", etag)
    assert client.get("/stream/client.js", headers={"If-None-Match": '"other"'}).status_code == 200


def test_who_may_not_ask_does_not_get_it() -> None:
    assert page_app("", authorize=lambda stream: False).test_client().get("/stream/client.js").status_code == 403


def test_it_goes_with_the_package() -> None:
    assert "\n    static/*.js\n" in (ROOT / "setup.cfg").read_text("utf-8")
