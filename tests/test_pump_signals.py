"""A signal wakes whoever waits for the pump's next item, and is lost to nobody. In greenlets too: see `test_pump`."""

from __future__ import annotations

import threading
import time

import pytest
from one_view import PATIENCE, eventually
from test_pump import Source, taken, waiting

from flaskstream.pump import ENDED, NOTHING, Pump, Signal

FIRST, SECOND = Signal("FIRST"), Signal("SECOND")


def test_a_signal_ends_the_waiting():
    source = waiting("a")
    pump = Pump(source())
    threading.Timer(0.05, pump.wake, [FIRST]).start()
    assert pump.take(PATIENCE) is FIRST
    source.may_go_on.set()
    assert taken(pump) == ["a", ENDED]


def test_a_signal_comes_before_any_item_and_each_comes_once():
    source = Source("abc")
    pump = Pump(source())
    assert eventually(lambda: len(source.made) == 2)
    pump.wake(FIRST)
    pump.wake(SECOND)
    assert [pump.take(PATIENCE) for _ in range(3)] == [FIRST, SECOND, "a"]
    pump.wake(FIRST)
    assert taken(pump) == [FIRST, "b", "c", ENDED]


def test_peek_leaves_a_signal_where_it_is():
    source = waiting("a")
    pump = Pump(source())
    pump.wake(FIRST)
    assert [pump.peek(PATIENCE), pump.peek(0), pump.take(PATIENCE)] == [FIRST] * 3
    assert pump.peek(0) is NOTHING
    source.may_go_on.set()
    assert pump.peek(PATIENCE) == "a"
    pump.wake(SECOND)
    assert [pump.peek(0), pump.take(0), pump.take(0)] == [SECOND, SECOND, "a"]
    assert taken(pump) == [ENDED]


def test_a_signal_after_the_end_hides_it_for_once():
    pump = Pump(iter([]))
    assert pump.take(PATIENCE) is ENDED
    pump.wake(FIRST)
    assert [pump.take(0), pump.take(0)] == [FIRST, ENDED]


def test_a_signal_does_not_hide_a_failure():
    pump = Pump(Source()(), prepare=lambda _: 1 / 0)
    pump.wake(FIRST)
    assert pump.take(PATIENCE) is FIRST
    with pytest.raises(ZeroDivisionError):
        pump.take(PATIENCE)


def test_signals_and_items_that_race_all_arrive():
    count = 300
    pump = Pump(Source(range(count))())

    def wake():
        for _ in range(count):
            pump.wake(FIRST)
            time.sleep(0.0002)

    waking = threading.Thread(target=wake)
    waking.start()
    items = taken(pump)
    waking.join()
    while pump.peek(0) is FIRST:
        items.append(pump.take(0))
    assert items.count(FIRST) == count
    assert [item for item in items if item not in (FIRST, ENDED)] == list(range(count))
