"""The programs of the bench as child processes, which end with it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
from typing import Iterator, Mapping, Sequence

from flaskstream.lab.processes import PACKAGE_ROOT, first_line

START_SECONDS = 60.0
"""How long a server may take to answer: LiteLLM imports for ten seconds on a quiet machine."""

_PARENT_DIED = 1  # PR_SET_PDEATHSIG of prctl(2)


class Failed(RuntimeError):
    """A program ended at its start, or does not answer; says what it wrote."""


class Program:
    """A child process in a group of its own, which ends with this one.

    Args:
        command: what is run.
        environment: added to that of this process.
        reads: whether its standard output is a pipe, to be read here.
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None, reads: bool = False
    ) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
        inherited = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if reads else self._log,
            stderr=self._log,
            env={**inherited, **(environment or {})},
            cwd=PACKAGE_ROOT,
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )

    @property
    def pid(self) -> int:
        """Of the process that was started; its workers descend from it."""
        return self.process.pid

    def log(self) -> str:
        """What it wrote so far, the end of it."""
        size = os.fstat(self._log.fileno()).st_size
        return os.pread(self._log.fileno(), 4000, max(0, size - 4000)).decode("utf-8", "replace")

    def first_line(self) -> str:
        """Return the first line of its output. Raises `Failed`: there is none."""
        line = first_line(self.process, START_SECONDS)
        if not line:
            raise Failed(f"expected a line from {self.process.args!r}, got none; its log: {self.log()}")
        return line

    def close(self) -> None:
        """End it at once, with all its workers: nobody waits for an answer any more. Any number of times."""
        if self._log.closed:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self._log.close()

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_NOT_INHERITED = ("PYTHONUNBUFFERED", "GUNICORN_CMD_ARGS", "WEB_CONCURRENCY", "GUNICORN_FD", "PORT")
_libc = ctypes.CDLL(None)


def _end_with_parent() -> None:
    _libc.prctl(_PARENT_DIED, signal.SIGTERM)


@contextlib.contextmanager
def upstream() -> Iterator[tuple[str, int]]:
    """Run the paced upstream; yields its base URL and its process id."""
    with Program([sys.executable, "-m", "bench.paced_upstream"], reads=True) as program:
        yield program.first_line(), program.pid
