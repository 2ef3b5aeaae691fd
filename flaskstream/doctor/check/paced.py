"""A tiny upstream on this machine that tells who hands over what is there, and who waits for more.

It sends the first piece of a body and waits. Who has got it leaves, and that is the proof: nothing is measured in
milliseconds. To who has not left by then the rest is sent.
"""

from __future__ import annotations

import http.server
import socketserver
import threading
from typing import Any, Mapping

PATIENCE_SECONDS = 0.2
"""How long a piece may be on its way through a client library: a healthy one takes less than a millisecond."""

PIECE = b"data: hello\n\n"

_PIECES = 4

_LENGTH = _PIECES * len(PIECE)

FRAMINGS: Mapping[str, Mapping[str, str]] = {
    "chunked": {"Transfer-Encoding": "chunked"},
    "close": {"Connection": "close"},
    "length": {"Content-Length": str(_LENGTH)},
}
"""How a body says where it ends (RFC 9112 6), and the header that says so: `close` is by the end of the connection."""


class PacedUpstream:
    """It listens while the block of `with` runs.

    Attributes:
        url: where; behind it stand the name of a way to read and a framing: `/ours/chunked`.
    """

    def __init__(self) -> None:
        self._prompt: dict[tuple[str, str], bool] = {}
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.prompt = self._prompt
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def lines(self) -> list[dict[str, Any]]:
        """Return what was seen so far, as lines of an observation: which way was prompt in which framing."""
        return [
            {"kind": "reading", "way": way, "framing": framing, "prompt": prompt}
            for (way, framing), prompt in sorted(self._prompt.items())
        ]

    def __enter__(self) -> PacedUpstream:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    prompt: dict[tuple[str, str], bool]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client that left in the middle of something has left."""


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        _, way, framing = self.path.split("/")
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        for header in FRAMINGS[framing].items():
            self.send_header(*header)
        self.end_headers()
        self._send(framing, PIECE)
        has_left = self._has_left()
        self.server.prompt[way, framing] = has_left or self.server.prompt.get((way, framing), False)
        if not has_left:
            for _ in range(_PIECES - 1):
                self._send(framing, PIECE)
            self.wfile.write(b"0\r\n\r\n" if framing == "chunked" else b"")

    do_POST = do_GET

    def _send(self, framing: str, piece: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece) if framing == "chunked" else piece)

    def _has_left(self) -> bool:
        self.connection.settimeout(PATIENCE_SECONDS)
        try:
            return not self.connection.recv(1)
        except ConnectionError:
            return True
        except OSError:  # in time it has not
            return False
        finally:
            self.connection.settimeout(None)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged: what was seen is asked for."""
