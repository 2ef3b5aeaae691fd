"""What counts as a token, and when it was there."""

from __future__ import annotations

import pytest

from flaskstream.lab.pace import SeenPace, ToldPace

TOLD = ToldPace(("ab", "cd", "e"), 0.1)


@pytest.mark.parametrize(
    ("pieces", "arrivals"),
    [
        ([], ()),
        ([(1.0, 2), (2.0, 2), (3.0, 1)], (1.0, 2.0, 3.0)),
        ([(1.0, 5)], (1.0, 1.0, 1.0)),
        ([(1.0, 1), (2.0, 3), (3.0, 1)], (2.0, 2.0, 3.0)),
        ([(1.0, 2), (2.0, 1)], (1.0,)),
        ([(1.0, 5), (2.0, 7)], (1.0, 1.0, 1.0)),
    ],
    ids=["nothing", "one by one", "all in one", "cut elsewhere", "cut off", "more than was told"],
)
def test_a_told_token_is_there_when_the_text_reaches_its_end(pieces, arrivals):
    assert TOLD.arrivals(pieces) == arrivals
    assert TOLD.count([pieces]) == 3


FIXED = [[(1.0, 3), (1.1, 5), (1.2, 4)], [(1.0, 4), (1.3, 4)]]


def test_what_the_fixed_mode_got_is_one_token_a_piece():
    pace = SeenPace.of(FIXED)
    assert (pace.mean, pace.longest) == (4.0, 5)
    assert pace.interval == pytest.approx(0.2)
    assert [pace.arrivals(pieces) for pieces in FIXED] == [(1.0, 1.1, 1.2), (1.0, 1.3)]
    assert pace.count(FIXED) == 2


def test_a_piece_longer_than_any_of_the_fixed_mode_holds_several_tokens():
    assert SeenPace.of(FIXED).arrivals([(1.0, 3), (2.0, 12)]) == (1.0, 2.0, 2.0, 2.0)


@pytest.mark.parametrize("answers", [[], [[]], [[(1.0, 0)]]])
def test_a_fixed_mode_that_got_next_to_nothing_is_no_accident(answers):
    pace = SeenPace.of(answers)
    assert pace.interval == 0.0
    assert pace.count(answers) == 1
    assert pace.arrivals([(1.0, 0)]) == (1.0,)
