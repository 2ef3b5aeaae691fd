"""Run a module as a program that ends with its parent: `python -m flaskstream.lab.leash gunicorn ...`.

A parent that is killed has no time to end its children. So their standard input is a pipe that the parent holds, and
the kernel sends a signal when its other end is gone. The program itself need not know: it gets a SIGTERM.
"""

from __future__ import annotations

import fcntl
import os
import runpy
import select
import signal
import sys
from typing import Any


def end_with_standard_input() -> None:
    """Have this process sent a SIGTERM when its standard input, a pipe, ends or is written to.

    Where the system does not tell, it is not told. Linux, macOS and the BSDs do.
    """
    signal.signal(signal.SIGIO, _terminate)
    try:
        fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())  # not its workers, who would get it too as a group
        fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC)
    except OSError:
        return
    poll = select.poll()
    poll.register(0, select.POLLIN)
    if poll.poll(0):  # it ended before anybody listened
        _terminate()


def _terminate(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    end_with_standard_input()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
