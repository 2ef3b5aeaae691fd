"""The embedded model as a process: `python -m flaskstream.lab.model`, or `serve()` behind a command.

It prints one line, `flaskstream model listening on http://127.0.0.1:43210/v1`, when it listens, and
ends at SIGTERM, at SIGINT, or with its standard input: a pipe that its parent holds closes even when
the parent is killed, so the model never outlives who started it.
"""

from __future__ import annotations

import argparse
import os
import select
import signal
import ssl
import threading
from typing import Callable, Sequence

from flaskstream.lab.model.script import Script
from flaskstream.lab.model.server import ModelServer

ANNOUNCEMENT = "flaskstream model listening on "
"""What stands before the URL on the one line that is printed."""

_ENDING_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_SHUTDOWN_POLL_SECONDS = 0.1


def print_announcement(url: str) -> None:
    """Print the one line, flushed: whoever started this process waits for it on a pipe."""
    print(f"{ANNOUNCEMENT}{url}", flush=True)  # noqa: T201 - this is the command's output


def serve(
    host: str = "127.0.0.1",
    port: int = 0,
    default: Script = Script(),  # noqa: B008 - a frozen value
    announce: Callable[[str], None] = print_announcement,
    until_stdin_closes: bool = False,
    tls: ssl.SSLContext | None = None,
) -> None:
    """Run the model until SIGTERM or SIGINT. In the main thread only: it takes these signals meanwhile.

    Args:
        host: the address to listen on.
        port: 0: a free one.
        default: the script of every request whose model carries no query string; its name is replaced.
        announce: called once with the base URL, when it listens.
        until_stdin_closes: end as well when the standard input reaches its end.
        tls: listen with TLS, with this certificate.

    Raises:
        OSError: the address cannot be listened on.
    """
    with ModelServer((host, port), default, tls) as server:
        thread = threading.Thread(target=server.serve_forever, args=(_SHUTDOWN_POLL_SECONDS,), daemon=True)
        thread.start()
        try:
            _run_until_told_to_end(lambda: announce(server.url), until_stdin_closes)
        finally:
            server.shutdown()
            thread.join()


def tls_of(certfile: str | None, keyfile: str | None = None) -> ssl.SSLContext | None:
    """Return how to listen with this certificate; `None` for none.

    Args:
        certfile: the certificate in PEM, and its key too, unless that has a file of its own.
        keyfile: the key.

    Raises:
        ValueError: the files are no certificate and its key, or there is a key alone.
    """
    if not certfile:
        if keyfile:
            raise ValueError("expected a certificate for the key, got the key alone")
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certfile, keyfile)
    except OSError as error:
        raise ValueError(f"expected a certificate and its key in {certfile!r}, got {error}") from error
    return context


def _run_until_told_to_end(started: Callable[[], None], until_stdin_closes: bool) -> None:
    ended, end = os.pipe()
    os.set_blocking(end, False)
    # A handler may run between any two instructions: a byte in a pipe takes no lock.
    before = {number: signal.signal(number, lambda *_: _write_byte(end)) for number in _ENDING_SIGNALS}
    try:
        started()
        _wait_for_end(ended, 0 if until_stdin_closes else None)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(ended)
        os.close(end)


def _write_byte(descriptor: int) -> None:
    try:
        os.write(descriptor, b"\0")
    except BlockingIOError:
        pass  # it is full of bytes that say the same


def _wait_for_end(ended: int, stdin: int | None) -> None:
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    if stdin is not None:
        poll.register(stdin, select.POLLIN)
    while True:
        ready = dict(poll.poll())
        if ended in ready:
            return
        if ready[0] & select.POLLNVAL or not os.read(0, 65536):
            return


def main(argv: Sequence[str] | None = None) -> None:
    """Run the model from the command line."""
    parser = argparse.ArgumentParser(prog="flaskstream.lab.model", description="The embedded model server.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=0, help="port to listen on; 0: a free one")
    parser.add_argument("--model", default="tick", help='the script of requests without one: "tick?tokens=9"')
    parser.add_argument("--until-stdin-closes", action="store_true", help="end with the standard input")
    parser.add_argument("--certfile", help="listen with TLS, with this certificate and its key")
    options = parser.parse_args(argv)
    try:
        default = Script.parse(options.model)
    except ValueError as error:
        parser.error(f"--model: {error}")
    try:
        tls = tls_of(options.certfile)
    except ValueError as error:
        parser.error(f"--certfile: {error}")
    serve(options.host, options.port, default, until_stdin_closes=options.until_stdin_closes, tls=tls)
