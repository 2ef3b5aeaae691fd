"""Who runs on which core, and who takes a part of one away."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Collection, Iterator

from bench.processes import Program


@contextlib.contextmanager
def on_cores(cores: Collection[int]) -> Iterator[None]:
    """Have this process, and those that it starts within the block, run on these cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextlib.contextmanager
def spinning(core: int, count: int) -> Iterator[None]:
    """Have so many programs compute on this core: whoever else is there gets one part of `count + 1`."""
    with contextlib.ExitStack() as stack, on_cores({core}):
        for _ in range(count):  # in a session each: the kernel may share by sessions
            stack.enter_context(Program([sys.executable, "-c", "while True: pass"]))
        yield
