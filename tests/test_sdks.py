"""The official clients, in Python and in Node, pointed at the blueprint: all of them hear what the model says.

Each asks a fixed gunicorn with the embedded model behind it, exactly as it would ask the API.
"""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Iterator

import pytest
from raw_client import logged
from relay_client import COMPLETIONS, MESSAGES, complete
from sdks import SDKS, Sdk, node
from sdks.heard import API_KEY, Heard, Question
from servers import TESTS

from flaskstream.lab.gunicorn import GunicornProcess
from flaskstream.lab.model.script import Script
from flaskstream.lab.processes import ModelProcess
from flaskstream.wire import HEARTBEAT_FORMS

PATHS = {"openai": COMPLETIONS, "anthropic": MESSAGES}
INTERVAL_MS = 40
HEARD_INTERVAL_MS = (
    120  # where it is told when each token was heard: a client that begins is busy with itself for a while
)
HEARTBEAT_SECONDS = 0.05
SILENCE_MS = 200
HASTE = ("--keep-alive", "1")  # a gunicorn that ends waits that long for the connections that its clients keep
SOON_SECONDS = 4.0  # less than the status grace and the heartbeat, by which a going would be noticed otherwise


@pytest.fixture(scope="module", autouse=True)
def node_processes() -> Iterator[None]:
    yield
    node.close_all()


@pytest.fixture(params=SDKS.values(), ids=list(SDKS))
def sdk(request: pytest.FixtureRequest) -> Sdk:
    missing = request.param.missing()
    if missing:
        pytest.skip(missing)
    found: Sdk = request.param
    return found


OF_WHOLES = [sdk for sdk in SDKS.values() if sdk.has_whole]
WITHOUT_STREAM = pytest.mark.parametrize("sdk", OF_WHOLES, ids=[sdk.name for sdk in OF_WHOLES], indirect=True)


@pytest.fixture(scope="module")
def restless(model: ModelProcess) -> Iterator[GunicornProcess]:
    settings = {"upstream": model.url, "heartbeat": str(HEARTBEAT_SECONDS), "status_grace": "0"}
    with GunicornProcess(settings, HASTE, app="apps.restless:app", folder=TESTS) as process:
        process.wait_until_it_answers()
        yield process


def script_for(sdk: Sdk, what: str, **told: Any) -> Script:
    """A script whose name tells this request from all others in the log of the model."""
    return Script(**{"name": f"{sdk.name} {what}", "tokens": 8, "interval_ms": INTERVAL_MS, **told})


def ask(sdk: Sdk, server: GunicornProcess, script: Script, **more: Any) -> Heard:
    return sdk.ask(Question(server.url, script.model, **more))


def installed() -> list[Sdk]:
    """For the tests that ask with all of them at once; the others say aloud which are not there."""
    return [sdk for sdk in SDKS.values() if not sdk.missing()]


def at_once(sdks: list[Sdk], scripts: list[Script], url: str) -> Iterator[Heard]:
    """Ask now; what each heard comes when it is asked for."""
    pool = ThreadPoolExecutor(len(SDKS))
    asked = [pool.submit(sdk.ask, Question(url, script.model)) for sdk, script in zip(sdks, scripts)]
    pool.shutdown(wait=False)
    return (future.result() for future in asked)


def calls_of(heard: Heard) -> list[tuple[str, Any]]:
    calls = [heard.calls[place] for place in sorted(heard.calls)]
    assert len({identity for identity, _, _ in calls}) == len(calls)
    return [(name, json.loads(arguments)) for _, name, arguments in calls]


def told_calls(script: Script) -> list[tuple[str, Any]]:
    return [(call.name, json.loads(call.arguments)) for call in script.calls]


def test_tokens_are_heard_one_by_one(sdk: Sdk, gunicorn: GunicornProcess, model: ModelProcess) -> None:
    script = script_for(sdk, "text", interval_ms=HEARD_INTERVAL_MS)
    heard = ask(sdk, gunicorn, script)
    assert heard.error == []
    assert tuple(heard.tokens) == script.token_texts
    assert heard.finish == {"openai": "stop", "anthropic": "end_turn"}[sdk.dialect]
    entry = logged(model, script.model)
    assert sum(at < entry["ended_at"] for at in heard.arrivals) > script.tokens / 2  # while the model still spoke
    gaps = [later - earlier for earlier, later in zip(heard.arrivals, heard.arrivals[1:])]
    assert sum(gap > HEARD_INTERVAL_MS / 2000 for gap in gaps) >= 3  # and not in one lump, or two
    assert API_KEY not in str(entry["headers"])


def test_calls_of_tools_and_the_usage_are_whole(sdk: Sdk, gunicorn: GunicornProcess) -> None:
    script = script_for(sdk, "tools", tokens=2, tool_calls=3, interval_ms=5)
    heard = ask(sdk, gunicorn, script)
    assert (heard.error, heard.text) == ([], script.text)
    assert calls_of(heard) == told_calls(script)
    assert heard.usage == [8, script.length]
    assert heard.finish == {"openai": "tool_calls", "anthropic": "tool_use"}[sdk.dialect]


def test_calls_without_a_text(sdk: Sdk, gunicorn: GunicornProcess) -> None:
    script = script_for(sdk, "tools alone", tokens=0, tool_calls=1, interval_ms=5)
    heard = ask(sdk, gunicorn, script)
    assert (heard.error, heard.text, calls_of(heard)) == ([], "", told_calls(script))


@WITHOUT_STREAM
def test_an_answer_in_one_object(sdk: Sdk, gunicorn: GunicornProcess, model: ModelProcess) -> None:
    script = script_for(sdk, "whole", tool_calls=2, interval_ms=5)
    heard = ask(sdk, gunicorn, script, stream=False)
    assert (heard.error, heard.text) == ([], script.text)
    assert calls_of(heard) == told_calls(script)
    assert heard.usage == [8, script.length]
    assert heard.request_id == f"req-{logged(model, script.model)['id']}"


EACH_STATUS = pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "BadRequestError"),
        (401, "AuthenticationError"),
        (403, "PermissionDeniedError"),
        (404, "NotFoundError"),
        (422, "UnprocessableEntityError"),
        (429, "RateLimitError"),
        (500, "InternalServerError"),
        (503, "InternalServerError"),
        (529, "APIError"),
    ],
)


def assert_raised(sdk: Sdk, server: GunicornProcess, status: int, kind: str, **more: Any) -> None:
    script = script_for(sdk, "status", status=status, retry_after=30)  # longer than the relay waits itself
    heard = ask(sdk, server, script, **more)
    assert kind in heard.error
    assert heard.status == status
    assert f"The script asked for this error ({status})" in heard.message
    assert heard.retry_after == ("30" if status in (429, 503, 529) else None)


@EACH_STATUS
def test_a_status_is_raised_as_the_sdk_s_own_error(sdk: Sdk, gunicorn: GunicornProcess, status: int, kind: str) -> None:
    assert_raised(sdk, gunicorn, status, kind)


@EACH_STATUS
@WITHOUT_STREAM
def test_so_is_one_in_place_of_an_object(sdk: Sdk, gunicorn: GunicornProcess, status: int, kind: str) -> None:
    assert_raised(sdk, gunicorn, status, kind, stream=False)


def test_an_upstream_that_is_not_there_is_an_error_of_the_server() -> None:
    sdks = installed()
    with GunicornProcess({"upstream": "http://127.0.0.1:9/v1"}, HASTE) as server:
        server.wait_until_it_answers()
        for heard in at_once(sdks, [script_for(sdk, "nobody") for sdk in sdks], server.url):
            assert "InternalServerError" in heard.error
            assert heard.status == 502


def test_a_status_that_comes_too_late_for_one_is_raised_from_the_stream(restless: GunicornProcess) -> None:
    sdks = installed()
    scripts = [script_for(sdk, "late", status=500, slow_headers_ms=SILENCE_MS) for sdk in sdks]
    for heard in at_once(sdks, scripts, f"{restless.url}/comment"):
        assert "APIError" in heard.error
        assert heard.status in (None, 200)


def test_an_error_inside_a_stream_is_raised_after_what_was_said(sdk: Sdk, gunicorn: GunicornProcess) -> None:
    script = script_for(sdk, "error", error_after=3)
    heard = ask(sdk, gunicorn, script)
    assert tuple(heard.tokens) == script.token_texts[:3]
    assert "APIError" in heard.error
    assert "The script asked for this error" in heard.message


@pytest.mark.parametrize("framing", ["chunked", "close", "length"])
@pytest.mark.parametrize("cut", ["close_at", "reset_at"])
def test_a_cut_stream_never_looks_whole(sdk: Sdk, gunicorn: GunicornProcess, cut: str, framing: str) -> None:
    script = script_for(sdk, "cut", framing=framing, interval_ms=5, **{cut: 900})
    heard = ask(sdk, gunicorn, script)
    assert 0 < len(heard.tokens) < script.tokens
    assert tuple(heard.tokens) == script.token_texts[: len(heard.tokens)]
    assert "APIError" in heard.error
    assert heard.finish is None


def test_a_stream_whose_server_is_killed_never_looks_whole(model: ModelProcess) -> None:
    sdks = installed()
    scripts = [script_for(sdk, "killed", tokens=3, silence_after=2) for sdk in sdks]
    with GunicornProcess({"upstream": model.url}) as server:
        server.wait_until_it_answers()
        asked = at_once(sdks, scripts, server.url)
        wait_until_said(model, scripts, 2)
        server.kill()
        assert all(heard.error and heard.finish is None for heard in asked)


def wait_until_said(model: ModelProcess, scripts: list[Script], tokens: int) -> None:
    names = {script.model for script in scripts}
    deadline = time.monotonic() + 30
    while names and time.monotonic() < deadline:
        names -= {request["model"] for request in model.requests() if request["sent_tokens"] >= tokens}
    assert not names


SILENCES = {"slow_headers_ms": SILENCE_MS, "silence_after": 2, "silence_ms": SILENCE_MS}


@pytest.mark.parametrize("form", HEARTBEAT_FORMS)
def test_heartbeats_harm_nothing(restless: GunicornProcess, form: str) -> None:
    sdks = installed()
    scripts = [script_for(sdk, f"hush {form}", interval_ms=5, tool_calls=1, **SILENCES) for sdk in sdks]
    url = f"{restless.url}/{form}"
    for sdk, script, heard in zip(sdks, scripts, at_once(sdks, scripts, url)):
        assert (sdk.name, heard.error) == (sdk.name, [])
        assert tuple(heard.tokens) == script.token_texts
        assert calls_of(heard) == told_calls(script)
        assert heard.finish


@pytest.mark.parametrize("dialect", list(PATHS))
@pytest.mark.parametrize("form", HEARTBEAT_FORMS)
def test_there_were_heartbeats_in_these_silences(restless: GunicornProcess, form: str, dialect: str) -> None:
    script = Script(name=f"control {dialect}", tokens=3, interval_ms=5, **SILENCES)
    recording = complete(restless, script.model, path=f"/{form}{PATHS[dialect]}", max_tokens=9)
    pinged = form == "ping" and dialect == "anthropic"
    assert recording.body.count(b"event: ping\n" if pinged else b": hb\n") >= 2


def test_who_leaves_a_silent_stream_closes_the_upstream(
    sdk: Sdk, gunicorn: GunicornProcess, model: ModelProcess
) -> None:
    script = script_for(sdk, "left", silence_after=2)
    heard = ask(sdk, gunicorn, script, leave_after=2)
    assert (heard.error, heard.text) == ([], "".join(script.token_texts[:2]))
    entry = logged(model, script.model)
    assert (entry["ended"], entry["sent_tokens"]) == ("peer_left", 2)
    assert heard.left_at is not None
    assert entry["peer_left_at"] - heard.left_at < SOON_SECONDS


def test_who_leaves_between_tokens_pays_for_no_more(sdk: Sdk, gunicorn: GunicornProcess, model: ModelProcess) -> None:
    script = script_for(sdk, "busy", tokens=400)
    ask(sdk, gunicorn, script, leave_after=2)
    entry = logged(model, script.model)
    assert entry["ended"] == "peer_left"
    assert entry["sent_tokens"] * script.interval_ms / 1000 < SOON_SECONDS


def test_whose_patience_ends_leaves_the_upstream_too(sdk: Sdk, gunicorn: GunicornProcess, model: ModelProcess) -> None:
    script = script_for(sdk, "patience", slow_headers_ms=60_000)
    heard = ask(sdk, gunicorn, script, timeout=0.3)
    assert "APIConnectionError" in heard.error
    entry = logged(model, script.model)
    assert entry["ended"] == "peer_left"
    assert entry["peer_left_at"] - entry["started_at"] < SOON_SECONDS
