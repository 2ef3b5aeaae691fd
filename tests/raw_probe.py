"""A probe that plays what a test says, on a real socket: for hops that no program here can be made to be.

with RawProbe(lambda ask: ask.tick(0)) as url: ...
"""

from __future__ import annotations

import contextlib
import json
import socket
import socketserver
import threading
import time
from typing import Any, Callable
from urllib.parse import parse_qs, urlsplit

from raw_upstream import FINAL_CHUNK, PATIENCE, chunk, head


class Asked:
    """One request to it.

    Attributes:
        count, interval: of the ticks, as asked for; the interval in seconds.
        age: seconds since it came.
    """

    def __init__(self, connection: socket.socket, target: str) -> None:
        self._connection = connection
        self._query = parse_qs(urlsplit(target).query)
        self._came_at = time.monotonic()
        self.count = int(self._query["count"][0])
        self.interval = float(self._query["interval"][0]) / 1000

    @property
    def age(self) -> float:
        return time.monotonic() - self._came_at

    def sleep_until(self, age: float) -> None:
        time.sleep(max(0.0, age - self.age))

    def tick(self, number: int, sent_offset_ms: float = 0.0) -> None:
        """Send a tick when it is due; its stamp may be another."""
        self.sleep_until(number * self.interval)
        stamps = {"due_ms": number * self.interval * 1000, "sent_ms": self.age * 1000 + sent_offset_ms}
        self._connection.sendall(chunk(f"data: {json.dumps({'n': number, **stamps})}\n\n".encode()))

    def end(self) -> None:
        """End as a whole stream does."""
        self._connection.sendall(chunk(b"event: done\ndata: {}\n\n") + FINAL_CHUNK)

    def wait_until_left(self) -> None:
        self._connection.recv(1)


class RawProbe:
    """Listens within its block. Whatever does not ask for ticks is refused; the head of the others is sent at once.

    Args:
        play: called for each request; when it returns the connection is closed.
    """

    def __init__(self, play: Callable[[Asked], Any]) -> None:
        self._play = play

    def __enter__(self) -> str:
        self._server = _Server(("127.0.0.1", 0), _handler_of(self._play))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        return f"http://127.0.0.1:{self._server.server_address[1]}/probe"

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join(PATIENCE)
        self._server.server_close()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 64


def _handler_of(play: Callable[[Asked], Any]) -> type[socketserver.StreamRequestHandler]:
    class Handler(socketserver.StreamRequestHandler):
        timeout = PATIENCE
        disable_nagle_algorithm = True

        def handle(self) -> None:
            target = self.rfile.readline().split()[1].decode()
            with contextlib.suppress(OSError):  # the client goes when it likes
                if "count=" in target:
                    self.connection.sendall(head("chunked"))
                    play(Asked(self.connection, target))
                else:
                    self.connection.sendall(head("close", status=404))

    return Handler
