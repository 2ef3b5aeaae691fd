"""What the kit writes is read alike by the decoders that people use, wherever the network cuts it."""

from __future__ import annotations

import json
import random
from typing import Any, Callable, Mapping

import pytest
import relay_client
from decoders import DECODERS, node, ours
from decoders.deviations import DEVIATIONS, Deviation
from decoders.reading import Case, Decoder, Reading, Readings, Seen
from flask import Flask
from pages import Page, code
from wire_vectors import STREAMS

from flaskstream import Upstream, create_blueprint
from flaskstream.testing import serve

RANDOM_CUTS = 3
FEW_BYTES = 16 * 1024
PIECE = 1021  # bytes, of streams that have more than that: a prime, so that the cuts fall everywhere in a character

SLOW = "tick?tokens=8&interval_ms=60&slow_headers_ms=150"
BEAT = 0.03  # seconds, so that there is a heartbeat, or two, between two tokens
RECORDED: dict[str, Callable[[Any], Any]] = {
    "/chat": lambda server: relay_client.chat(server, SLOW),
    "/v1/chat/completions": lambda server: relay_client.complete(server, SLOW + "&usage=1&comments=1"),
    "/v1/messages": lambda server: relay_client.complete(server, SLOW, path=relay_client.MESSAGES, max_tokens=9),
}


def case(name: str, stream: bytes) -> Case:
    """Return a stream and the ways to cut it: the same ones in every run."""
    chosen = random.Random(name)
    step = 1 if len(stream) <= FEW_BYTES else PIECE
    cuttings = {"whole": (), "bytes": range(step, len(stream), step)}
    for n in range(RANDOM_CUTS):
        cuttings[f"random{n}"] = sorted(chosen.sample(range(1, len(stream)), 9))
    return Case(name, stream, cuttings)


@pytest.fixture(scope="module")
def cases(model: Any) -> Mapping[str, Case]:
    return {name: case(name, stream) for name, stream in {**STREAMS, **recorded(model)}.items()}


def recorded(model: Any) -> Mapping[str, bytes]:
    """Return what real routes send, with the embedded model behind them."""
    app = Flask("recorded")
    upstream = Upstream(model.url)
    blueprint = create_blueprint(upstream, debug=True, heartbeat=BEAT, status_grace=BEAT)
    app.register_blueprint(blueprint, url_prefix="/stream")
    try:
        with serve(app) as server:
            return {name: record(server).body for name, record in RECORDED.items()}
    finally:
        upstream.close()


@pytest.fixture(scope="module", params=DECODERS.values(), ids=DECODERS)
def decoder(request: Any) -> Decoder:
    missing = request.param.missing()
    if missing:
        pytest.skip(f"{request.param.name}: {missing}")
    return request.param


@pytest.fixture(scope="module")
def readings(decoder: Decoder, cases: Mapping[str, Case]) -> Readings:
    return decoder.read_all(list(cases.values()))


def expected(name: str, stream: bytes, decoder: Decoder) -> Reading:
    """Return what the standard says, but for what is known of this decoder."""
    right = ours.read(stream, decoder.tells_last_id)
    events = list(right.events)
    for deviation in DEVIATIONS:
        if deviation.is_seen(decoder.name, name):
            events = deviation.reads(stream, events)
    return Reading(tuple(events), right.retry if decoder.tells_retry else None)


@pytest.mark.parametrize("name", [*STREAMS, *RECORDED])
def test_a_decoder_reads_what_we_wrote(
    name: str, decoder: Decoder, readings: Readings, cases: Mapping[str, Case]
) -> None:
    awaited = expected(name, cases[name].stream, decoder)
    for cutting in cases[name].cuttings:
        assert readings[name, cutting] == awaited, cutting


@pytest.mark.parametrize("name", RECORDED)
def test_what_was_recorded_begins_with_comments_and_is_whole(name: str, cases: Mapping[str, Case]) -> None:
    assert cases[name].stream.startswith(b": open\n\n: hb\n\n")
    *_, last = ours.read(cases[name].stream, tells_last_id=True).events
    assert last.event in ("done", "message_stop") or last.data == "[DONE]"


# What is known of them

every_deviation = pytest.mark.parametrize(
    "deviation", DEVIATIONS, ids=lambda deviation: f"{deviation.decoder}: {deviation.effect}"
)


def read_by_the_standard(name: str, deviation: Deviation) -> list[Seen]:
    return list(ours.read(STREAMS[name], DECODERS[deviation.decoder].tells_last_id).events)


@every_deviation
def test_a_known_deviation_is_seen_in_every_stream_that_it_names(deviation: Deviation) -> None:
    for name in deviation.streams or ["heartbeats"]:
        right = read_by_the_standard(name, deviation)
        assert deviation.reads(STREAMS[name], right) != right


IN_JSON = ["a whole answer", "heartbeats", "odd characters in JSON", "OpenAI with ids", "Anthropic"]


@every_deviation
@pytest.mark.parametrize("name", IN_JSON)
def test_no_known_deviation_loses_any_of_what_goes_as_json(name: str, deviation: Deviation) -> None:
    right = read_by_the_standard(name, deviation)
    assert [event for event in deviation.reads(STREAMS[name], right) if event.data] == right


@every_deviation
@pytest.mark.parametrize("name", ["heartbeats as lines", "heartbeats as lines among names"])
def test_a_heartbeat_as_a_line_is_an_event_to_nobody(name: str, deviation: Deviation) -> None:
    right = read_by_the_standard(name, deviation)
    assert deviation.reads(STREAMS[name], right) == right


# What docs/wire.md says of them

PAGE = Page("docs/wire.md")


def test_the_page_names_every_decoder() -> None:
    assert [name for name, _, _ in PAGE.rows("Decoders")] == [code(name) for name in DECODERS]


def test_the_page_names_the_versions_of_npm_that_are_installed() -> None:
    wanted = json.loads((node.FOLDER / "package.json").read_text("utf-8"))["dependencies"]
    told = {name.strip("`"): tried for name, registry, tried in PAGE.rows("Decoders") if registry == "npm"}
    assert told == {name: wanted[name] for name in told}


def test_the_page_tells_every_known_deviation() -> None:
    rows = [(code(deviation.decoder), deviation.effect, deviation.reason) for deviation in DEVIATIONS]
    assert PAGE.rows("What they read in their own way") == rows
