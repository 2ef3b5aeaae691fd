"""Clients that drop their streams at random bytes, while workers go, end with the text, once, for one upstream call.

What happens is made up from a seed, which is told when it fails: `RESUME_SEED` plays it again. `RESUME_CLIENTS=200` is
the full size, with four clients to a stream: `make soak-resume`.
"""

from __future__ import annotations

import os
import random
import secrets
import signal

import pytest
from recorded import recorded_server, script
from resume_client import CRASHES, DEPLOYS, Answer, Client, Crowd, check, our_tracebacks, rng_of
from soak.storm import workers_of

CLIENTS = int(os.environ.get("RESUME_CLIENTS", "100"))
CLIENTS_OF_ONE = 4
MOST_DROPS = 5
TOKENS, INTERVAL_MS = 30, 40
ARRIVAL = 3.0
"""Seconds within which all clients come for the first time."""
DEADLINE = 90.0
"""Seconds that no run takes, unless a client never comes to an end."""

STORES = {"memory": ("memory:", 1), "sqlite": ("sqlite:{folder}/streams.db", 2), "redis": ("{redis}?prefix={name}:", 3)}
"""A URL, and how many workers share it."""


@pytest.fixture
def rng(request):
    return rng_of(request.node.name)


@pytest.fixture
def store(request, tmp_path):
    url, workers = STORES[request.param]
    redis = request.getfixturevalue("redis_server").url if "{redis}" in url else ""
    return url.format(folder=tmp_path, redis=redis, name=secrets.token_hex(4)), workers


def crowd_of(rng, excused=frozenset()):
    """Clients in a random order, four of each answer."""
    name = secrets.token_hex(4)
    answers = [
        Answer(script(f"random-{name}-{n}", TOKENS, INTERVAL_MS), f"{name}-{n}")
        for n in range(CLIENTS // CLIENTS_OF_ONE)
    ]
    clients = [
        Client(answer, random.Random(rng.random()), rng.randint(0, MOST_DROPS), excused)
        for answer in answers
        for _ in range(CLIENTS_OF_ONE)
    ]
    rng.shuffle(clients)
    return clients


def run(server, clients, rng, blows=()):
    """Have the clients come, and these blows fall: each is seconds, a signal, and whether it hits the master."""
    crowd = Crowd(server.url, clients, ARRIVAL, rng)
    for seconds, name, hits_master in blows:
        crowd.at(seconds, lambda name=name, hits_master=hits_master: hit(server, rng, name, hits_master))
    crowd.run(DEADLINE)


def hit(server, rng, name, hits_master):
    whom = server.pid if hits_master else rng.choice(workers_of(server.pid))
    try:
        os.kill(whom, name)
    except ProcessLookupError:
        pass  # it has gone by itself


@pytest.mark.parametrize("store", STORES, indirect=True)
def test_whoever_drops_wherever_has_the_text_once(store, model, rng):
    url, workers = store
    deploys = workers > 1  # what one process has in its memory goes with it
    clients = crowd_of(rng, DEPLOYS if deploys else frozenset())
    blows = [(0.8, signal.SIGTERM, False), (1.8, signal.SIGHUP, True), (3.2, signal.SIGTERM, False)] if deploys else []
    model.forget()
    with recorded_server(model.url, url, workers=workers, lease=10.0) as server:
        run(server, clients, rng, blows)
        assert not our_tracebacks(server)
    check(clients, model)
    assert {client.end for client in clients} == {"done"}


@pytest.mark.parametrize("store", ["sqlite", "redis"], indirect=True)
def test_whoever_has_a_killed_worker_has_a_beginning_and_is_told(store, model, rng):
    url, workers = store
    clients = crowd_of(rng, CRASHES)
    blows = [(1.2, signal.SIGKILL, False), (2.4, signal.SIGKILL, False)]
    model.forget()
    with recorded_server(model.url, url, workers=workers, lease=1.5) as server:
        run(server, clients, rng, blows)
    check(clients, model, may_repeat=True)
    assert {client.end for client in clients} == {"done", "producer_lost"}
