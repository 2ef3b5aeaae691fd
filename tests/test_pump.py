"""The pump: one generator in a thread of its own. It all holds in real threads and, in a child, in greenlets."""

from __future__ import annotations

import gc
import itertools
import os
import subprocess
import sys
import threading
import time

import pytest
from one_view import PATIENCE, eventually

from flaskstream.pump import ENDED, NOTHING, GeneratorFailed, Pump
from flaskstream.waiting import Turn

CHILD = "FLASKSTREAM_TEST_IN_GREENLETS"
IN_GREENLETS = CHILD in os.environ


class Source:
    """A generator's function and what became of the generator."""

    def __init__(self, items=(), cleanup=0.0, pause=0.0):
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.made = []
        self.began = threading.Event()
        self.closed = []
        self._items = items
        self._pause = pause
        self._cleanup = cleanup
        self.threads = set()

    def __call__(self):
        self.threads.add(threading.get_ident())
        self.began.set()
        try:
            for item in self._items:
                self.may_go_on.wait(PATIENCE)
                time.sleep(self._pause)
                self.made.append(item)
                yield item
        finally:
            self.threads.add(threading.get_ident())
            time.sleep(self._cleanup)
            self.closed.append(sys.exc_info()[0])


def waiting(items):
    """A source that makes nothing before it may go on."""
    source = Source(items)
    source.may_go_on.clear()
    return source


def taken(pump):
    items = []
    while True:
        item = pump.take(PATIENCE)
        items.append(item)
        if item is ENDED or item is NOTHING:
            return items


@pytest.mark.skipif(IN_GREENLETS, reason="this is the child")
def test_all_of_this_holds_in_greenlets_too():
    code = "from gevent import monkey; monkey.patch_all(); import pytest, sys; sys.exit(pytest.main(sys.argv[1:]))"
    files = [__file__, __file__.replace("test_pump", "test_pump_signals")]
    command = [sys.executable, "-c", code, "-q", "-p", "no:cacheprovider", *files]
    environment = {**os.environ, CHILD: "1"}
    child = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
    assert child.returncode == 0, child.stdout.decode()


def test_items_come_in_order_and_then_the_end_for_good():
    pump = Pump(iter("abc"))
    assert taken(pump) == ["a", "b", "c", ENDED]
    assert pump.take(0) is ENDED


@pytest.mark.parametrize("timeout", [0, 0.05])
def test_nothing_comes_while_the_generator_waits(timeout):
    source = waiting("a")
    pump = Pump(source())
    assert pump.take(timeout) is NOTHING
    source.may_go_on.set()
    assert taken(pump) == ["a", ENDED]


def test_none_waits_for_as_long_as_it_takes():
    assert Pump(Source("a", pause=0.1)()).take(None) == "a"


def test_peek_leaves_the_item_where_it_is():
    pump = Pump(iter("ab"))
    assert [pump.peek(PATIENCE), pump.peek(PATIENCE), pump.take(PATIENCE)] == ["a", "a", "a"]
    assert taken(pump) == ["b", ENDED]


def test_items_of_any_truth_are_items_but_none():
    assert taken(Pump(iter([None, 0, "", None, False]))) == [0, "", False, ENDED]


def test_the_generator_is_never_more_than_two_items_ahead():
    source = Source(range(100))
    pump = Pump(source())
    for n in range(5):
        assert eventually(lambda n=n: len(source.made) == n + 2)
        time.sleep(0.01)  # for a third one, which must not come
        assert len(source.made) == n + 2
        assert pump.take(PATIENCE) == n
    pump.close()


def test_it_is_started_advanced_and_closed_in_one_thread_that_is_not_ours():
    source = Source("ab")
    assert taken(Pump(source()))[-1] is ENDED
    assert len(source.threads) == 1
    assert source.threads != {threading.get_ident()}


# Failures.


def failing(error):
    yield "a"
    raise error


def test_an_exception_comes_after_the_items_before_it(caplog):
    error = ValueError()
    pump = Pump(failing(error))
    assert pump.take(PATIENCE) == "a"
    with pytest.raises(ValueError) as caught:
        pump.take(PATIENCE)
    assert caught.value is error
    pump.close()
    assert caplog.text == ""  # whoever takes was told, and logs it


@pytest.mark.parametrize("error", [SystemExit(), KeyboardInterrupt(), GeneratorExit()], ids=repr)
def test_what_is_no_exception_comes_as_one(error):
    pump = Pump(failing(error))
    assert pump.take(PATIENCE) == "a"
    with pytest.raises(GeneratorFailed, match=f"the generator ended with {type(error).__name__}") as caught:
        pump.peek(PATIENCE)
    assert caught.value.__cause__ is error


def test_a_failure_that_nobody_was_told_of_is_in_the_log(caplog):
    pump = Pump(failing(ValueError("of the view")))
    assert pump.take(PATIENCE) == "a"
    assert eventually(lambda: pump._failure)
    pump.close()
    assert "ValueError('of the view')" in caplog.text


@pytest.mark.parametrize("part", ["prepare", "run"])
def test_a_failure_around_the_generator_is_one_of_the_generator(part):
    def fail(_):
        raise ValueError(part)

    items = failing(ZeroDivisionError())
    with pytest.raises(ValueError, match=part):
        Pump(items, **{part: fail}).take(PATIENCE)
    assert items.gi_frame is None  # closed, and never begun


def test_a_failure_after_the_generator_is_in_the_log_and_takes_nothing_back(caplog):
    def run(function):
        function()
        raise ValueError("of a teardown")

    assert taken(Pump(iter("a"), run=run)) == ["a", ENDED]
    assert "ValueError('of a teardown')" in caplog.text


# Closing.


def test_a_generator_that_waits_to_hand_over_is_closed_and_makes_no_more():
    source = Source(range(100))
    pump = Pump(source())
    assert eventually(lambda: len(source.made) == 2)
    pump.close()
    assert eventually(lambda: source.closed) == [GeneratorExit]
    assert source.made == [0, 1]


def test_a_generator_that_waits_for_something_is_closed():
    # In a greenlet it is interrupted where it waits; in a thread it is closed when it yields next.
    source = waiting(range(100))
    pump = Pump(source())
    assert source.began.wait(PATIENCE)
    pump.close()
    if not IN_GREENLETS:
        source.may_go_on.set()
    assert eventually(lambda: source.closed) == [GeneratorExit]
    assert source.made == ([] if IN_GREENLETS else [0])


def test_a_generator_that_yields_only_empty_items_is_closed_too():
    source = Source(itertools.chain("a", itertools.repeat("", 100_000)), pause=0.001)
    pump = Pump(source(), prepare=lambda items: (item or None for item in items))
    assert pump.take(PATIENCE) == "a"
    pump.close()
    assert eventually(lambda: source.closed == [GeneratorExit])


def test_a_generator_that_was_never_asked_is_closed_without_running():
    gate = threading.Event()
    source = Source("a")
    items = source()
    pump = Pump(items, run=lambda function: gate.wait(PATIENCE) and function())
    pump.close()
    gate.set()
    assert eventually(lambda: items.gi_frame is None)
    assert not source.began.is_set()


def test_a_cleanup_that_takes_time_is_not_interrupted():
    source = Source(range(100), cleanup=0.1)
    pump = Pump(source())
    assert eventually(lambda: len(source.made) == 2)
    pump.close()
    assert eventually(lambda: source.closed) == [GeneratorExit]


def test_closing_twice_or_after_the_end_is_nothing():
    pump = Pump(iter("a"))
    assert taken(pump) == ["a", ENDED]
    pump.close()
    pump.close()


def test_an_iterator_without_close_is_let_go():
    threads = threading.active_count()
    pump = Pump(iter(range(10)))
    assert pump.take(PATIENCE) == 0
    pump.close()
    assert eventually(lambda: threading.active_count() <= threads)


def test_closing_at_any_moment_leaves_no_thread_and_no_open_generator():
    threads = threading.active_count()
    sources = [Source(range(5), pause=0.001) for _ in range(60)]
    for n, source in enumerate(sources):
        pump = Pump(source())
        for _ in range(n % 4):
            pump.take(PATIENCE)
        time.sleep(0.0003 * (n % 7))
        pump.close()
    assert eventually(lambda: all(source.closed or not source.began.is_set() for source in sources))
    assert eventually(lambda: threading.active_count() <= threads)
    gc.collect()
    assert all(len(source.closed) <= 1 for source in sources)


def test_a_turn_that_ends_before_anything_came_in_it_has_an_end():
    turn, is_waited_for = Turn(), threading.Event()

    def source():
        turn.begin(object())
        is_waited_for.wait(PATIENCE)
        yield None

    pump = Pump(source(), turn=turn)
    timer = threading.Timer(0.2, is_waited_for.set)
    timer.start()
    assert pump.take(PATIENCE) is ENDED
    timer.join()
