"""What is left in the workers of a soak when all clients have gone: it must be what a fresh worker has."""

from __future__ import annotations

import json
import os
import re
import time
import urllib.request
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from relay_client import CHAT

from flaskstream.lab.gunicorn import GunicornProcess
from soak.clients import Client, Got
from soak.plays import Play
from soak.storm import workers_of

UPSTREAM = "connections to the upstream"

NONE_OF = {"streams", "generators", "pump threads", UPSTREAM}
"""What no worker may hold when nobody asks it anything, however much it held before."""

SETTLE_SECONDS = 20.0
"""How long the last cleanup may take: an upstream that is silent is given up after a few seconds."""

MISSES = 60
"""After so many refusals one after the other no worker has a place: nobody can choose the one that is asked."""


@dataclass(frozen=True)
class Holding:
    """What one worker holds: how many of each."""

    pid: int
    counts: dict[str, int]

    def beyond(self, base: Holding) -> dict[str, int]:
        """Return what there is more of than in the base."""
        more = {name: count - base.counts.get(name, 0) for name, count in self.counts.items()}
        return {name: count for name, count in more.items() if count > 0}


def holdings(server: GunicornProcess, upstream: str) -> list[Holding]:
    """Ask until every worker of now has told what it holds."""
    found: dict[int, Holding] = {}
    deadline = time.monotonic() + SETTLE_SECONDS
    while set(workers_of(server.pid)) - set(found) and time.monotonic() < deadline:
        with urllib.request.urlopen(f"{server.url}/soak/held", timeout=SETTLE_SECONDS) as answer:
            told = json.load(answer)
        found[told["pid"]] = _holding(told, upstream)
    return [found[pid] for pid in workers_of(server.pid) if pid in found]


def _holding(told: Any, upstream: str) -> Holding:
    descriptors = _descriptors(told["pid"], str(urlsplit(upstream).port))
    descriptors[UPSTREAM] -= told["idle_connections"]
    return Holding(told["pid"], {**told["held"], **descriptors})


def _descriptors(pid: int, upstream_port: str) -> Counter[str]:
    counts = Counter({UPSTREAM: 0})
    remote = _remote_ports(pid)
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{name}")
        except OSError:
            continue
        counts[_kind(target, remote, upstream_port)] += 1
    return counts


def _kind(target: str, remote: dict[str, str], upstream_port: str) -> str:
    inode = re.sub(r"\D", "", target)
    if target.startswith("socket:"):
        return UPSTREAM if remote.get(inode) == upstream_port else "other sockets"
    return "files" if target.startswith("/") else re.sub(r"\d", "", target)  # such as "pipe:[]"


def _remote_ports(pid: int) -> dict[str, str]:
    """Return the remote port of each connection, by the inode of its socket."""
    with open(f"/proc/{pid}/net/tcp") as table:
        rows = [line.split() for line in table][1:]
    return {row[9]: str(int(row[2].rpartition(":")[2], 16)) for row in rows}


def base_of(server: GunicornProcess, upstream: str) -> Holding:
    """Return the most that any worker holds of each, before the soak; and nothing of what a stream holds."""
    found = holdings(server, upstream)
    names = {name for holding in found for name in holding.counts} - NONE_OF
    return Holding(0, {name: max(holding.counts.get(name, 0) for holding in found) for name in names})


def leaks(server: GunicornProcess, upstream: str, base: Holding) -> list[str]:
    """Wait until the workers hold no more than before; say what they still hold if they never do."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        beyond = {holding.pid: holding.beyond(base) for holding in holdings(server, upstream)}
        if not any(beyond.values()) or time.monotonic() > deadline:
            return [f"worker {pid} holds beside what it had: {more}" for pid, more in beyond.items() if more]
        time.sleep(0.2)


def lost_places(server: GunicornProcess, holds: Play, places: int) -> list[str]:
    """Take all places of all workers at once, and say if they are not as many as there should be."""
    expected = places * len(workers_of(server.pid))
    taken = missed = 0
    with ExitStack() as stack:
        while missed < MISSES:
            has_taken = _takes_a_place(stack, server, holds)
            taken, missed = (taken + 1, 0) if has_taken else (taken, missed + 1)
    return [] if taken == expected else [f"expected {expected} places, got {taken}"]


def _takes_a_place(stack: ExitStack, server: GunicornProcess, holds: Play) -> bool:
    got = Got(holds, CHAT, "takes_a_place")
    client = Client(server.url, most=len(b"HTTP/1.1 200"))
    stack.enter_context(client.socket)
    client.ask(got)
    client.read(got)
    status = int(client.seen.split()[1])
    if status != 200:
        client.socket.close()
    return status == 200
