"""Finds every process that a test has caused, those without a parent too, by a mark in their environment."""

from __future__ import annotations

import os
import time
import uuid
from pathlib import Path

PATIENCE = 20.0
"""Seconds that nothing here takes, unless the test fails."""


class Mark:
    """Name it in the environment of the first process (`environment`), and its children inherit it."""

    def __init__(self) -> None:
        self._mark = f"MARKED_BY_A_TEST={uuid.uuid4().hex}"

    @property
    def environment(self) -> dict[str, str]:
        return dict([self._mark.split("=")])

    def commands(self, containing: str = "") -> dict[int, str]:
        """The command lines of the marked processes that live, by process id."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if self._mark.encode() in (folder / "environ").read_bytes().split(b"\0"):
                    found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                pass  # it ended meanwhile, or belongs to somebody else
        return {pid: command for pid, command in found.items() if containing in command and command}

    def signal(self, pid: int, number: int) -> None:
        """Send a signal to a process that bears the mark: to no other, whatever became of the id."""
        assert pid in self.commands()
        os.kill(pid, number)

    def wait_until_gone(self, containing: str = "") -> None:
        wait_until(lambda: not self.commands(containing), lambda: f"still there: {self.commands(containing)}")


def wait_until(look, say=lambda: "it never came", seconds: float = PATIENCE) -> None:
    """Wait until `look()` is true."""
    deadline = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < deadline, say()
        time.sleep(0.01)
