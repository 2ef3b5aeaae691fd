"""An answer in a store survives its connection: through real servers, on each store, from whichever worker."""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor

import pytest
from recorded import (
    after,
    ask,
    begin,
    follow,
    last_id,
    names,
    numbers,
    recorded_server,
    said_text,
    script,
    stream_id,
    wait_until,
)
from relay_client import events

from flaskstream.doctor.measure import Request, record

SETUPS = {
    "memory": ("memory:", {}),
    "sqlite": ("sqlite:{folder}/streams.db", {"workers": 2}),
    "redis": ("{redis}", {"workers": 2}),
    "sqlite-threads": ("sqlite:{folder}/streams.db", {"workers": 2, "worker": "gthread"}),
}


@pytest.fixture(scope="module", params=SETUPS)
def server(request, model, tmp_path_factory):
    store, options = SETUPS[request.param]
    redis = request.getfixturevalue("redis_server").url if "{redis}" in store else ""
    url = store.format(folder=tmp_path_factory.mktemp("store"), redis=redis)
    with recorded_server(model.url, url, **options) as process:
        yield process


@pytest.fixture
def said():
    """An answer that no other test asks for."""
    return script(f"resume-{secrets.token_hex(4)}")


def calls(model, said):
    return [asked for asked in model.requests() if asked["model"] == said.model]


def test_each_event_has_an_id_and_the_numbers_have_no_gap(server, said):
    whole = begin(server, said)
    assert said_text(whole) == said.text
    assert numbers(whole) == list(range(1, said.tokens + 2))
    assert events(whole)[-1].event == "done"
    assert whole.header("Location") == f"/stream/streams/{stream_id(whole)}"


def test_tokens_come_one_by_one(server, said):
    whole = begin(server, said)
    gaps = [later.at - sooner.at for sooner, later in zip(whole.events, whole.events[1:-1])]
    assert sum(gap > said.interval_ms / 2000 for gap in gaps) >= len(gaps) * 2 / 3


@pytest.mark.parametrize("read", [1, 5, 11])
def test_a_client_that_comes_back_misses_nothing_and_hears_nothing_twice(server, model, said, read):
    first = begin(server, said, stop_after=read)
    rest = follow(server, stream_id(first), after(first))
    assert said_text(first, rest) == said.text
    assert numbers(first) + numbers(rest) == list(range(1, said.tokens + 2))
    assert len(calls(model, said)) == 1


def test_a_browser_comes_back_by_itself_to_the_route_where_it_began(server, model, said):
    url = f"{server.url}/stream/chat?q=hello&model={said.model.replace('&', '%26').replace('?', '%3F')}"
    first = record(Request(url, timeout=10), stop_after=4)
    rest = record(Request(url, headers=(after(first),), timeout=10))
    assert said_text(first, rest) == said.text
    assert record(Request(url, headers=(after(rest),), timeout=10)).status == 204
    assert len(calls(model, said)) == 1


def test_it_is_produced_to_its_end_without_a_reader_and_then_read_whole(server, model, said):
    first = begin(server, said, stop_after=1)
    wait_until(lambda: ask(server, "HEAD", stream_id(first)).header("X-Stream-State") == "done")
    whole = follow(server, stream_id(first))
    assert said_text(whole) == said.text
    assert whole.ended_at - whole.sent_at < said.seconds  # from the store: nobody waits for the model again
    assert [call["ended"] for call in calls(model, said)] == ["complete"]


def test_many_read_one_answer_from_whichever_worker(server, model, said):
    first = begin(server, said, stop_after=1)
    with ThreadPoolExecutor(6) as pool:
        readers = list(pool.map(lambda _: follow(server, stream_id(first)), range(6)))
    assert {said_text(reader) for reader in readers} == {said.text}
    assert len(calls(model, said)) == 1


def test_a_finished_stream_has_nothing_more_to_say(server, said):
    whole = begin(server, said)
    assert follow(server, stream_id(whole), after(whole)).status == 204
    assert follow(server, stream_id(whole), query=f"?last_event_id={last_id(whole)}").status == 204


def test_head_tells_how_far_it_is(server, said):
    whole = begin(server, said)
    told = ask(server, "HEAD", stream_id(whole))
    assert told.status == 200 and not told.body
    assert told.header("X-Stream-State") == "done"
    assert told.header("X-Stream-Events") == str(said.tokens + 1)
    assert told.header("X-Last-Event-Id") == last_id(whole)


def test_what_is_no_id_counts_as_none(server, said):
    whole = begin(server, said)
    too_long = f"{last_id(whole)}0000000000000000"
    for wrong in ("", "7", "x" * 500, "0123-1", "-1", too_long, "\xc3\xa9"):
        again = follow(server, stream_id(whole), ("Last-Event-ID", wrong))
        assert names(again) == ["message", "done"]


@pytest.mark.parametrize("wrong", ["0123456789abcdef0123-3", "{epoch}-9999"])
def test_who_has_another_history_begins_anew(server, said, wrong):
    whole = begin(server, said)
    foreign = wrong.format(epoch=last_id(whole).rpartition("-")[0])
    again = follow(server, stream_id(whole), ("Last-Event-ID", foreign))
    assert names(again) == ["reset", "message", "done"]
    assert events(again)[0].json() == {"reason": "epoch"}
    assert said_text(again) == said.text


def test_an_epoch_that_nobody_knows_is_no_reason_for_a_second_answer(server, model, said):
    url = f"{server.url}/stream/chat?q=hello&model={said.model.replace('&', '%26').replace('?', '%3F')}"
    told = record(Request(url, headers=(("Last-Event-ID", "0123456789abcdef0123-3"),), timeout=10))
    assert names(told) == ["reset"] and events(told)[0].json() == {"reason": "evicted"}
    assert record(Request(url, headers=(after(told),), timeout=10)).status == 204
    assert not calls(model, said)


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE"])
def test_an_unknown_stream_is_not_found(server, method):
    assert ask(server, method, "f" * 32).status == 404


# One answer for one key


def test_a_repeated_request_joins_the_answer(server, model, said):
    key = ("Idempotency-Key", secrets.token_hex(8))
    first = begin(server, said, key, stop_after=3)
    again = begin(server, said, key)
    later = begin(server, said, key)
    assert stream_id(first) == stream_id(again) == stream_id(later)
    assert said_text(again) == said_text(later) == said.text
    assert len(calls(model, said)) == 1


def test_many_at_the_same_instant_are_one(server, model, said):
    key = ("Idempotency-Key", secrets.token_hex(8))
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: begin(server, said, key), range(8)))
    assert {said_text(answer) for answer in answers} == {said.text}
    assert len(calls(model, said)) == 1


def test_a_client_may_name_its_stream(server, model, said):
    name = ("X-Stream-Id", secrets.token_urlsafe(16))
    assert stream_id(begin(server, said, name, stop_after=2)) == name[1]
    assert said_text(begin(server, said, name)) == said.text
    assert len(calls(model, said)) == 1


def test_a_key_is_for_one_question(server, said):
    key = ("Idempotency-Key", secrets.token_hex(8))
    begin(server, said, key, stop_after=1)
    other = begin(server, script(said.name, tokens=3), key)
    assert other.status == 422 and b"key_reused" in other.body


@pytest.mark.parametrize("header", [("Idempotency-Key", " "), ("Idempotency-Key", "x" * 256), ("X-Stream-Id", "short")])
def test_a_key_that_does_not_do_is_refused(server, model, said, header):
    told = begin(server, said, header)
    assert told.status == 400 and header[0].encode() in told.body
    assert not calls(model, said)


def test_an_answer_that_failed_before_it_said_anything_is_asked_for_again(server, model):
    refused = script(f"refused-{secrets.token_hex(4)}", status=429)
    key = ("Idempotency-Key", secrets.token_hex(8))
    assert [begin(server, refused, key).status for _ in range(2)] == [429, 429]
    assert len(calls(model, refused)) == 2


# Stop, and other ends


def test_delete_stops_it_wherever_it_runs(server, model):
    endless = script(f"endless-{secrets.token_hex(4)}", tokens=1000)
    first = begin(server, endless, stop_after=3)
    for _ in range(3):  # any number of times, and by any worker
        assert ask(server, "DELETE", stream_id(first)).status == 204
    rest = follow(server, stream_id(first), after(first))
    assert names(rest)[-1] == "stopped" and events(rest)[-1].json() == {"reason": "request"}
    wait_until(lambda: calls(model, endless)[0]["ended"] == "peer_left")
    assert calls(model, endless)[0]["sent_tokens"] < 200
    assert ask(server, "HEAD", stream_id(first)).header("X-Stream-State") == "stopped"
    assert follow(server, stream_id(first), after(rest)).status == 204


def test_a_silent_upstream_is_left_soon_after_delete(server, model):
    silent = script(f"silent-{secrets.token_hex(4)}", tokens=30, silence_after=2)
    first = begin(server, silent, stop_after=2)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(follow, server, stream_id(first))
        wait_until(lambda: calls(model, silent)[0]["sent_tokens"] == 2)
        asked = ask(server, "DELETE", stream_id(first))
        assert names(reading.result())[-1] == "stopped"
    wait_until(lambda: calls(model, silent)[0]["peer_left_at"])
    assert calls(model, silent)[0]["peer_left_at"] - asked.sent_at < 1  # measured: less than 0.1


def test_delete_of_a_finished_stream_changes_nothing(server, said):
    whole = begin(server, said)
    assert ask(server, "DELETE", stream_id(whole)).status == 204
    assert said_text(follow(server, stream_id(whole))) == said.text


def test_a_failure_is_recorded_and_told_to_who_comes_back(server):
    broken = script(f"broken-{secrets.token_hex(4)}", tokens=10, error_after=4)
    first = begin(server, broken)
    assert names(first) == ["message", "error"] and events(first)[-1].json()["code"] == "upstream_error"
    again = follow(server, stream_id(first), ("Last-Event-ID", events(first)[1].id))
    assert names(again) == ["message", "error"]
    assert events(again)[-1] == events(first)[-1]
    only_end = follow(server, stream_id(first), ("Last-Event-ID", events(first)[3].id))
    assert only_end.status == 200 and names(only_end) == ["error"]
    assert follow(server, stream_id(first), after(first)).status == 204


def test_an_upstream_that_refuses_is_a_real_status(server):
    refused = begin(server, script(f"refused-{secrets.token_hex(4)}", status=429, retry_after=7))
    assert refused.status == 429 and refused.header("Retry-After") == "7"
    assert refused.header("X-Stream-Id") is None


# Whose it is


ALICE, BOB = ("X-User", "alice"), ("X-User", "bob")


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE"])
def test_another_users_stream_is_not_found(server, said, method):
    whole = begin(server, said, ALICE)
    assert ask(server, method, stream_id(whole), BOB).status == 404
    assert ask(server, method, stream_id(whole)).status == 404
    assert ask(server, method, stream_id(whole), ALICE).status in (200, 204)
    assert ask(server, method, stream_id(whole), ALICE, ("X-Forbidden", "1")).status == 404


def test_an_epoch_of_another_user_tells_nothing(server, model, said):
    whole = begin(server, said, ALICE)
    told = begin(server, said, BOB, after(whole))
    assert names(told) == ["reset"]
    assert len(calls(model, said)) == 1


def test_keys_of_two_users_are_two(server, model, said):
    key = ("Idempotency-Key", secrets.token_hex(8))
    assert stream_id(begin(server, said, key, ALICE)) != stream_id(begin(server, said, key, BOB))
    assert len(calls(model, said)) == 2


def test_another_users_name_for_a_stream_is_not_found(server, model, said):
    name = ("X-Stream-Id", secrets.token_urlsafe(16))
    begin(server, said, name, ALICE)
    assert begin(server, said, name, BOB).status == 404
    assert len(calls(model, said)) == 1
