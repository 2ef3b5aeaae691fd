"""The servers: a model, gunicorn in both modes, and the desk. The broken one is started anew for each mistake."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
from dataclasses import dataclass
from functools import partial
from typing import Callable, Iterator

from flaskstream.app import PREFIX
from flaskstream.lab.bench import settings_of
from flaskstream.lab.gunicorn import GunicornProcess, listening, url_of
from flaskstream.lab.plan import Plan
from flaskstream.lab.processes import PACKAGE_ROOT, ModelProcess, ProcessFailed
from flaskstream.lab.side_by_side.choices import choices, first_choice
from flaskstream.lab.side_by_side.desk import Desk, create_desk
from flaskstream.lab.side_by_side.lines import Lines
from flaskstream.testing import serve

_APPS = "flaskstream.lab.side_by_side.apps"


@dataclass(frozen=True)
class SideBySide:
    """What runs.

    Attributes:
        page: where the page is.
        fixed, broken, desk: the origins of the servers.
        model: the base URL of what answers.
        process: the server of the fixed mode.
    """

    page: str
    fixed: str
    broken: str
    desk: str
    model: str
    process: GunicornProcess

    def wait(self) -> None:
        """Wait until the server of the fixed mode ends, which it does not do by itself.

        Raises:
            ProcessFailed: it did.
        """
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait_until_it_ends(seconds=1)
                raise ProcessFailed(f"gunicorn: expected it to run, but it has ended; stderr: {self.process.errors()}")


@contextlib.contextmanager
def side_by_side(plan: Plan, progress: Callable[[str], None] = lambda text: None) -> Iterator[SideBySide]:
    """Have all of it run while the block does.

    Args:
        plan: which mistakes there are to choose from, what the model says, or whom to ask in its place.
        progress: called with a few words about what is being done.

    Raises:
        ProcessFailed: a server did not start.
    """
    with contextlib.ExitStack() as stack:
        progress("starting gunicorn: fixed, broken")
        model = None if plan.upstream else stack.enter_context(ModelProcess())
        upstream = model.url if model else str(plan.upstream)
        at_fixed, at_broken = stack.enter_context(listening()), stack.enter_context(listening())
        fixed, broken = url_of(at_fixed), url_of(at_broken)
        lines = Lines()
        broken_server = BrokenServer(partial(_broken, plan, upstream, at_broken, fixed, lines))
        desk = Desk(plan, choices(plan), model, lines, broken_server, fixed, broken + PREFIX)
        desk_server = stack.enter_context(serve(create_desk(desk)))
        stack.callback(lines.close)  # these two first, or the desk has requests that cannot end
        stack.callback(broken_server.close)
        process = stack.enter_context(
            GunicornProcess(
                {**settings_of(plan, upstream, "fixed"), "store": "memory:"},
                app=f"{_APPS}:fixed({broken!r}, {desk_server.url!r})",
                folder=PACKAGE_ROOT,
                listener=at_fixed,
                heard=partial(lines.add, "fixed"),
            )
        )
        broken_server.choose(first_choice(plan))
        process.wait_until_it_answers()
        yield SideBySide(f"{fixed}{PREFIX}/compare", fixed, broken, desk_server.url, upstream, process)


def _broken(
    plan: Plan, upstream: str, listener: socket.socket, page: str, lines: Lines, choice: str
) -> GunicornProcess:
    return GunicornProcess(
        settings_of(plan, upstream, choice),
        app=f"{_APPS}:readable({page!r})",
        folder=PACKAGE_ROOT,
        listener=listener,
        heard=partial(lines.add, "broken"),
    )


class BrokenServer:
    """The server of the broken mode, which is another process for each choice, at the same address.

    Args:
        start: starts it with a choice.
    """

    def __init__(self, start: Callable[[str], GunicornProcess]) -> None:
        self._start = start
        self._process: GunicornProcess | None = None
        self._choosing = threading.Lock()
        self._is_closed = False
        self.choice = ""

    def choose(self, choice: str) -> None:
        """Have this choice served; a server that has it already is left alone.

        Raises:
            ProcessFailed: it does not start, or all of this is being ended.
        """
        with self._choosing:
            if choice == self.choice:
                return
            self.choice = ""
            if self._process is not None:
                self._process.close()  # in order: what its print has not flushed comes out now
            self._process = process = self._start(choice)
            if self._is_closed:
                process.kill()
            process.wait_until_it_answers()
            self.choice = choice

    def close(self) -> None:
        """End it, also in the middle of a choice."""
        self._is_closed = True
        if self._process is not None:
            self._process.kill()  # whoever waits for it to answer, or to end, goes on
        with self._choosing:
            if self._process is not None:
                self._process.kill()
