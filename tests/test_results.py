from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_runs import (
    BROKEN,
    COMPARISON,
    DURATION,
    FIXED,
    HELD_DEBUG,
    INTERVAL,
    NO_ANSWER,
    ODD,
    REFUSED,
    TOKENS,
    client,
    compare,
    in_bursts,
    lump,
    server,
    stalled,
    streamed,
)

from flaskstream.lab.figures import (
    FAULT_FIGURES,
    MODE_FIGURES,
    debug_words,
    notes,
    seconds_text,
    whole_text,
    whole_words,
)
from flaskstream.lab.judge import complaints, flows, signs_of_holding
from flaskstream.lab.timeline import axis_over, cells, silences
from flaskstream.show.axis import Axis

# One client


def test_the_figures_of_a_client_come_from_its_arrivals():
    run = client((0.1, 0.2, 0.25, 0.9))
    assert run.first_token == 0.1
    assert run.gaps == pytest.approx((0.1, 0.05, 0.65))
    assert run.median_gap == pytest.approx(0.1)
    assert run.largest_gap == pytest.approx(0.65)


def test_a_client_without_tokens_has_no_figures():
    run = client(())
    assert (run.first_token, run.gaps, run.median_gap, run.largest_gap) == (None, (), None, None)
    assert run.bursts(INTERVAL) == ()
    assert client((0.1,)).largest_gap is None


def test_a_client_run_is_valid_from_birth():
    with pytest.raises(ValueError, match=r"ended: expected one of done, error, .*, got 'finished'"):
        client((0.1,), ended="finished")
    with pytest.raises(ValueError, match="arrivals: expected times in order"):
        client((0.2, 0.1))


def test_tokens_closer_than_a_fifth_of_the_interval_are_one_burst():
    assert client((1.0, 1.009, 1.018)).bursts(INTERVAL) == ((1.0, 3),)
    assert client((1.0, 1.011, 1.012)).bursts(INTERVAL) == ((1.0, 1), (1.011, 2))


def test_without_an_interval_each_token_is_its_own_burst():
    assert len(client((1.0, 1.0, 1.1)).bursts(0.0)) == 3


# One server


def test_a_run_takes_the_median_first_token_and_the_slowest_one():
    run = server("x", streamed(0.1), streamed(0.2), streamed(0.9))
    assert run.first_token == 0.2
    assert run.slowest_first_token == 0.9
    assert run.duration == pytest.approx(1.2)


def test_a_client_that_waits_for_ever_is_the_slowest():
    run = server("x", streamed(0.1), client((), "cut"))
    assert run.first_token == 0.1
    assert run.slowest_first_token is None
    assert run.without_token == 1


def test_gaps_are_those_within_a_client_and_never_between_clients():
    run = server("x", streamed(0.05), streamed(5.0), stalled(0.4))
    assert run.median_gap == pytest.approx(INTERVAL)
    assert run.largest_gap == pytest.approx(0.4)


def test_bursts_are_the_median_over_the_clients():
    assert server("x", lump(1.0), lump(1.0), streamed()).bursts == 1
    assert server("x", lump(1.0), streamed(), streamed()).bursts == TOKENS
    assert server("x", lump(1.0), streamed()).bursts == 1
    assert server("x").bursts == 0


def test_every_client_has_exactly_one_outcome():
    ends = ("done", "error", "cut", "left", "unreachable")
    run = server("x", *[streamed(ended=end) for end in ends], streamed(tokens=23))
    assert [run.outcome_of(each) for each in run.clients] == ["complete", "cut", "cut", "left", "cut", "looked_whole"]
    assert (run.complete, run.cut, run.left, run.looked_whole) == (1, 3, 1, 1)


@pytest.mark.parametrize(
    ("lags", "missing", "timing", "words"),
    [
        ((), 0, "unmeasured", "not measured"),
        ((), 7, "never", "never: 7 missing"),
        ((0.0003, 0.0004, 0.0003), 0, "live", "live, 0.3 ms after the event"),
        ((0.0003, 0.59, 0.0003), 0, "live", "live, 0.3 ms after the event"),
        ((0.0003, 0.61, 0.0003), 0, "late", "up to 610 ms late"),
        ((0.0003,), 2, "live", "live, 0.3 ms after the event; 2 missing"),
        ((0.2, 0.3, 0.4), 0, "late", "up to 400 ms late"),
        ((2.0, 0.01, 0.06), 0, "late", "up to 2.00 s late"),
        ((2.1, 1.0, 0.06), 0, "at_exit", "only at exit, 2.10 s late"),
    ],
)
def test_debug_lines_are_live_late_only_at_exit_or_never(lags, missing, timing, words):
    run = server("x", streamed(), debug_lags=lags, debug_missing=missing)
    assert run.debug_timing == timing
    assert debug_words(run) == words


def test_a_debug_line_within_the_noise_of_a_machine_is_live_at_any_interval():
    fast = server("x", streamed(interval=0.001), interval=0.001, debug_lags=(0.04,))
    assert fast.debug_timing == "live"


# The rules, each on both sides

SLOW_START = "x: the first token came after {} of a 1.20 s stream, and 350 ms is the limit."


@pytest.mark.parametrize(
    ("run", "sentences"),
    [
        (streamed(), ()),
        (streamed(0.349), ()),
        (streamed(0.351), (SLOW_START.format("351 ms"),)),
        (in_bursts(20), ()),
        (in_bursts(19), ("x: the 24 tokens arrived in 19 bursts, not one by one.",)),
        (stalled(0.49), ()),
        (stalled(0.51), ("x: the largest gap between two tokens was 510 ms, at one token every 50 ms.",)),
        (streamed(ended="cut"), ("x: 0 of 1 client got all 24 tokens and `done`; 1 was cut off.",)),
        (streamed(ended="error"), ("x: 0 of 1 client got all 24 tokens and `done`; 1 was cut off.",)),
        (
            streamed(tokens=23),
            ("x: 0 of 1 client got all 24 tokens and `done`; 1 was told `done` with tokens missing.",),
        ),
    ],
)
def test_a_run_streams_when_it_breaks_no_rule(run, sentences):
    assert complaints(server("x", run)) == sentences


def test_one_bad_client_among_good_ones_is_enough_to_complain():
    sentences = complaints(server("fixed", *[streamed()] * 3, streamed(1.31)))
    assert sentences == (
        "fixed: the slowest client's first token came after 1.31 s of a 1.20 s stream, and 350 ms is the limit.",
    )
    assert len(complaints(server("fixed", *[streamed()] * 3, client((), "cut")))) == 2


@pytest.mark.parametrize(
    ("run", "sentences"),
    [
        (server("x", streamed()), ()),
        (server("x", streamed(1.19)), ()),
        (server("x", streamed(1.21)), ("x: the first token came after 1.21 s of a 1.20 s stream.",)),
        (server("x", in_bursts(12)), ()),
        (server("x", in_bursts(11)), ("x: the 24 tokens arrived in 11 bursts.",)),
        (server("x", streamed(), streamed(ended="cut")), ("x: of 2 clients, 1 was cut off.",)),
        (
            server("x", streamed(), streamed(tokens=20), streamed(tokens=20)),
            ("x: of 3 clients, 2 were told `done` with tokens missing.",),
        ),
        (
            server("x", streamed(), streamed(ended="cut"), streamed(tokens=20)),
            ("x: of 3 clients, 1 was cut off, 1 was told `done` with tokens missing.",),
        ),
        (server("x", streamed(), streamed(ended="left")), ()),
        (server("x", streamed(), debug_lags=(0.59,)), ()),
        (server("x", streamed(), debug_lags=(0.61,)), ("x: debug lines came out up to 610 ms after their events.",)),
        (server("x", streamed(), debug_lags=(0.1,), debug_missing=0), ()),
        (server("x", streamed(), debug_lags=(0.1,), debug_missing=1), ("x: 1 of 2 debug lines never came out.",)),
    ],
)
def test_a_run_does_not_stream_when_one_sign_shows(run, sentences):
    assert signs_of_holding(run) == sentences


def test_a_client_that_never_got_a_token_is_a_sign():
    sentences = signs_of_holding(server("x", *[streamed()] * 3, client((), "cut")))
    assert sentences == ("x: 1 of 4 clients never got a token.", "x: of 4 clients, 1 was cut off.")


@pytest.mark.parametrize(("dead", "got"), [(NO_ANSWER, "an answer"), (REFUSED, "a 2xx answer, but 503")])
def test_a_server_that_answers_nobody_proves_nothing(dead, got):
    run = server("broken", dead, dead)
    assert signs_of_holding(run) == ()
    assert complaints(run) == (f"broken: no client got {got}, so nothing was measured.",)
    assert not compare(FIXED, run).verdict.ok


def test_a_redirect_is_no_answer():
    assert server("x", client((), status=302), client((), status=199), streamed()).answered == 1


def test_colour_follows_each_client_whether_or_not_its_answer_was_whole():
    run = server("x", streamed(), streamed(1.0), lump(0.1), streamed(tokens=6, ended="left"), client((), "cut"))
    assert [flows(run, each) for each in run.clients] == [True, False, False, True, False]


# The verdict


def test_the_verdict_is_good_when_fixed_streams_and_broken_does_not():
    assert COMPARISON.verdict.ok
    assert COMPARISON.verdict.line == "Fixed streams, broken does not."
    assert COMPARISON.verdict.reasons == (
        "fixed: all 4 clients got all 24 tokens and `done`; the slowest one's first token came after 61 ms of a "
        "1.20 s stream, and no gap was longer than 50 ms.",
        "broken: the slowest client's first token came after 4.84 s of a 1.20 s stream.",
        "broken: the 24 tokens arrived in 1 burst.",
        "broken: debug lines came out up to 5.20 s after their events.",
    )


def test_the_verdict_names_what_is_amiss_and_nothing_else():
    bad = replace(BROKEN, name="fixed", debug_lags=())
    assert not compare(bad, BROKEN).verdict.ok
    assert compare(bad, BROKEN).verdict.line == "Fixed does not stream."
    assert all(reason.startswith("fixed: ") for reason in compare(bad, BROKEN).verdict.reasons)


def test_a_broken_mode_that_streams_too_fails_the_comparison():
    verdict = compare(FIXED, replace(FIXED, name="broken")).verdict
    assert (verdict.ok, verdict.line) == (False, "Fixed streams, but broken was not seen to fail.")
    assert verdict.reasons == (
        "broken: the slowest client's first token came after 61 ms of a 1.20 s stream, the 24 tokens arrived in "
        "24 bursts, and no client was cut off: none of its mistakes showed.",
    )


def test_both_can_be_amiss():
    verdict = compare(replace(BROKEN, name="fixed"), replace(FIXED, name="broken")).verdict
    assert verdict.line == "Fixed does not stream, and broken was not seen to fail."
    assert {reason.split(":")[0] for reason in verdict.reasons} == {"fixed", "broken"}


@pytest.mark.parametrize("name", ODD)
def test_every_verdict_gives_its_reasons(name):
    verdict = ODD[name].verdict
    assert verdict.ok == (name in ("one client", "sixteen clients and every ending"))
    assert verdict.reasons
    assert all(reason.endswith(".") and "None" not in reason for reason in verdict.reasons)


# Figures in words


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "none"),
        (0.0, "0 ms"),
        (0.00004, "0 ms"),
        (0.0003, "0.3 ms"),
        (0.00994, "9.9 ms"),
        (0.00996, "10 ms"),
        (0.0555, "56 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1.00 s"),
        (61.237, "61.24 s"),
    ],
)
def test_a_time_is_said_in_the_unit_that_people_use(seconds, text):
    assert seconds_text(seconds) == text


def test_whole_answers_are_counted_and_the_others_named():
    run = server(
        "x", streamed(), streamed(ended="cut"), streamed(ended="error", code="internal"), streamed(tokens=2), NO_ANSWER
    )
    assert whole_words(run) == "1 of 5, 1 cut, 1 error (internal), 1 done too soon, 1 no answer"
    assert whole_words(FIXED) == "4 of 4"


@pytest.mark.parametrize(
    ("clients", "said"),
    [
        ([streamed(), streamed()], "2 of 2"),
        ([streamed(), streamed(ended="cut")], "1 of 2"),
        ([streamed(ended="cut"), streamed(ended="error")], "0 of 2"),
        ([streamed(ended="error")] * 4, "4 error"),
        ([streamed(ended="left")] * 4, "4 left"),
        ([streamed(tokens=10)] * 4, "4 short"),
        ([NO_ANSWER] * 16, "16 silent"),
        ([], "0 of 0"),
    ],
)
def test_answers_that_all_ended_alike_are_named(clients, said):
    assert whole_text(server("x", *clients)) == said


def test_half_an_answer_that_looks_whole_is_worse_than_an_error():
    whole = FAULT_FIGURES[4]
    error, feigned = server("fixed", streamed(tokens=9, ended="error")), server("x", streamed(tokens=9))
    assert whole.worse(feigned, error)
    assert not whole.worse(error, feigned)


def test_a_figure_is_worse_only_beyond_the_noise_and_in_the_bad_direction():
    first = FAULT_FIGURES[0]
    control = server("fixed", streamed(0.05))
    assert first.worse(server("x", streamed(0.091)), control)
    assert not first.worse(server("x", streamed(0.089)), control)
    assert not first.worse(server("x", streamed(0.44)), server("fixed", streamed(0.30)))
    assert first.worse(server("x", client((), "cut")), control)
    assert first.differs(control, server("x", streamed(0.5)))
    assert not first.worse(control, server("x", streamed(0.5)))


def test_a_lump_is_worse_by_its_bursts_and_not_by_its_small_gaps():
    worse = {figure.label for figure in MODE_FIGURES if figure.worse(BROKEN, FIXED)}
    assert worse == {"first token", "slowest client", "arrived in", "debug lines"}
    assert not any(figure.differs(FIXED, FIXED) for figure in MODE_FIGURES + FAULT_FIGURES)


def test_a_missing_debug_line_is_worse_than_none_missing():
    debug = FAULT_FIGURES[5]
    assert debug.worse(replace(FIXED, debug_missing=1), FIXED)
    assert debug.worse(replace(FIXED, debug_lags=HELD_DEBUG), replace(FIXED, debug_missing=1))
    assert not debug.differs(replace(FIXED, debug_lags=(0.01,)), FIXED)


def test_a_few_bursts_less_are_noise():
    bursts = FAULT_FIGURES[2]
    assert not bursts.worse(server("x", in_bursts(20)), server("fixed", streamed()))
    assert bursts.worse(server("x", in_bursts(19)), server("fixed", streamed()))


def test_notes_say_what_no_column_has_room_for():
    after = replace(FIXED, upstream_tokens_after_leaving=1)
    assert notes(FIXED, FIXED) == ()
    assert notes(replace(after, debug_missing=2), FIXED) == (
        ("debug", "2 lines never came out"),
        ("upstream", "1 more token after the clients had left"),
    )
    assert notes(after, replace(after, upstream_tokens_after_leaving=0))[0][1].endswith("; 0 without it")


# Timelines


def test_both_modes_share_an_axis_that_holds_the_longer_one():
    axis = axis_over((FIXED, BROKEN), most_ticks=8)
    assert axis.end == pytest.approx(BROKEN.clients[-1].ended_at)
    assert axis.ticks == (0, 1, 2, 3, 4)
    assert axis.share(axis.end) == 1.0


@given(end=st.floats(0.001, 10_000), most=st.integers(4, 20))
def test_marks_are_round_few_and_never_beyond_the_end(end, most):
    axis = axis_over([server("x", client((), "cut", ended_at=end))], most)
    assert 2 <= len(axis.ticks) <= most + 1
    assert axis.ticks[-1] <= end * 1.000001
    assert f"{axis.step:e}"[0] in "125"


def kinds(run, columns, axis):
    return "".join(
        {"tokens": str(cell.tokens % 10)}.get(cell.kind, cell.kind[0]) for cell in cells(run, axis, columns, 0.1)
    )


def test_waiting_pace_and_silence_are_told_apart():
    run = client((0.31, 0.42, 0.51, 0.95), ended_at=1.0)
    axis = Axis(1.0, 0.1)
    assert kinds(run, 20, axis) == "wwwwww1p1p1ssssssss1e"
    assert kinds(run, 10, axis) == "www111sss1e"
    assert silences(run, 0.1) == ((0.51, 0.95),)


def test_the_wait_for_the_end_after_the_last_token_is_silence_too():
    assert kinds(client((0.1,), ended_at=0.9), 10, Axis(1.0, 0.1)) == "w1ssssssse"
    assert silences(client(()), 0.1) == ()


def test_a_lump_at_the_very_end_still_leaves_room_for_the_end_mark():
    assert kinds(lump(0.9999, tokens=4), 10, Axis(1.0, 0.1)) == "wwwwwwwww4e"


@given(
    arrivals=st.lists(st.floats(0, 5), max_size=40).map(sorted),
    after=st.floats(0, 2),
    columns=st.integers(1, 120),
)
def test_no_token_is_lost_on_a_timeline(arrivals, after, columns):
    run = client(arrivals, ended_at=(arrivals[-1] if arrivals else 0) + after)
    drawn = cells(run, axis_over([server("x", run)]), columns, INTERVAL)
    assert sum(cell.tokens for cell in drawn) == len(arrivals)
    assert len(drawn) <= columns + 1
    assert [cell.kind for cell in drawn].index("end") == len(drawn) - 1


def test_the_made_streams_are_what_they_say():
    assert FIXED.duration == pytest.approx(DURATION)
    assert BROKEN.largest_debug_lag == max(HELD_DEBUG)
