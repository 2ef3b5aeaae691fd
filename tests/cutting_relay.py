"""A hop that breaks connections at given bytes, as networks do: nothing is said to anybody."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from typing import Callable

PIECE = 65536
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: on, for no time


class CuttingRelay:
    """A relay in front of a server on this machine, from construction until `close`.

    Args:
        url: of the server.
        lasts: called for each connection, returns how many bytes of answers it lets through; `None`: all.

    Attributes:
        url: of the relay.
        cut: how many connections it has broken.
    """

    def __init__(self, url: str, lasts: Callable[[], int | None]) -> None:
        self._port = int(url.rpartition(":")[2])
        self._lasts = lasts
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.cut = 0
        self._start(self._accept)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in list(self._open):
            self._break(one)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                self._start(lambda client=client: self._serve(client))

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port)) as server:
            self._open |= {client, server}
            upwards = self._start(lambda: self._pass(client, server, None))
            if not self._pass(server, client, self._lasts()):
                self.cut += 1
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self._open -= {client, server}
            for one in (client, server):
                self._break(one)
            upwards.join()

    @staticmethod
    def _pass(source: socket.socket, sink: socket.socket, most: int | None) -> bool:
        """Pass on what comes until its end; `False`: there was more than that."""
        with contextlib.suppress(OSError):
            while True:
                piece = source.recv(PIECE)
                if not piece:
                    sink.shutdown(socket.SHUT_WR)
                    return True
                if most is not None and len(piece) > most:
                    sink.sendall(piece[:most])
                    return False
                sink.sendall(piece)
                most = None if most is None else most - len(piece)
        return True

    @staticmethod
    def _break(one: socket.socket) -> None:
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)

    @staticmethod
    def _start(target: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=target, daemon=True)
        thread.start()
        return thread
