"""Memory that forked processes share: what one writes the others read, and whose row it is ends with its process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from flaskstream.shared_rows import SharedRows

IN_A_CHILD = """
import os, signal
{before}
from flaskstream.shared_rows import SharedRows

shared = SharedRows("test", 3, 2)
ready, told = os.pipe()
child = os.fork()
if not child:
    shared.lock(0), shared.try_lock(1)
    shared.row(1)[0] = 2**64 - 1
    os.write(told, b"x")
    signal.pause()
os.read(ready, 1)
print(list(shared.row(1)), list(shared.row(0)), list(shared.row(2)))
print(shared.try_lock(0), shared.try_lock(1), shared.try_lock(1, exclusive=False), shared.try_lock(2))
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
print(shared.try_lock(0), shared.try_lock(1), list(shared.row(1)))
"""


@pytest.mark.parametrize("before", ["", "vars(os).pop('memfd_create', None)"], ids=["memory", "file"])
def test_what_a_process_wrote_stays_and_its_lock_goes_with_it(before):
    code = IN_A_CHILD.format(before=before)
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    told = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True, cwd=root, timeout=30).stdout
    assert told.decode().splitlines() == [
        "[18446744073709551615, 0] [0, 0] [0, 0]",
        "False False False True",
        "True True [18446744073709551615, 0]",
    ]


def test_rows_do_not_touch():
    shared = SharedRows("test", 3, 2)
    for number in range(len(shared)):
        shared.row(number)[:] = memoryview(bytes([number]) * 16).cast("Q")
    assert [set(bytes(shared.row(number))) for number in range(3)] == [{0}, {1}, {2}]
