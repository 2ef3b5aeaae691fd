"""Print a line for each event as it leaves, in a way that never hurts the stream.

Each line is whole and flushed, for a log collector hands on lines and not bytes, and a pipe is block-buffered unless
somebody flushes. It is printed by the thread that sends the event, so a line is out before its event is, and a
`kill -9` loses none. Before it is printed, stdout is asked whether it can take a line now: where its reader has
stalled, the line is dropped and counted, and the stream goes on.
"""

from __future__ import annotations

import errno
import fcntl
import io
import logging
import os
import select
import struct
import sys
import termios
import threading
import time
from datetime import datetime, timezone
from typing import Callable, TextIO

log = logging.getLogger(__name__)

MAX_LINE_BYTES = 512
"""A longer line is cut: POSIX keeps writes of up to 512 bytes to a pipe in one piece on every system."""

MAX_LINES_PER_SECOND = 500
"""Above this rate lines are left out and counted: nobody reads that fast, and printing costs the stream time."""

_PIPE_SPARE_BYTES = 16 * 1024
"""Room that must be left in the pipe, so that several workers that ask at the same instant all find some."""


class DebugPrinter:
    """Print lines like `2026-11-29T15:46:42.123456Z flaskstream stream=ab12 event=3 bytes=18 wire=data: {"t":" a"}`.

    What stands after `wire=` is the event as it leaves, as one line of ASCII. `not_printed=7` before it says that seven
    lines were left out. One for a process; safe for its threads. Times are UTC.

    Args:
        out: where to print; `None`: whatever `sys.stdout` is at the time.
        clock: seconds since the epoch.
    """

    def __init__(self, out: TextIO | None = None, clock: Callable[[], float] = time.time) -> None:
        self._out = out
        self._clock = clock
        self._lock = threading.Lock()
        self._lost = 0
        self._second = 0
        self._in_second = 0
        self._broken = False

    def __call__(self, stream_id: str, number: int, wire: bytes) -> None:
        """Print the line of one event.

        Args:
            stream_id: tells the lines of one stream from those of another.
            number: of the event in its stream, from 1.
            wire: the event's bytes as they leave.
        """
        with self._lock:
            if self._broken:
                return
            try:
                self._print_or_count(stream_id, number, wire)
            except (OSError, ValueError, AttributeError) as error:  # its reader is gone, it is closed, it is no file
                self._broken = True
                log.warning("stdout cannot be written to (%r); no more debug lines from this process", error)

    def _print_or_count(self, stream_id: str, number: int, wire: bytes) -> None:
        now = self._clock()
        if self._may_print(now):
            self._print(self._line(now, stream_id, number, wire))
            self._lost = 0
        else:
            self._lost += 1

    def _may_print(self, now: float) -> bool:
        if int(now) != self._second:
            self._second, self._in_second = int(now), 0
        self._in_second += 1
        return self._in_second <= MAX_LINES_PER_SECOND and _has_room(self._stdout())

    def _line(self, now: float, stream_id: str, number: int, wire: bytes) -> str:
        time_of_day = datetime.fromtimestamp(now, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        lost = f" not_printed={self._lost}" if self._lost else ""
        start = f"{time_of_day} flaskstream stream={stream_id} event={number} bytes={len(wire)}{lost} wire="
        return start + _printable(wire.rstrip(b"\n"), MAX_LINE_BYTES - len(start) - len("\n"))

    def _print(self, line: str) -> None:
        # The line end is part of the text: print() would write it apart, and another thread's line between them.
        print(line + "\n", end="", file=self._stdout(), flush=True)

    def _stdout(self) -> TextIO | None:
        return self._out or sys.stdout


def _printable(data: bytes, room: int) -> str:
    """Return the data as one line of ASCII: no line end and no terminal control gets through."""
    text = data[: room + 1].decode("utf-8", "replace")
    escaped = text.encode("unicode_escape").decode("ascii")  # never shorter than the data
    return escaped if len(escaped) <= room else escaped[: room - 3] + "..."


def _has_room(out: TextIO | None) -> bool:
    """Tell whether a line can be written without waiting. What is no real file, such as a StringIO, always has room.

    To ask before writing also keeps a line that nobody will read out of the buffer of `sys.stdout`, which Python
    would try to write, and complain, when the process ends.

    Raises:
        OSError: its reader is gone.
        ValueError: it is closed, or there is none.
    """
    if out is None:
        raise ValueError("this process was started without a stdout")
    try:
        descriptor = out.fileno()
    except (io.UnsupportedOperation, AttributeError):
        return True
    poll = _original_poll()()
    poll.register(descriptor, select.POLLOUT)
    seen = dict(poll.poll(0)).get(descriptor, 0)
    if seen & select.POLLNVAL:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    if seen & (select.POLLERR | select.POLLHUP):
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
    return bool(seen & select.POLLOUT) and _pipe_has_spare_room(descriptor)


def _pipe_has_spare_room(descriptor: int) -> bool:
    get_size = getattr(fcntl, "F_GETPIPE_SZ", 1032)  # the name is new in Python 3.10; Linux has had the call
    try:
        size = fcntl.fcntl(descriptor, get_size)
        (unread,) = struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, b"\0" * 4))
    except OSError:
        return True  # no pipe, or no Linux: the poll has answered
    return bool(size - unread >= min(_PIPE_SPARE_BYTES, size // 2))


def _original_poll() -> Callable[[], select.poll]:
    """Return the system's own poll: gevent's would hand the descriptor to the hub, which refuses files."""
    if "gevent.monkey" not in sys.modules:
        return select.poll
    from gevent.monkey import get_original

    return get_original("select", "poll")  # type: ignore[no-any-return]
