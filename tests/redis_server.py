"""A real Redis (or Valkey) on a free port of 127.0.0.1: started, paused, killed and started again on the same port."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from typing import Any

try:
    from pytest import skip

    _Missing = skip.Exception
except ImportError:  # the bench starts one too
    _Missing = Exception

PROGRAMS = ("redis-server", "valkey-server")
FOLDERS = os.pathsep.join((os.environ.get("PATH", ""), "/usr/bin", "/usr/local/bin", "/usr/sbin"))
START_SECONDS = 20.0
"""How long it may take to its first answer, on a machine that is busy with others."""


class NoRedis(_Missing):
    """There is none on this machine; says what is missing. A test is skipped by it."""


class RedisServer:
    """A server of its own, from construction until `close()`. It keeps nothing on disk unless it is told to.

    Args:
        options: of its command line, `maxmemory="2mb"` for instance.

    Attributes:
        port: where it listens, also after a restart.
        url: what `open_store` takes.

    Raises:
        NoRedis: there is none.
    """

    def __init__(self, **options: str) -> None:
        if importlib.util.find_spec("redis") is None:
            raise NoRedis("the package redis is not installed")
        programs = [found for found in (shutil.which(name, path=FOLDERS) for name in PROGRAMS) if found]
        if not programs:
            raise NoRedis("needs redis-server (on Debian: apt-get install redis-server)")
        self.folder = tempfile.mkdtemp(prefix="redis-")
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        chosen = {"save": "", "appendonly": "no", "bind": "127.0.0.1", "dir": self.folder, **options}
        self._command = [programs[0], "--port", str(self.port)]
        for name, value in chosen.items():
            self._command += [f"--{name.replace('_', '-')}", value]
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def pid(self) -> int:
        assert self._process is not None, "it does not run"
        return self._process.pid

    def start(self) -> None:
        """Start it, again on the same port, and wait for its first answer."""
        assert self._process is None, "it runs"
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self._process = subprocess.Popen(
                self._command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                said = self.log()
                self.close()
                raise AssertionError(f"redis-server did not answer: {said}")
            time.sleep(0.02)

    def kill(self) -> None:
        """End it as a crash does; what it has not written to disk is gone."""
        assert self._process is not None, "it does not run"
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process = None

    def restart(self) -> None:
        """Kill it and start it again."""
        self.kill()
        self.start()

    def pause(self) -> None:
        """Stop its clock: it accepts, and answers nothing."""
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it run again after `pause`."""
        os.kill(self.pid, signal.SIGCONT)

    def ask(self, *command: Any) -> Any:
        """Give it a command, over a connection of its own; return the answer as bytes."""
        import redis

        with redis.Redis(port=self.port, socket_timeout=START_SECONDS) as client:
            return client.execute_command(*command)

    def log(self) -> str:
        """What it wrote so far."""
        with open(os.path.join(self.folder, "log"), encoding="utf-8", errors="replace") as file:
            return file.read()

    def close(self) -> None:
        """End it, and take its folder away."""
        if self._process is not None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _answers(self) -> bool:
        """Whether it answers at all: with a password it is a refusal; while it loads its data, LOADING."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1.0) as connection:
                connection.sendall(b"PING\r\n")
                answer = connection.recv(100)
                return answer.startswith((b"+PONG", b"-NOAUTH"))
        except OSError:
            return False


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
