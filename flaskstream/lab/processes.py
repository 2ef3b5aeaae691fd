"""Servers as child processes: started, waited for by what they print, and surely ended."""

from __future__ import annotations

import json
import os
import select
import ssl
import subprocess
import sys
import tempfile
import time
from http.client import HTTPConnection, HTTPSConnection
from types import TracebackType
from typing import IO, Any
from urllib.parse import urlsplit

from flaskstream.lab.model.command import ANNOUNCEMENT
from flaskstream.lab.model.script import Script

START_SECONDS = 30.0
"""How long a child may take to listen: a Python start on a machine that is busy with others."""

END_SECONDS = 5.0
"""How long a child may take to end when told, before it is killed."""

ANSWER_SECONDS = 30.0
"""How long the model may take to tell what it was asked."""

PACKAGE_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
"""Where the package lies. A child that serves the package runs there: `python -m` looks into its working directory
first, and in a user's one a file may be called `queue.py`."""


class ProcessFailed(RuntimeError):
    """A child process died at its start, or never came to listen; says what it wrote on its standard error."""


class ModelProcess:
    """The embedded model in its own process, from construction until `close()`.

    It ends with this process too, however that ends: its standard input is a pipe held here.

    Args:
        default: the script of requests whose model carries none.
        port: 0: a free one.
        certfile: listen with TLS: a file with a certificate, which vouches for itself, and its key.

    Raises:
        ProcessFailed: it does not listen.
    """

    def __init__(self, default: Script | None = None, port: int = 0, certfile: str | None = None) -> None:
        model = (default or Script()).model
        command = [sys.executable, "-m", "flaskstream.lab.model", "--until-stdin-closes"]
        command += ["--certfile", os.path.abspath(certfile)] if certfile else []
        self._certfile = certfile
        # A pipe that nobody reads would stop the child. Closed in close().
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [*command, "--port", str(port), "--model", model],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env=environment(),
            cwd=PACKAGE_ROOT,
            start_new_session=True,  # Ctrl-C reaches the parent alone, who ends its children in order
        )
        try:
            self.url = self._announced_url()
        except BaseException:
            self.close()
            raise

    def _announced_url(self) -> str:
        line = first_line(self._process, START_SECONDS)
        if not line.startswith(ANNOUNCEMENT):
            raise ProcessFailed(f"the model: expected it to listen, got {line!r}; stderr: {self.errors()!r}")
        return line[len(ANNOUNCEMENT) :]

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def errors(self) -> str:
        """What it wrote on its standard error so far; nothing, while all is well."""
        # Read without moving: the child writes at the same file position.
        size = os.fstat(self._stderr.fileno()).st_size
        return os.pread(self._stderr.fileno(), size, 0).decode("utf-8", "replace")

    def requests(self) -> list[dict[str, Any]]:
        """The log of what it was asked, oldest first: the fields of `flaskstream.lab.model.log.Request`."""
        found: list[dict[str, Any]] = self._ask("GET")
        return found

    def forget(self) -> None:
        """Clear its log."""
        self._ask("DELETE")

    def _ask(self, method: str) -> Any:
        connection = self._connection()
        try:
            connection.request(method, "/requests")
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()

    def _connection(self) -> HTTPConnection:
        where = urlsplit(self.url)
        host = str(where.hostname)
        if not self._certfile:
            return HTTPConnection(host, where.port, timeout=ANSWER_SECONDS)
        trusting = ssl.create_default_context(cafile=self._certfile)
        return HTTPSConnection(host, where.port, timeout=ANSWER_SECONDS, context=trusting)

    def close(self) -> None:
        """End it; more than once is fine."""
        end(self._process)
        self._stderr.close()

    def __enter__(self) -> ModelProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def first_line(process: subprocess.Popen[bytes], seconds: float) -> str:
    """Return the first line that a child prints, without its end; what there is of it, when the child ends
    or the time is over."""
    assert process.stdout is not None
    line = b""
    deadline = time.monotonic() + seconds
    poll = select.poll()
    poll.register(process.stdout, select.POLLIN)
    while not line.endswith(b"\n") and poll.poll(max(deadline - time.monotonic(), 0) * 1000):
        data = os.read(process.stdout.fileno(), 65536)
        if not data:
            break
        line += data
    return line.decode("utf-8", "replace").rstrip("\n")


def end(process: subprocess.Popen[bytes]) -> None:
    """End a child: close its standard input, then SIGTERM, then SIGKILL; returns when it is gone."""
    if process.stdin is not None:
        process.stdin.close()
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def environment() -> dict[str, str]:
    """This environment, in which the child finds the same flaskstream as this process."""
    path = [PACKAGE_ROOT, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
