"""What the commands share: a line of progress, signals that let them tidy up, failures, what the terminal can show."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
from typing import Callable, Iterator, NoReturn

import click

EXIT_NOT_MEASURED = 3
"""A server did not start, or what was found could not be written: there is nothing to tell."""
EXIT_SIGNAL = 128
"""And the number of the signal that ended the command, as a shell would say it: 130 for Ctrl-C."""
EXIT_INTERRUPTED = EXIT_SIGNAL + signal.SIGINT
"""Of Ctrl-C."""


def writable_page(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Refuse, before anything is measured, a page that cannot be written."""
    if value is not None and not os.access(os.path.dirname(value) or ".", os.W_OK):
        raise click.BadParameter(f"expected a file in a folder that can be written to, got {value!r}")
    return value


def write_page(path: str, text: str) -> None:
    """Write the page, and say so on stderr."""
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        fail(f"--html: expected a file that can be written, got {error}", EXIT_NOT_MEASURED)
    click.echo(f"The page: {path}", err=True)


class Progress:
    """A line on stderr that says what is being done: rewritten on a terminal, one for each step elsewhere.

    Args:
        is_quiet: nothing is said.
    """

    def __init__(self, is_quiet: bool = False) -> None:
        self._is_quiet = is_quiet
        self._is_terminal = not is_quiet and sys.stderr is not None and sys.stderr.isatty()

    def __call__(self, text: str) -> None:
        if self._is_quiet:
            return
        if self._is_terminal:
            self._write(f"\r\x1b[K{text[: terminal_width() - 1]}")
        else:
            self._write(f"{text}\n")

    def clear(self) -> None:
        """Take the line away."""
        if self._is_terminal:
            self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):  # who does not read of it does not stop it
            click.echo(text, err=True, nl=False)


class Interrupted(BaseException):
    """A signal that ends the command, after what it started."""


@contextlib.contextmanager
def signals_raise(came: list[int]) -> Iterator[None]:
    """Have a signal that would end this process raise `Interrupted` instead, so that it can tidy up.

    The numbers of those that came are added to the list: the exception itself may not get through, for what it
    interrupts may raise another in its place.

    A signal that is ignored stays so: whoever started this under `nohup`, or in the background, has said so.
    """

    def interrupt(number: int, frame: object) -> NoReturn:
        came.append(number)
        raise Interrupted

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def tidying_up(clear: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Have what the block started end with it at a signal too; then say so, and exit as a shell would say it.

    Args:
        clear: called first, where the block fails.
    """
    came: list[int] = []
    try:
        with signals_raise(came):
            yield
    except BaseException:
        clear()
        if not came:
            raise
    if came:  # whatever became of the exception that the signal raised, somewhere in the middle
        name = signal.Signals(came[0]).name
        fail(f"interrupted by {name}; all that was started has ended", EXIT_SIGNAL + came[0])


def fail(message: str, code: int) -> NoReturn:
    click.echo(f"Error: {message}", err=True)
    sys.exit(code)


def say(text: str, nl: bool = True) -> None:
    """Print at once. A full disk, or a reader that has gone, ends the command with an error."""
    if sys.stdout is None:  # it was closed from the start
        fail("stdout: expected a place to write to, got none", EXIT_NOT_MEASURED)
    try:
        click.echo(text, nl=nl)  # which flushes
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python fails once more when it ends
        fail(f"stdout: expected a place to write to, got {error}", EXIT_NOT_MEASURED)


def wants_color() -> bool:
    return sys.stdout is not None and sys.stdout.isatty() and not os.environ.get("NO_COLOR")  # https://no-color.org


def terminal_width() -> int:
    return max(shutil.get_terminal_size((80, 24)).columns, 40)


def can_unicode() -> bool:
    return (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "") == "utf8"
