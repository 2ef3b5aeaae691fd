"""Clients that keep coming back to recorded streams: many in one thread, each a small state machine on a raw socket.

A `Client` says at the end what it has put together, and what it saw that should never have been; a `Crowd` drives
them, and whatever else has to happen meanwhile.
"""

from __future__ import annotations

import heapq
import itertools
import json
import os
import random
import secrets
import selectors
import socket
import struct
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Callable, Sequence
from urllib.parse import quote, urlsplit

from flaskstream.doctor.wire import Body, Head, Part, ResponseParser, find_header
from flaskstream.lab.model.script import Script
from flaskstream.resume.ids import parse_event_id
from flaskstream.sse import Decoder, Event

CHAT = "/stream/chat"
EVENT_BYTES = 70
"""About what one event takes on the wire, with its id and its chunk."""
HEAD_BYTES = 600
"""About what a response's head takes."""
LONGEST_PAUSE = 0.2
"""Seconds until a client comes back."""
SHOWN = 10
"""Of the clients that something was wrong with."""

SEED = int(os.environ.get("RESUME_SEED") or secrets.randbits(32))
"""Of all that is made up. It is told where something was wrong."""

SENT_AWAY, REFUSED, CUT, LOST = "restart", "refused", "cut", "producer_lost"
"""What a client may meet where servers go: it is asked to come back, finds nobody who answers, is cut off without a
word, and is told that its answer will have no end."""

DEPLOYS = frozenset((SENT_AWAY, REFUSED))
CRASHES = DEPLOYS | {CUT, LOST}


@dataclass(frozen=True)
class Answer:
    """One answer that several clients want, under one key: the model says it once."""

    script: Script
    key: str

    @property
    def body(self) -> bytes:
        return json.dumps({"q": "hello", "model": self.script.model}).encode()

    @property
    def query(self) -> str:
        return f"q=hello&model={quote(self.script.model)}"


@dataclass(eq=False)
class Client:
    """One client of one answer: it drops its connection so many times, at random bytes, and comes back some way.

    Attributes:
        answer: what it wants.
        rng: makes up what it does.
        drops: how many times it still leaves.
        excused: which of the troubles above may come.
        most_tokens: that it reads before it leaves; `None`: maybe nearly all.
        end: the event, or the code of the error, that ended its answer; "": it has no end yet.
        happened: how often it did or met something.
        trail: what it did and met, each with the number of the event that it had then.
        wrong: what must not be.
    """

    answer: Answer
    rng: random.Random
    drops: int
    excused: frozenset[str] = frozenset()
    most_tokens: int | None = None
    end: str = ""
    happened: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    trail: list[str] = field(default_factory=list)
    text: str = ""
    stream_id: str = ""
    is_over: bool = False
    _decoder: Decoder = field(default_factory=Decoder)
    _number: int = 0
    _begins: bool = False
    _was_sent_away: bool = False

    # What it asks

    def request(self) -> bytes:
        """Return the next request, by one of the ways that are open."""
        way = self.rng.choice(self._ways())
        self.happened[way] += 1
        self.trail.append(f"{way} ({self._number})")
        self._was_sent_away = False
        position = ("Last-Event-ID", self._decoder.last_event_id)
        key = ("Idempotency-Key", self.answer.key)
        self._begins = way == "asks again from the start"  # until the first event is here it has what it had
        if self._begins:
            return _request("POST", CHAT, self.answer.body, key)
        if way == "asks again from where it was":
            return _request("POST", CHAT, self.answer.body, key, position)
        if way == "comes back to the route":
            return _request("GET", f"{CHAT}?{self.answer.query}", b"", position)
        path = f"/stream/streams/{self.stream_id}"
        if way == "goes on by the query":
            return _request("GET", f"{path}?last_event_id={position[1]}")
        return _request("GET", path, b"", position) if position[1] else _request("GET", path)

    def _ways(self) -> list[str]:
        has_position = bool(self._decoder.last_event_id)
        if self.end:
            return ["goes on", "comes back to the route"]  # and finds nothing more
        ways = [] if has_position and self.stream_id else ["asks again from the start"]
        ways += ["goes on", "goes on"] if self.stream_id else []
        ways += ["goes on by the query"] if has_position and self.stream_id else []
        ways += ["asks again from where it was", "comes back to the route"] if has_position else []
        return [*ways, "asks again from the start"]

    def most_bytes(self) -> int | None:
        """Return how many bytes it reads of the next response; `None`: all."""
        if self.end or not self.drops:
            return None
        self.drops -= 1
        whole = HEAD_BYTES + EVENT_BYTES * (self.most_tokens or self.answer.script.tokens)
        return self.rng.choice(
            (self.rng.randint(0, HEAD_BYTES), self.rng.randint(0, whole), self.rng.randint(0, whole))
        )

    # What it gets

    def take_head(self, head: Head) -> None:
        found = find_header(head.headers, "X-Stream-Id") or ""
        if head.status == 200 and not found:
            self.wrong.append("a stream without an id")
        if self.stream_id and found and found != self.stream_id and not self._may_begin_anew():
            self.wrong.append(f"another stream: {found} instead of {self.stream_id}")
        self.stream_id = found or self.stream_id

    def _may_begin_anew(self) -> bool:
        """The answer failed before it said anything: who asks again begins another one."""
        return LOST in self.excused and not self.text

    def take_body(self, data: bytes) -> None:
        for event in self._decoder.feed(data):
            self._take(event)

    def _take(self, event: Event) -> None:
        if self.end or self._was_sent_away:
            self.wrong.append(f"after the end: {event}")
        position = parse_event_id(event.id)
        if position is None:
            self._take_of_delivery(event)
            return
        if self._begins:
            self.text, self._number, self._begins = "", 0, False
        if position.number != (self._number if event.event == SENT_AWAY else self._number + 1):
            self.wrong.append(f"after number {self._number}: {event}")
        self._number = position.number
        if event.event == SENT_AWAY:
            self._was_sent_away = True
        elif event.event == "message":
            self.text += event.json()["t"]
        else:
            self._ends(event.json()["code"] if event.event == "error" else event.event)

    def _take_of_delivery(self, event: Event) -> None:
        """Take an event that is not recorded."""
        has_nothing = self._begins or not self._number
        if event.event == SENT_AWAY:
            self._was_sent_away = True
        elif has_nothing and event.event == "error" and event.json()["code"] == LOST:
            self._is_given_up()
        else:
            self.wrong.append(f"without an id: {event}")

    def _is_given_up(self) -> None:
        """The answer was lost before it said anything: who asks again begins another one under the same key."""
        self._meets(LOST)
        self._ends(LOST)
        self.is_over = True

    def _ends(self, end: str) -> None:
        self.end = end
        self.trail.append(f"{end} ({self._number})")

    def take_refusal(self, status: int, body: bytes) -> None:
        """Take an answer that is no stream."""
        if status == 204:
            if not self.end:
                self.wrong.append("nothing more, and no end")
            self.is_over = True
            return
        code = json.loads(body)["error"]["code"] if body.startswith(b"{") else f"{status} {body[:100]!r}"
        if code == LOST:
            self._is_given_up()
        elif code == "shutting_down" or status == 502:  # 502: of a proxy
            self._meets(REFUSED)
        else:
            self.wrong.append(f"refused: {code}")
            self.is_over = True

    def take_end(self) -> None:
        """A stream is over, be it with a proper end: a proxy may have made that."""
        self._decoder.close()
        if self.end:
            self.is_over = self.is_over or self.rng.random() < 0.7  # or it looks whether there is nothing more
        else:
            self._meets(SENT_AWAY if self._was_sent_away else CUT)

    def take_silence(self) -> None:
        """The connection is over, and there was no answer."""
        self._meets(REFUSED)

    def has_left(self) -> None:
        """It has dropped its connection."""
        self.happened["dropped"] += 1
        self.trail.append(f"dropped ({self._number})")
        self._decoder.close()

    def _meets(self, trouble: str) -> None:
        self.happened[trouble] += 1
        self.trail.append(f"{trouble} ({self._number})")
        if trouble not in self.excused:
            self.wrong.append(f"unexpected: {trouble}")

    # What came of it

    def verdict(self) -> str:
        """Say what was wrong with all that; "": nothing."""
        wrong = list(self.wrong)
        if not self.is_over:
            wrong.append("it never came to an end")
        if self.end == "done":
            if self.text != self.answer.script.text:
                wrong.append(f"another text: {self.text!r}")
        elif self.end == LOST and LOST in self.excused:
            if not self.answer.script.text.startswith(self.text):
                wrong.append(f"no beginning of the text: {self.text!r}")
        elif self.is_over:
            wrong.append(f"ended by {self.end!r}")
        return "; ".join(wrong[:3]) and f"{self.answer.script.name}: {'; '.join(wrong[:3])} ({', '.join(self.trail)})"


def _request(method: str, path: str, body: bytes = b"", *headers: tuple[str, str]) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: a", "Connection: close", *map(": ".join, headers)]
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


class _Connection:
    """One connection of one client, from `open` until it is over."""

    def __init__(self, crowd: Crowd, client: Client) -> None:
        self._crowd = crowd
        self._client = client
        self._left = client.most_bytes()
        self._request = client.request()
        self._parser = ResponseParser()
        self._status = 0
        self._refusal = b""
        self._is_whole = False
        self._socket = socket.socket()
        self._socket.setblocking(False)
        self._socket.connect_ex(crowd.address)
        crowd.watch(self._socket, selectors.EVENT_WRITE, self._send)

    def _send(self) -> None:
        try:
            sent = self._socket.send(self._request)
        except OSError:
            self._over()
            return
        self._request = self._request[sent:]
        if not self._request:
            self._crowd.watch(self._socket, selectors.EVENT_READ, self._receive)
            self._leave_if_it_wants()

    def _receive(self) -> None:
        try:
            data = self._socket.recv(65536 if self._left is None else min(self._left, 65536))
        except OSError:
            data = b""
        for part in self._parser.feed(data) if data else self._parser.close():
            self._take(part)
        if not data or self._is_whole:
            self._over()
        elif self._left is not None:
            self._left -= len(data)
            self._leave_if_it_wants()

    def _take(self, part: Part) -> None:
        if isinstance(part, Head):
            self._status = part.status
            self._client.take_head(part)
        elif isinstance(part, Body):
            if self._status == 200:
                self._client.take_body(part.data)
            else:
                self._refusal += part.data
        else:
            self._is_whole = not part.error

    def _leave_if_it_wants(self) -> None:
        if self._left != 0:
            return
        if self._client.rng.random() < 0.5:  # else by a FIN, unless something is unread
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._close()
        self._client.has_left()
        self._crowd.comes_back(self._client)

    def _over(self) -> None:
        self._close()
        if self._status == 200:
            self._client.take_end()
        elif self._is_whole:
            self._client.take_refusal(self._status, self._refusal)
        else:
            self._client.take_silence()
        if not self._client.is_over:
            self._crowd.comes_back(self._client)

    def _close(self) -> None:
        self._crowd.forget(self._socket)
        self._socket.close()


class Crowd:
    """All clients of a server, in this thread.

    Args:
        url: of the server, or of the proxy in front of several.
        clients: who come, one after the other, within `arrival` seconds.
    """

    def __init__(self, url: str, clients: Sequence[Client], arrival: float, rng: random.Random) -> None:
        where = urlsplit(url)
        self.address = (str(where.hostname), int(where.port or 80))
        self._clients = clients
        self._rng = rng
        self._selector = selectors.DefaultSelector()
        self._due: list[tuple[float, int, Callable[[], Any]]] = []
        self._order = itertools.count()
        for client in clients:
            self.at(rng.uniform(0, arrival), self._comer(client))

    def at(self, seconds: float, call: Callable[[], Any]) -> None:
        """Have something happen after so many seconds."""
        heapq.heappush(self._due, (time.monotonic() + seconds, next(self._order), call))

    def run(self, seconds: float, is_all: Callable[[], bool] = lambda: True) -> None:
        """Have everything happen, until all clients have their end and that is all; or for so long."""
        deadline = time.monotonic() + seconds
        try:
            while not (all(client.is_over for client in self._clients) and is_all()) and time.monotonic() < deadline:
                while self._due and self._due[0][0] <= time.monotonic():
                    heapq.heappop(self._due)[2]()
                pause = self._due[0][0] - time.monotonic() if self._due else 0.1
                for key, _ in self._selector.select(max(0.0, min(0.1, pause))):
                    key.data()
        finally:
            for key in list(self._selector.get_map().values()):
                key.fileobj.close()  # type: ignore[union-attr]
            self._selector.close()

    def comes_back(self, client: Client) -> None:
        """Have a client connect again: at once, or after a while."""
        self.at(self._rng.choice((0.0, self._rng.uniform(0, LONGEST_PAUSE))), self._comer(client))

    def _comer(self, client: Client) -> Callable[[], Any]:
        return lambda: _Connection(self, client)

    def watch(self, connection: socket.socket, events: int, call: Callable[[], None]) -> None:
        """Have this called when the connection is ready for these, and for no others."""
        self.forget(connection)
        self._selector.register(connection, events, call)

    def forget(self, connection: socket.socket) -> None:
        """Call nobody for it."""
        if connection in self._selector.get_map():
            self._selector.unregister(connection)


def rng_of(test: str) -> random.Random:
    """Return what makes up what happens in this test."""
    return random.Random(f"{SEED} {test}")


def check(clients: Sequence[Client], model: Any, may_repeat: bool = False) -> Counter[str]:
    """Find nothing wrong, and sum up what all of them did and met.

    Args:
        clients: whose run is over.
        model: which they asked; it remembers more requests than one run makes.
        may_repeat: an answer whose producer was lost before it said anything may have been asked for again.
    """
    wrong = [verdict for verdict in (client.verdict() for client in clients) if verdict]
    calls = Counter(asked["model"] for asked in model.requests())
    for script in {client.answer.key: client.answer.script for client in clients}.values():
        if calls[script.model] != 1 and not may_repeat:
            wrong.append(f"{script.name}: the model was asked {calls[script.model]} times")
    summed = sum((client.happened for client in clients), Counter())
    said = "\n".join(wrong[:SHOWN])
    assert not wrong, f"RESUME_SEED={SEED}: {len(wrong)} were wrong, in all of this: {dict(summed)}\n{said}"
    return summed


def our_tracebacks(server: Any) -> list[str]:
    """Return the lines of its log around each one in which this package stands.

    gunicorn has its own, for a connection that comes just before it closes its listener.
    """
    lines = server.errors().splitlines()
    places = [n for n, line in enumerate(lines) if line.strip().startswith("File ") and "/flaskstream/" in line]
    return [line for n in places[:SHOWN] for line in lines[max(0, n - 4) : n + 4]]
