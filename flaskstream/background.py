"""Run something beside the request: in a thread, or in a greenlet where threads are greenlets."""

from __future__ import annotations

import threading
from typing import Any, Callable

from flaskstream.interrupt import Interrupts
from flaskstream.native import is_patched


def start(
    target: Callable[[], None], may_interrupt: Callable[[], bool], name: str = "flaskstream-pump"
) -> Callable[[], Any]:
    """Run the target in a thread or greenlet; return what interrupts its waiting, if it still may be then.

    Args:
        target: what is run.
        may_interrupt: tells, when it is to be interrupted, whether it is where it may be. Asked for a greenlet, which
            is interrupted wherever it waits; a thread is so only where it waits for an upstream, or for a `Bell`.
        name: of the thread.
    """
    if not is_patched():
        interrupts = Interrupts()
        thread = threading.Thread(target=interrupts.run, args=(target,), name=name, daemon=True)
        thread.start()
        return interrupts.interrupt
    import gevent

    greenlet = gevent.spawn(target)
    loop = gevent.get_hub().loop

    def interrupt() -> None:
        if may_interrupt():
            greenlet.throw(GeneratorExit)

    # In the hub's own turn and not at once: whoever closes does not wait, and may be that very greenlet.
    return lambda: loop.run_callback(interrupt)
