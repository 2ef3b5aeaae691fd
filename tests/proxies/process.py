"""What all proxies of the tests have in common: a port, a folder, a program in the foreground, and an end."""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from typing import Mapping, Sequence

import pytest

START_SECONDS = 20.0
"""How long a proxy may take to its first answer, on a machine that is busy with others."""

PROGRAM_FOLDERS = (os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin", "/usr/local/bin")

AGAIN_SECONDS = 0.02


class ProxyFailed(RuntimeError):
    """It did not answer, or does not know its configuration. Says what it wrote."""


class ProxyProcess:
    """A proxy on a free port of 127.0.0.1, from construction until `close()`. All that it writes is in its own folder.

    A kind of proxy is a subclass: what it is called, its files, and its command. Where the program can take over a
    socket, the port is bound here and inherited, so nobody else can take it in between; the others are told its number.

    Args:
        config: what stands in the kind's configuration, with `{listen}` for the address and port, `{port}` for the
            port and `{folder}` for the folder.

    Attributes:
        port: where it listens.
        folder: where it may write.
    """

    names: tuple[str, ...] = ()
    """Of the program; the first that is there."""
    package = ""
    """Of Debian, that has it."""
    inherits = True
    """It takes over the listening socket."""

    def __init__(self, config: str = "") -> None:
        self.program = self._find_program()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"{self.names[0]}-"))
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            self.port = int(listener.getsockname()[1])
            self.write(self._filled(config))
            if self.inherits:
                listener.listen(128)
            else:
                listener.close()
            descriptor = listener.fileno()
            self._process = subprocess.Popen(
                self.command(descriptor),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=self._errors,
                stderr=self._errors,
                env={**os.environ, **self.environment(descriptor)},
                pass_fds=[descriptor] if self.inherits else [],
                start_new_session=True,
            )
        try:
            self._wait_until_it_answers()
        except BaseException:
            self.close()
            raise

    def write(self, config: str) -> None:
        """Write its files into the folder."""
        raise NotImplementedError

    def command(self, descriptor: int) -> Sequence[str]:
        """Return what runs it in the foreground."""
        raise NotImplementedError

    def environment(self, descriptor: int) -> Mapping[str, str]:
        """Return variables for it, beside those of this process."""
        return {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def errors(self) -> str:
        """What it wrote so far: its log."""
        return os.pread(self._errors.fileno(), os.fstat(self._errors.fileno()).st_size, 0).decode("utf-8", "replace")

    def close(self) -> None:
        """End it at once, with its workers."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it has ended by itself
        self._process.wait()
        self._errors.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _find_program(self) -> str:
        for name in self.names:
            found = shutil.which(name, path=os.pathsep.join(PROGRAM_FOLDERS))
            if found:
                return found
        pytest.skip(f"needs {self.names[0]} (on Debian: apt-get install {self.package})")

    def _filled(self, config: str) -> str:
        """Put in the places: braces mean something in most of these files, so nothing else is touched."""
        places = {"listen": f"127.0.0.1:{self.port}", "port": str(self.port), "folder": str(self.folder)}
        for name, value in places.items():
            config = config.replace("{" + name + "}", value)
        return config

    def _wait_until_it_answers(self) -> None:
        """Wait for any answer: behind TLS it is an error, since none is spoken here."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            problem = self._ask()
            if problem is None:
                return
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise ProxyFailed(f"{self.names[0]}: expected an answer, got {problem!r}; it said: {self.errors()}")
            time.sleep(AGAIN_SECONDS)

    def _ask(self) -> Exception | None:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=START_SECONDS) as connection:
                connection.sendall(b"GET /is-it-there HTTP/1.0\r\n\r\n")
                return None if connection.recv(1) else EOFError("it closed the connection")
        except OSError as error:
            return error

    def __enter__(self) -> ProxyProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
