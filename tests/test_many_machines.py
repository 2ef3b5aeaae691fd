"""Three machines behind a proxy, and one Redis: clients have the exact text, once, while the machines are restarted.

What happens is made up from a seed, which is told when it fails; `RESUME_SEED` plays it again.
"""

from __future__ import annotations

import random
import secrets
import signal
import urllib.error
import urllib.request
from collections import Counter
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Sequence
from urllib.parse import urlsplit

import pytest
from hosts import Host, places
from proxies import NginxProcess
from recorded import script, wait_until
from redis_server import RedisServer, free_port
from resume_client import CRASHES, DEPLOYS, LOST, Answer, Client, Crowd, check, our_tracebacks, rng_of

MACHINES = 3
ANSWERS, CLIENTS_OF_ONE = 16, 3
MOST_DROPS = 8
FEW_TOKENS = 6
"""Every so many, at most, a client drops its connection, as long as it does."""
TOKENS, INTERVAL_MS = 40, 50
ARRIVAL = 6.0
"""Seconds within which all clients come for the first time."""
WHEN = (0.7, 2.4, 4.1)
"""Seconds after which each machine is told to stop."""
DEADLINE = 90.0
"""Seconds that nothing takes, unless a client never comes to an end."""

NGINX = """
upstream machines { {machines} }
server {
    listen {listen};
    location / {
        proxy_pass http://machines;
        # A POST is repeated on another machine, too: its Idempotency-Key makes it the same one.
        proxy_next_upstream error timeout non_idempotent;
    }
}
"""
MODEL = """
server {
    {listens}
    location / { proxy_pass {model}; proxy_http_version 1.1; proxy_buffering off; }
}
"""
"""By which the machines reach the model, which listens on 127.0.0.1 alone."""


@dataclass
class Machines:
    """What a test has.

    Attributes:
        url: of the proxy.
        hosts: the machines.
        why_not: why they are no network namespaces; "": they are.
    """

    url: str
    hosts: Sequence[Host]
    why_not: str


@pytest.fixture(scope="module")
def machines(model):
    with ExitStack() as stack:
        made, why_not = stack.enter_context(places(MACHINES))
        password = secrets.token_hex(8)  # for it listens on every address
        redis = stack.enter_context(closing(RedisServer(bind="0.0.0.0", requirepass=password)))
        port = free_port()
        hosts = [
            stack.enter_context(
                closing(
                    Host(
                        place,
                        f"http://{place.outside}:{port}{urlsplit(model.url).path}",
                        f"redis://:{password}@{place.outside}:{redis.port}/0",
                        lease=2.0,
                    )
                )
            )
            for place in made
        ]
        for host in hosts:
            host.start()
        proxy = stack.enter_context(NginxProcess(nginx(hosts, {place.outside for place in made}, port, model.url)))
        machines = Machines(proxy.url, hosts, why_not)
        for host in hosts:
            wait_until(lambda host=host: answers(host.address), DEADLINE)
        yield machines
        assert not [line for host in hosts for line in our_tracebacks(host)]


def nginx(hosts, outsides, port, model_url):
    machines = "".join(f"server {host.address} max_fails=0; " for host in hosts)
    listens = "".join(f"listen {outside}:{port}; " for outside in outsides)
    where = urlsplit(model_url)
    model = MODEL.replace("{listens}", listens).replace("{model}", f"{where.scheme}://{where.netloc}")
    return NGINX.replace("{machines}", machines) + model


def answers(address):
    try:
        urllib.request.urlopen(f"http://{address}/", timeout=DEADLINE).close()
    except urllib.error.HTTPError as error:
        error.close()
        return True
    except OSError:
        return False
    return True


@pytest.fixture
def rng(request):
    return rng_of(request.node.name)


def crowd_of(rng, excused):
    name = secrets.token_hex(4)
    answers = [Answer(script(f"machines-{name}-{n}", TOKENS, INTERVAL_MS), f"{name}-{n}") for n in range(ANSWERS)]
    return [
        Client(answer, random.Random(rng.random()), rng.randint(1, MOST_DROPS), excused, FEW_TOKENS)
        for answer in answers
        for _ in range(CLIENTS_OF_ONE)
    ]


def restart(crowd, host, name, restarted):
    """End a machine so, and start it again as soon as it has ended."""
    host.hit(name)

    def look_for_its_end():
        if host.has_ended():
            host.start()
            restarted.append(host)
        else:
            crowd.at(0.05, look_for_its_end)

    look_for_its_end()


def test_the_exact_text_once_while_every_machine_is_restarted(machines, model, rng):
    clients = crowd_of(rng, DEPLOYS)
    crowd = Crowd(machines.url, clients, ARRIVAL, rng)
    restarted = []
    for seconds, host in zip(WHEN, machines.hosts):
        crowd.at(seconds, lambda host=host: restart(crowd, host, signal.SIGTERM, restarted))
    crowd.run(DEADLINE, lambda: len(restarted) == MACHINES)
    assert check(clients, model)["restart"]
    assert {client.end for client in clients} == {"done"}


def test_a_machine_that_fails_costs_its_own_answers_their_end_and_no_other_one(machines, model, rng):
    clients = crowd_of(rng, CRASHES)
    crowd = Crowd(machines.url, clients, 2.5, rng)
    restarted = []
    crowd.at(1.5, lambda: restart(crowd, machines.hosts[0], signal.SIGKILL, restarted))
    crowd.run(DEADLINE, lambda: len(restarted) == 1)
    check(clients, model, may_repeat=True)
    ends = {client.answer.key: client.end for client in clients}
    assert set(ends.values()) == {"done", LOST}
    assert Counter(ends.values())["done"] >= ANSWERS / 3  # of those on the two machines that are left


def test_the_machines_are_hosts_of_their_own(machines):
    if machines.why_not:
        pytest.skip(f"needs network namespaces, and was done with loopback addresses instead: {machines.why_not}")
