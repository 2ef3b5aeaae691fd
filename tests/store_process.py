"""Another process with a store of its own: what a test tells it to do, it does there.

Each line that it is sent is an expression; it answers with the repr of what that is, or of what that raised.
"""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
from typing import Any

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def sleep_until(moment: float) -> bool:
    """Wait for a moment of `time.monotonic`, which the processes of a machine share."""
    import time

    while time.monotonic() < moment:
        time.sleep(0.0005)
    return True


def serve(url: str) -> None:
    import time

    from flaskstream.stores import open_store, protocol

    names = {**vars(protocol), "open_store": open_store, "store": open_store(url), "time": time}
    names["sleep_until"] = sleep_until
    print("ready", flush=True)  # noqa: T201 - the answer
    for line in sys.stdin:
        try:
            answer = eval(line, names)
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        print(repr(answer), flush=True)  # noqa: T201 - the answer
    names["store"].close()  # type: ignore[attr-defined]


class StoreProcess:
    """A process that has opened the store of this URL. Under gevent if asked."""

    def __init__(self, url: str, gevent: bool = False) -> None:
        code = "from gevent import monkey; monkey.patch_all(); " if gevent else ""
        code += f"import sys; sys.path[:0] = [{ROOT!r}, {os.path.dirname(__file__)!r}]; "
        code += f"import store_process; store_process.serve({url!r})"
        self.process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, universal_newlines=True
        )
        assert self._line() == "ready"

    def tell(self, expression: str) -> None:
        """Have it do this; `answer` waits for what comes of it."""
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(expression.split()) + "\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        line = self._line()
        try:
            return ast.literal_eval(line)
        except (ValueError, SyntaxError):
            return line

    def ask(self, expression: str) -> Any:
        self.tell(expression)
        return self.answer()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def __enter__(self) -> StoreProcess:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        self.process.wait(timeout=30)
        self.process.stdout.close()

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")
