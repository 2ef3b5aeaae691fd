"""What the processes of a server take: processor time and memory, as Linux counts them."""

from __future__ import annotations

import os
import time

_TICK = os.sysconf("SC_CLK_TCK")
_IDLE = (3, 4)  # the columns idle and iowait of /proc/stat
_OF_GUESTS = 8  # and what follows: counted in the columns before already


def tree(pid: int) -> list[int]:
    """Return the process and all that descend from it. What ends meanwhile is left out."""
    found = [pid]
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as children:
            for child in children.read().split():
                found += tree(int(child))
    except (FileNotFoundError, ProcessLookupError):
        pass
    return found


def seconds(pid: int) -> float:
    """Return the processor time of one process, `utime` and `stime` of its `/proc/PID/stat` in nanoseconds' precision.

    It is read from the process's own clock, of all its threads: `/proc` rounds to 10 ms, which is too coarse for a
    server that takes little (the encoding of the clock's name is in clock_getcpuclockid(3) of Linux).
    """
    try:
        return time.clock_gettime((~pid) << 3 | 2)
    except OSError:
        return 0.0  # it has ended


def seconds_of_tree(pid: int) -> dict[int, float]:
    """Return the processor time of a process and of all that descend from it, by their ids."""
    return {one: seconds(one) for one in tree(pid)}


def spent(before: dict[int, float], after: dict[int, float]) -> float:
    """Return the processor time between two readings of `seconds_of_tree`."""
    return sum(max(0.0, value - before.get(pid, 0.0)) for pid, value in after.items())


def memory(pid: int) -> dict[str, int]:
    """Return the memory of a process and of all that descend from it, in bytes.

    `pss`: with its share of what it shares with others; `rss`: with all of that.
    """
    found = {"pss": 0, "rss": 0}
    for one in tree(pid):
        try:
            with open(f"/proc/{one}/smaps_rollup") as lines:
                for line in lines:
                    name, _, value = line.partition(":")
                    if name.lower() in found:
                        found[name.lower()] += int(value.split()[0]) * 1024
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def machine_seconds() -> float:
    """Return the processor time that all processes and the kernel have taken, the stolen time included."""
    with open("/proc/stat") as stat:
        fields = [int(value) for value in stat.readline().split()[1:]]
    return sum(value for column, value in enumerate(fields[:_OF_GUESTS]) if column not in _IDLE) / _TICK
