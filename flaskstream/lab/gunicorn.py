"""gunicorn as a child process, with the kit's own settings and with an ear on what it prints."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from http.client import HTTPConnection, HTTPException
from typing import IO, Callable, Iterator, Mapping, Sequence
from urllib.parse import urlsplit

from flaskstream.lab.processes import END_SECONDS, START_SECONDS, ProcessFailed, environment
from flaskstream.settings import PREFIX

_NOT_INHERITED = ("PYTHONUNBUFFERED", "GUNICORN_CMD_ARGS", "WEB_CONCURRENCY", "GUNICORN_FD")
"""What would change the server behind our back; the first hides every print that is not flushed."""

_GUNICORN = (sys.executable, "-m", "flaskstream.lab.leash", "gunicorn")

_DEBUG_LINE = re.compile(rb"(\S+)Z flaskstream stream=(\S+) event=(\d+) ")
_BACKLOG = 128


@dataclass(frozen=True)
class DebugLine:
    """One debug line as it came out of the server's stdout.

    Attributes:
        printed_at: the time that the line itself gives, in seconds since the epoch.
        came_at: when it came out of the pipe, on the same clock.
        stream_id: of the stream.
        event: its number in the stream, from 1.
    """

    printed_at: float
    came_at: float
    stream_id: str
    event: int


class GunicornProcess:
    """A gunicorn on a free port of 127.0.0.1, from construction until `close()`.

    The port is bound here and inherited, so nobody else can take it in between, and it refuses connections as soon as
    gunicorn is gone. It ends with this process too, however that ends: see `flaskstream.lab.leash`.

    Args:
        settings: `FLASKSTREAM_` variables by their names without the prefix; those of this process are not inherited,
            and there is no store unless one is named.
        arguments: for gunicorn, after its own.
        app: what it serves.
        config: where its settings are.
        folder: where it runs.
        listener: a socket that listens and stays the caller's, so that another can follow at the same address.
        heard: called with each line that comes out of its stdout, and when (seconds since the epoch), by a thread;
            `None`: they are kept.
    """

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
        app: str = "flaskstream.app:create_app()",
        config: str = "python:flaskstream.gunicorn_conf",
        folder: str | None = None,
        listener: socket.socket | None = None,
        heard: Callable[[float, bytes], None] | None = None,
    ) -> None:
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
        with contextlib.ExitStack() as stack:
            listener = listener or stack.enter_context(listening())
            self.url = url_of(listener)
            bind = ("--bind", f"fd://{listener.fileno()}")
            self._process = subprocess.Popen(
                [*_GUNICORN, "-c", config, *bind, "--workers", "1", *arguments, app],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                env=_environment(settings or {}),
                cwd=folder,
                pass_fds=[listener.fileno()],
                start_new_session=True,  # Ctrl-C reaches the parent alone, who ends its children in order
            )
        self._log = ""
        self._releasing = threading.Lock()  # one thread may close it while another, interrupted, kills it
        self._lines: list[tuple[float, bytes]] = []
        self._heard = heard or (lambda came_at, line: self._lines.append((came_at, line)))
        self._listening = threading.Thread(target=self._listen, daemon=True)
        self._listening.start()

    @property
    def pid(self) -> int:
        """The process id of the master."""
        return self._process.pid

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._heard(time.time(), line)

    def wait_until_it_answers(self, path: str = "/") -> None:
        """Wait for the first answer of a worker.

        Raises:
            ProcessFailed: it ended, or does not answer; says what it wrote on its standard error.
        """
        where = urlsplit(self.url)
        connection = HTTPConnection(str(where.hostname), where.port, timeout=START_SECONDS)
        try:
            connection.request("GET", path)
            self._wait_until_readable(connection.sock)
            connection.getresponse().read()
        except (OSError, HTTPException) as error:
            raise ProcessFailed(f"gunicorn: expected an answer, got {error!r}; stderr: {self.errors()}") from error
        finally:
            connection.close()

    def _wait_until_readable(self, answer: socket.socket) -> None:
        poll, deadline = select.poll(), time.monotonic() + START_SECONDS
        poll.register(answer, select.POLLIN)
        while not poll.poll(100):  # a listener that is the caller's does not say that gunicorn has ended
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise ConnectionError("it has ended" if self._process.poll() is not None else "it does not answer")

    def errors(self) -> str:
        """What it wrote on its standard error so far, its log."""
        if self._stderr.closed:
            return self._log
        size = os.fstat(self._stderr.fileno()).st_size
        return os.pread(self._stderr.fileno(), size, 0).decode("utf-8", "replace")

    def stdout_lines(self) -> tuple[tuple[float, bytes], ...]:
        """What came out of its stdout so far: when (seconds since the epoch), and the line."""
        return tuple(self._lines)

    def debug_lines(self) -> tuple[DebugLine, ...]:
        """The debug lines that came out so far. Some come only when the process ends: look again after `close()`."""
        found = (debug_line(came_at, line) for came_at, line in self.stdout_lines())
        return tuple(line for line in found if line)

    def wait_until_it_ends(self, seconds: float) -> None:
        """Wait for the end of the master. Raises `subprocess.TimeoutExpired`: it goes on."""
        self._process.wait(seconds)

    def terminate(self) -> None:
        """Tell it to end, and do not wait."""
        if self._process.poll() is None:
            self._process.terminate()

    def close(self) -> None:
        """End it with all its workers, and read its stdout to the end; more than once is fine."""
        try:
            self.terminate()
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        finally:
            self.kill()

    def kill(self) -> None:
        """End it with all its workers at once, whatever they are doing, and read its stdout to the end."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)  # also workers that outlived their master
        except ProcessLookupError:
            pass
        with self._releasing:
            self._release()

    def _release(self) -> None:
        self._process.wait()
        self._listening.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        if not self._stderr.closed:
            self._log = self.errors()
            self._stderr.close()

    def __enter__(self) -> GunicornProcess:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:  # Ctrl-C, for example: nobody wants to wait for answers that nobody reads
            self.kill()


@contextlib.contextmanager
def listening() -> Iterator[socket.socket]:
    """A socket that listens on a free port of 127.0.0.1 while the block runs."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(_BACKLOG)
        yield listener


def url_of(listener: socket.socket) -> str:
    """Return the origin of who is served there."""
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


def debug_line(came_at: float, line: bytes) -> DebugLine | None:
    """Read a line that came out at that time, in seconds since the epoch; `None`: it is no debug line."""
    match = _DEBUG_LINE.match(line)
    if match is None:
        return None
    return DebugLine(_epoch(match[1]), came_at, match[2].decode(), int(match[3]))


def _environment(settings: Mapping[str, str]) -> dict[str, str]:
    inherited = {
        name: value
        for name, value in environment().items()
        if name not in _NOT_INHERITED and not name.startswith(PREFIX)
    }
    named = {"store": "", **settings}
    return {**inherited, **{PREFIX + name.upper(): value for name, value in named.items()}}


def _epoch(text: bytes) -> float:
    moment = datetime.strptime(text.decode(), "%Y-%m-%dT%H:%M:%S.%f")
    return moment.replace(tzinfo=timezone.utc).timestamp()
