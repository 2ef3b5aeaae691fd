"""Many clients of a stream in one thread with one epoll: `python -m bench.load URL --streams 300 --pid server=123 ...`.

It opens the streams one after another, waits until all of them are warm, and measures for some seconds; what comes
before and after does not count. The processor time of the server, of the upstream and of its own is read at the same
two moments as the tokens are counted. It prints one JSON object, see `Measured`.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import select
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import Dict, Mapping, Sequence
from urllib.parse import SplitResult, urlsplit

from bench import cpu, descriptors
from bench.client import Stream
from bench.percentile import percentile

FIRST_SECONDS = 10.0
"""How long all streams may take to have a token, beyond the ramp, before the measuring begins all the same."""

MAX_FAILURES = 100
"""After which a stream that has failed is not followed by another."""

_Times = Dict[str, Dict[int, float]]
"""Seconds of processor time, by the name and by the process."""


@dataclass
class Measured:
    """What was measured between the two moments.

    Attributes:
        streams: how many were open at the end of the warm-up.
        seconds: between the moments.
        tokens, bytes, reads: that came meanwhile; `reads` is how many times something with a token was read.
        p50_ms, p99_ms, max_ms: from the upstream's sending of a token to its being read here.
        stream_p99_ms: the p99 of each stream, sorted: its least, its median, its most.
        fairness: how many times the p99 of the slowest stream is that of the fastest.
        starved: streams without a token in all that time.
        unanswered: those of them that have never had one.
        first_ms: from each request to its first token, of the streams opened meanwhile (p50, p99), or of all of them.
        finished: answers that came to their end meanwhile.
        failed: streams that ended too soon, or were answered by an error.
        problem: what the first of them said.
        cpu: seconds of the processes, by the names that `--pid` gave, and of "load", this one.
        processes: how many processes of each took some of it.
        others: seconds that everybody else on this machine took meanwhile: the noise.
        memory: bytes of each at the end of the measuring, `{"pss": ..., "rss": ...}`.
    """

    streams: int = 0
    seconds: float = 0.0
    tokens: int = 0
    bytes: int = 0
    reads: int = 0
    p50_ms: float | None = None
    p99_ms: float | None = None
    max_ms: float | None = None
    stream_p99_ms: list[float] = field(default_factory=list)
    fairness: float | None = None
    starved: int = 0
    unanswered: int = 0
    first_ms: list[float] = field(default_factory=list)
    finished: int = 0
    failed: int = 0
    problem: str = ""
    cpu: dict[str, float] = field(default_factory=dict)
    processes: dict[str, int] = field(default_factory=dict)
    others: float = 0.0
    memory: dict[str, dict[str, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Terms:
    """How is measured.

    Attributes:
        streams: open at once.
        ramp: seconds within which they are opened.
        warm_up: seconds for which all of them run before the measuring.
        seconds: for which is measured.
        repeat: a stream that has ended is followed by another.
    """

    streams: int
    ramp: float
    warm_up: float
    seconds: float
    repeat: bool = False


class Load:
    """So many streams from one address.

    Args:
        url: what is asked.
        body: of the request, JSON.
        terms: how.
        pids: the processes whose time is taken, by name; with all that descend from them.
    """

    def __init__(self, url: str, body: bytes, terms: Terms, pids: Mapping[str, int]) -> None:
        where = urlsplit(url)
        self._where = (str(where.hostname), where.port or 80)
        self._request = _request(where, body)
        self._terms = terms
        self._pids = {**pids, "load": os.getpid()}
        self._epoll = select.epoll()
        self._streams: dict[int, Stream] = {}
        self._opened = self._begun = 0
        self._measures = False
        self._firsts: list[int] = []
        self._gone: list[Stream] = []
        self.found = Measured()

    def run(self) -> Measured:
        """Open the streams, wait until they are warm, and measure."""
        began = time.monotonic()
        self._until(began + self._terms.ramp, ramp_from=began)
        self._open_until(self._terms.streams)
        if not self._terms.repeat:
            self._until_all_have_begun()
        self._until(time.monotonic() + self._terms.warm_up)
        self._measure()
        return self.found

    def _until_all_have_begun(self) -> None:
        give_up = time.monotonic() + FIRST_SECONDS
        while self._begun + self.found.failed < self._terms.streams and time.monotonic() < give_up:
            self._until(time.monotonic() + 0.05)

    def _measure(self) -> None:
        self.found.streams = len(self._streams)
        self.found.finished = 0
        if self._terms.repeat:
            self._firsts.clear()
        self._measures = True
        all_before, before, from_ = cpu.machine_seconds(), self._cpu(), time.monotonic()
        self._until(from_ + self._terms.seconds)
        after, all_after = self._cpu(), cpu.machine_seconds()
        self.found.seconds = time.monotonic() - from_
        self._measures = False
        self._sum_up_processes(before, after, all_after - all_before)
        self._sum_up_tokens()

    def _sum_up_processes(self, before: _Times, after: _Times, everybody: float) -> None:
        found, least = self.found, 0.01 * self.found.seconds
        for name, pid in self._pids.items():
            found.cpu[name] = cpu.spent(before[name], after[name])
            own = [seconds - before[name].get(one, 0.0) for one, seconds in after[name].items()]
            found.processes[name] = sum(seconds > least for seconds in own)
            found.memory[name] = cpu.memory(pid)
        found.others = max(0.0, everybody - sum(found.cpu.values()))

    def _cpu(self) -> _Times:
        return {name: cpu.seconds_of_tree(pid) for name, pid in self._pids.items()}

    def _sum_up_tokens(self) -> None:
        found = self.found
        every = [stream.latencies for stream in (*self._streams.values(), *self._gone)]
        latencies = sorted(value for stream in every for value in stream)
        found.tokens = len(latencies)
        if latencies:
            found.p50_ms, found.p99_ms, found.max_ms = (_ms(percentile(latencies, share)) for share in (0.5, 0.99, 1.0))
            p99s = sorted(percentile(sorted(stream), 0.99) for stream in every if stream)
            found.stream_p99_ms = [_ms(percentile(p99s, share)) for share in (0.0, 0.5, 1.0)]
            found.fairness = round(p99s[-1] / max(p99s[0], 1), 2)
        found.starved = sum(not stream.latencies for stream in self._streams.values())
        found.unanswered = sum(not stream.first_at for stream in self._streams.values())
        if self._firsts:
            found.first_ms = [_ms(percentile(sorted(self._firsts), share)) for share in (0.5, 0.99)]

    def _until(self, deadline: float, ramp_from: float | None = None) -> None:
        while True:
            now = time.monotonic()
            if now >= deadline:
                return
            wait = deadline - now
            if ramp_from is not None:
                due = math.ceil((now - ramp_from) / self._terms.ramp * self._terms.streams)
                self._open_until(min(due, self._terms.streams))
                wait = min(wait, self._terms.ramp / self._terms.streams)
            for descriptor, what in self._epoll.poll(wait):
                stream = self._streams.get(descriptor)
                if stream is not None:
                    self._serve(descriptor, stream, what)

    def _open_until(self, count: int) -> None:
        while self._opened < count:
            self._opened += 1
            self._open()

    def _open(self) -> None:
        stream = Stream(self._where)
        self._streams[stream.socket.fileno()] = stream
        self._epoll.register(stream.socket, select.EPOLLOUT)

    def _serve(self, descriptor: int, stream: Stream, what: int) -> None:
        if what & select.EPOLLOUT and not stream.asked_at:
            stream.asked_at = time.monotonic_ns()
            try:
                stream.socket.send(self._request)
            except OSError as error:
                self._end(descriptor, stream, repr(error))
                return
            self._epoll.modify(descriptor, select.EPOLLIN)
            return
        try:
            data = stream.socket.recv(65536)
        except BlockingIOError:
            return
        except OSError as error:
            self._end(descriptor, stream, repr(error))
            return
        now = time.monotonic_ns()
        self._take(descriptor, stream, data, now)

    def _take(self, descriptor: int, stream: Stream, data: bytes, now: int) -> None:
        if not data:
            self._end(descriptor, stream, "the connection ended")
            return
        try:
            stamps = stream.stamps(data)
        except ValueError as error:
            self._end(descriptor, stream, str(error))
            return
        if self._measures:
            self.found.bytes += len(data)
        if stamps:
            if not stream.first_at:
                stream.first_at = now
                self._begun += 1
                self._firsts.append(now - stream.asked_at)
            if self._measures:
                self.found.reads += 1
                stream.latencies += [now - int(stamp) for stamp in stamps]
        if stream.body.is_over:
            self._end(descriptor, stream, "")

    def _end(self, descriptor: int, stream: Stream, problem: str) -> None:
        """Take leave of a stream; a problem is none where its end was told."""
        self._epoll.unregister(descriptor)
        del self._streams[descriptor]
        stream.socket.close()
        if problem:
            self.found.failed += 1
            self.found.problem = self.found.problem or problem
        else:
            self.found.finished += 1
        if stream.latencies:
            self._gone.append(stream)
        if self._terms.repeat and self.found.failed < MAX_FAILURES:
            self._open()

    def close(self) -> None:
        for stream in self._streams.values():
            stream.socket.close()
        self._epoll.close()


def _request(where: SplitResult, body: bytes) -> bytes:
    path = where.path + (f"?{where.query}" if where.query else "")
    lines = (
        f"{'POST' if body else 'GET'} {path} HTTP/1.1",
        f"Host: {where.netloc}",
        "Accept: text/event-stream",
        "Authorization: Bearer sk-bench",
        "Connection: close",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    )
    return "\r\n".join((*lines, "", "")).encode() + body


def _ms(nanoseconds: int) -> float:
    return round(nanoseconds / 1e6, 3)


def _named_pid(text: str) -> tuple[str, int]:
    name, _, pid = text.partition("=")
    return name, int(pid)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.load")
    parser.add_argument("url")
    parser.add_argument("--body", default="", help="JSON; without one it is a GET")
    parser.add_argument("--streams", type=int, default=100)
    parser.add_argument("--ramp", type=float, default=2.0, help="seconds within which they are opened")
    parser.add_argument("--warm-up", type=float, default=1.0, help="seconds")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--repeat", action="store_true", help="a stream that has ended is followed by another")
    parser.add_argument("--pid", type=_named_pid, action="append", default=[], help="NAME=PID, whose time is taken")
    given = parser.parse_args(arguments)
    gc.disable()
    descriptors.allow_all()
    terms = Terms(given.streams, given.ramp, given.warm_up, given.seconds, given.repeat)
    load = Load(given.url, given.body.encode(), terms, dict(given.pid))
    try:
        found = load.run()
    finally:
        load.close()
    sys.stdout.write(json.dumps(asdict(found)) + "\n")


if __name__ == "__main__":
    main()
