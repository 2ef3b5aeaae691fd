"""A subject that runs, from its start until `close()`."""

from __future__ import annotations

import socket
import tempfile
import time
from typing import Mapping
from urllib.request import urlopen

from bench.processes import START_SECONDS, Failed, Program
from bench.subjects import Subject, Where


class Server:
    """A running subject.

    Attributes:
        subject: what runs.
        url: what is asked.
        pid: of its first process.
    """

    def __init__(self, subject: Subject, upstream: str, environment: Mapping[str, str] | None = None) -> None:
        self.subject = subject
        self._folder = tempfile.TemporaryDirectory(prefix="bench-")
        where = Where(_free_port(), upstream, self._folder.name)
        self._origin = f"http://127.0.0.1:{where.port}"
        self.url = self._origin + subject.path
        try:
            command = subject.command(where)
            given = {"BENCH_UPSTREAM": upstream, **(subject.environment or {}), **(environment or {})}
            self._program = Program(command, given)
        except BaseException:
            self._folder.cleanup()
            raise
        self.pid = self._program.pid

    def wait_until_it_answers(self) -> None:
        """Wait for its first answer. Raises `Failed`."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                with urlopen(self._origin + "/", timeout=START_SECONDS) as answer:
                    answer.read()
                return
            except OSError as error:
                if self._program.process.poll() is not None or time.monotonic() > deadline:
                    raise Failed(f"it does not answer ({error}); its log: {self.log()}") from error
                time.sleep(0.05)

    def at(self, path: str) -> str:
        """Return the address of something else there."""
        return self._origin + path

    def log(self) -> str:
        """What it wrote so far."""
        return self._program.log()

    def close(self) -> None:
        self._program.close()
        self._folder.cleanup()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
