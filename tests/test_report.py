import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_runs import (
    BROKEN,
    COMPARISON,
    FIXED,
    JOINED_BODY,
    LEFT_OPEN,
    NOT_SHOWN,
    ODD,
    TOKENS,
    client,
    compare,
    fault,
    lump,
    server,
    stalled,
    streamed,
)

from flaskstream.lab.report import json_report, text_report
from flaskstream.lab.report_html import html_report
from flaskstream.lab.results import ENDINGS

ALL = {"the sample": COMPARISON, **ODD}


def text(comparison, width=80, unicode=True, color=False):
    return text_report(comparison, color=color, width=width, unicode=unicode)


def part(whole, start, stop):
    return whole[whole.index(start) : whole.index(stop)].rstrip()


# The terminal


def test_the_two_modes_stand_side_by_side():
    assert part(text(COMPARISON), "                  fixed", "\n\n  fixed") == "\n".join(
        [
            "                  fixed                          broken",
            "  first token     58 ms                          3.02 s",
            "  slowest client  61 ms                          4.84 s",
            "  arrived in      24 bursts                      1 burst",
            "  median gap      50 ms                          0 ms",
            "  largest gap     50 ms                          0 ms",
            "  whole answers   4 of 4                         4 of 4",
            "  debug lines     live, 0.3 ms after the event   only at exit, 5.20 s late",
        ]
    )


def test_the_timelines_share_one_axis_in_seconds():
    assert part(text(COMPARISON), "  fixed   1", "\n\nWhat") == "\n".join(
        [
            "  fixed   1  ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁✓",
            "          2  ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁✓",
            "          3  ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁✓",
            "          4  ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁✓",
            "",
            "  broken  1  ················█✓",
            "          2  ································█✓",
            "          3  ·················································█✓",
            "          4  ·································································█✓",
            "             └─────────────┴────────────┴─────────────┴─────────────┴──────────",
            "             0 s           1 s          2 s           3 s           4 s",
            "",
            "  ▁ to █: 1 to 24 tokens in a cell of 73 ms   · waiting   ─ silence   ✓ done",
        ]
    )


def test_the_machine_line_is_wrapped_between_releases_only():
    machine = "Linux x86_64, 2 cores, Python 3.11.7, flask 3.1.3, gunicorn 27.0.1, gevent 26.9.0, requests 2.34.2"
    lines = text(replace(COMPARISON, machine=machine)).splitlines()
    assert lines[1:3] == [
        "Linux x86_64, 2 cores, Python 3.11.7, flask 3.1.3, gunicorn 27.0.1,",
        "gevent 26.9.0, requests 2.34.2",
    ]


def test_silence_and_every_ending_look_different():
    fixed = server("fixed", stalled(0.5), streamed(tokens=12, ended="cut"), streamed(tokens=12), streamed(ended="left"))
    drawn = text(compare(fixed, server("broken", client((), "unreachable", ended_at=1.0, status=None))))
    assert re.search(r"1  ·+[▁ ]+─+[▁ ]+✓\n", drawn)
    assert re.search(r"2  ·+[▁ ]+✗\n", drawn)
    assert re.search(r"3  ·+[▁ ]+!\n", drawn)
    assert re.search(r"4  ·+[▁ ]+←\n", drawn)
    assert re.search(r"broken  1  ·+✗\n", drawn)
    assert "✗ cut   ! done with tokens missing   ← left" in re.sub(r"\s*\n\s*", "   ", drawn)


def test_a_terminal_without_unicode_gets_the_same_picture_in_ascii():
    drawn = text(COMPARISON, unicode=False)
    assert part(drawn, "  fixed   1", "\n\nWhat").splitlines()[::5] == [
        "  fixed   1  :::::::::::::::::|",
        "  broken  1  ................#|",
        "             0 s           1 s          2 s           3 s           4 s",
    ]
    assert "X" in text(ODD["no client got an answer"], unicode=False)


def test_each_fault_has_its_block_with_the_control_beside_it():
    assert part(text(COMPARISON), "joined_body  ─", "\n\nupstream_left_open") == "\n".join(
        [
            "joined_body  ────────────────────────────────────────────────────────────  shows",
            "  The view joins its generator into one string, so the first byte leaves when",
            "  the last one is known.",
            "",
            "            first token   slowest    bursts  largest gap     whole  debug lag",
            "  with it        1.21 s    1.21 s         1         0 ms    4 of 4     0.3 ms",
            "  without         58 ms     61 ms        24        50 ms      same       same",
            "",
            "  evidence  first token 1.21 s instead of 55 ms; all 24 tokens in one burst",
            "  cure      Return the generator itself; `event_stream` does.",
        ]
    )


def test_a_fault_block_says_what_the_table_cannot():
    block = part(text(COMPARISON), "upstream_left_open  ─", "\n\naccumulator")
    assert "  upstream  72 more tokens after the clients had left; 1 without it" in block
    assert "  debug     3 lines never came out" in block
    assert "4 left" in block


def test_a_fault_that_did_not_show_is_told_twice():
    drawn = text(COMPARISON)
    assert "each mistake switched on alone; 2 of 3 showed" in drawn
    assert re.search(r"\naccumulator  ─+  did not show\n", drawn)
    assert drawn.endswith("  1 fault did not show: accumulator.\n")
    assert "did not show" not in text(compare(FIXED, BROKEN, JOINED_BODY))


def test_the_verdict_stands_last_with_its_reasons():
    last = text(COMPARISON).split("\n\n")[-1].splitlines()
    assert re.fullmatch(r"─+  took 31 s", last[0])
    assert last[1] == "✓ Fixed streams, broken does not."
    assert last[2:4] == [
        "  fixed: all 4 clients got all 24 tokens and `done`; the slowest one's first",
        "    token came after 61 ms of a 1.20 s stream, and no gap was longer than 50 ms.",
    ]
    assert "\n✗ Fixed does not stream.\n" in text(compare(server("fixed", lump(1.2)), BROKEN))


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("unicode", [True, False])
@pytest.mark.parametrize(("asked", "used"), [(20, 80), (80, 80), (101, 101), (500, 120)])
def test_no_line_is_wider_than_the_terminal(name, unicode, asked, used):
    lines = text(ALL[name], width=asked, unicode=unicode).splitlines()
    assert max(map(len, lines)) <= used
    assert not any(line.endswith(" ") for line in lines)


@pytest.mark.parametrize("name", ALL)
def test_colour_changes_no_character_and_is_there_only_when_asked_for(name):
    coloured, plain = text(ALL[name], color=True), text(ALL[name])
    assert "\x1b" not in plain
    assert "\x1b[" in coloured
    stripped = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert [line.rstrip() for line in stripped.splitlines()] == plain.splitlines()


def test_colour_tells_streams_from_lumps():
    coloured = text(COMPARISON, color=True)
    assert re.search("\x1b\\[32m▁+✓", coloured)
    assert "\x1b[31m█\x1b[0m\x1b[32m✓" in coloured


def red(coloured):
    return re.findall("\x1b\\[31m(.*?)\x1b\\[0m", coloured)


def test_red_marks_what_is_worse_than_fixed_and_what_failed():
    found = [words.strip() for words in red(text(COMPARISON, color=True))]
    assert {"3.02 s", "4.84 s", "1 burst", "only at exit, 5.20 s late", "█", "1.21 s", "1", "3 missing"} == set(found)
    failed = red(text(ODD["sixteen clients and every ending"], color=True))
    assert {"✗", "▄!"} < set(failed)
    assert "✗ Fixed does not stream." in red(text(compare(server("fixed", lump(1.2)), BROKEN), color=True))


def test_a_long_figure_is_wrapped_inside_its_column():
    drawn = text(ODD["sixteen clients and every ending"])
    assert part(drawn, "  whole answers", "\n  debug lines").splitlines() == [
        "  whole answers   16 of 16                       12 of 16, 1 cut, 1 error",
        "                                                 (upstream_truncated), 1 done",
        "                                                 too soon, 1 left",
    ]


def test_a_single_client_is_not_at_once():
    assert text(ODD["one client"]).startswith("flaskstream compare  1 client, 24 tokens each, one every 50 ms\n")
    assert text(COMPARISON).startswith("flaskstream compare  4 clients at once, 24 tokens each, one every 50 ms\n")


@pytest.mark.parametrize("name", ALL)
def test_without_unicode_nothing_but_ascii_comes_out(name):
    assert text(ALL[name], unicode=False).isascii()


def test_foreign_letters_in_a_sentence_cannot_stop_an_ascii_terminal():
    odd = fault("joined_body", JOINED_BODY.faulty, sentence="naïve → 🙂")
    assert "na?ve ? ?" in text(compare(FIXED, BROKEN, odd), unicode=False)


made_clients = st.builds(
    lambda gaps, ended, wait: client(
        [sum(gaps[: n + 1]) for n in range(len(gaps))], ended, ended_at=sum(gaps) + wait, code=None
    ),
    st.lists(st.floats(0, 3), max_size=30),
    st.sampled_from(ENDINGS),
    st.floats(0, 30),
)
made_runs = st.builds(
    lambda name, clients, tokens, interval, lags, missing: server(
        name, *clients, tokens=tokens, interval=interval, debug_lags=tuple(lags), debug_missing=missing
    ),
    st.sampled_from(["fixed", "broken"]),
    st.lists(made_clients, max_size=17),
    st.integers(0, 40),
    st.floats(0, 1),
    st.lists(st.floats(0, 20), max_size=5),
    st.integers(0, 3),
)


@settings(deadline=None, max_examples=60)
@given(fixed=made_runs, broken=made_runs, unicode=st.booleans())
def test_whatever_was_measured_can_be_printed(fixed, broken, unicode):
    comparison = compare(fixed, broken, fault("joined_body", broken, control=fixed))
    assert max(map(len, text(comparison, unicode=unicode).splitlines())) <= 80
    json.dumps(json_report(comparison), allow_nan=False)
    assert Page(html_report(comparison)).open == []


# JSON


@pytest.mark.parametrize("name", ALL)
def test_the_json_report_survives_json_and_carries_its_version(name):
    report = json_report(ALL[name])
    assert json.loads(json.dumps(report, allow_nan=False)) == report
    assert report["schema_version"] == 1


def numbers(value, key=""):
    """Yield (key, number) of every number with a fraction in a JSON value."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from numbers(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from numbers(inner, key)
    elif isinstance(value, float):
        yield key, value


def test_every_time_in_the_json_report_is_in_milliseconds_and_says_so():
    found = list(numbers(json_report(COMPARISON)))
    assert len(found) > 8 * TOKENS
    assert {key for key, _ in found if not key.endswith("_ms")} == set()


def test_the_json_report_has_the_figures_and_the_raw_arrivals():
    report = json_report(COMPARISON)
    broken = report["broken"]
    assert report["verdict"] == {
        "ok": True,
        "line": COMPARISON.verdict.line,
        "reasons": list(COMPARISON.verdict.reasons),
    }
    assert report["took_ms"] == 31200
    assert broken["slowest_first_token_ms"] == pytest.approx(4840)
    assert broken["bursts"] == 1
    assert broken["debug"]["timing"] == "at_exit"
    assert broken["debug"]["largest_lag_ms"] == pytest.approx(5200)
    assert len(broken["debug"]["lags_ms"]) == 96
    assert broken["clients"][1]["arrivals_ms"][:2] == [2420.0, 2420.01]
    assert report["fixed"]["interval_ms"] == 50
    assert [line["name"] for line in report["faults"]] == ["joined_body", "upstream_left_open", "accumulator"]
    assert report["faults"][1]["faulty"]["upstream_tokens_after_leaving"] == 72
    assert report["faults"][2]["shows"] is False


def test_requests_are_timed_from_the_first_one_of_their_run():
    run = server("fixed", streamed(sent_at=100.5, headers=(("Server", "gunicorn"),)), streamed(sent_at=100.502))
    clients = json_report(compare(run, BROKEN))["fixed"]["clients"]
    assert [each["sent_ms"] for each in clients] == [0.0, 2.0]
    assert clients[0]["headers"] == [["Server", "gunicorn"]]


# The page

VOID = {"meta", "line", "circle", "path", "br"}


class Page(HTMLParser):
    """Every tag with its attributes and its parent; `open` holds what was never closed."""

    def __init__(self, markup):
        super().__init__()
        self.open, self.tags, self.words = [], [], []
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs), self.open[-1] if self.open else None))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs), self.open[-1]))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    def all(self, tag):
        return [attrs for name, attrs, _ in self.tags if name == tag]

    @property
    def said(self):
        return " ".join(" ".join(self.words).split())


def test_the_page_is_one_file_without_script_or_anything_to_fetch():
    markup = html_report(COMPARISON)
    page = Page(markup)
    assert not {"script", "link", "img", "iframe", "use"} & {tag for tag, _, _ in page.tags}
    assert not {"src", "href", "onload", "onclick"} & {name for _, attrs, _ in page.tags for name in attrs}
    assert "url(" not in markup
    assert "@import" not in markup
    assert "http" not in markup


def test_the_page_follows_the_screen_and_the_colour_scheme():
    markup = html_report(COMPARISON)
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in Page(markup).all("meta")
    assert "prefers-color-scheme: dark" in markup
    assert "<title>flaskstream compare: Fixed streams, broken does not.</title>" in markup


@pytest.mark.parametrize("name", ALL)
def test_every_drawing_has_a_name_and_every_table_its_heads(name):
    page = Page(html_report(ALL[name]))
    assert page.open == []
    ids = [attrs["id"] for _, attrs, _ in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    charts = [attrs for attrs in page.all("svg") if "role" in attrs]
    assert len(charts) == 2 + len(ALL[name].faults)
    assert all(chart["role"] == "img" and chart["aria-labelledby"] in ids for chart in charts)
    assert all(head.get("scope") in ("row", "col") for head in page.all("th"))


@pytest.mark.parametrize("name", ALL)
def test_everything_stays_inside_its_drawing(name):
    for _, attrs, _ in Page(html_report(ALL[name])).tags:
        for place in ("x", "x1", "x2", "cx"):
            value = attrs.get(place, "0%")
            assert not value.endswith("%") or 0 <= float(value[:-1]) <= 92


def test_tokens_that_come_one_by_one_are_dots_and_a_lump_is_one_with_its_number():
    page = Page(html_report(compare(FIXED, BROKEN)))
    one_by_one = [dot for dot in page.all("circle") if dot["r"] == "2.6" and "%" in dot["cx"]]
    lumps = [dot for dot in page.all("circle") if dot["r"] == "10.0" and "%" in dot["cx"]]
    assert (len(one_by_one), len(lumps)) == (4 * TOKENS, 4)
    places = [float(dot["cx"][:-1]) for dot in lumps]
    steps = [later - earlier for earlier, later in zip(places, places[1:])]
    assert steps == pytest.approx([steps[0]] * 3, abs=0.05)
    assert max(float(dot["cx"][:-1]) for dot in one_by_one) == pytest.approx(places[0], abs=2)


def test_each_client_has_a_row_of_its_own_above_the_axis():
    page = Page(html_report(compare(FIXED, BROKEN)))
    height = float(next(svg["height"] for svg in page.all("svg") if "role" in svg))
    rows = sorted({float(dot["cy"]) for dot in page.all("circle") if "%" in dot["cx"]})
    axis = float(next(line["y1"] for line in page.all("line") if line["class"] == "axis"))
    assert len(rows) == 4
    assert rows[0] >= 10
    assert min(lower - upper for upper, lower in zip(rows, rows[1:])) >= 20
    assert rows[-1] + 10 <= axis <= height - 20


def test_an_end_mark_stands_clear_of_the_dot_before_it():
    markup = html_report(compare(FIXED, BROKEN))
    shifts = {float(shift) for shift in re.findall(r"translate\(([\d.]+) 0\)", markup)}
    assert shifts == {9.6, 17.0}


def test_a_fault_is_drawn_by_the_client_that_waited_longest():
    faulty = server("sync_worker", streamed(0.05), streamed(2.5), streamed(1.25))
    said = Page(html_report(compare(FIXED, BROKEN, fault("sync_worker", faulty)))).said
    assert "with it: first token after 2.50 s, 24 of 24 in 24 bursts, done after" in said
    assert "without: first token after 61 ms" in said


def test_the_headings_tell_which_mode_streams():
    heads = [attrs["class"] for attrs in Page(html_report(compare(FIXED, BROKEN))).all("b")]
    assert heads == ["good", "bad"]


def test_silence_is_drawn_between_the_tokens_around_it():
    page = Page(html_report(compare(server("fixed", stalled(0.5)), BROKEN)))
    gaps = [line for line in page.all("line") if line["class"] == "silence" and "%" in line["x1"]]
    assert len(gaps) == 1
    assert float(gaps[0]["x2"][:-1]) - float(gaps[0]["x1"][:-1]) == pytest.approx(
        0.5 / BROKEN.clients[-1].ended_at * 86, abs=0.1
    )


def test_the_page_says_what_the_terminal_says():
    said = Page(html_report(COMPARISON)).said
    for reason in COMPARISON.verdict.reasons:
        assert reason.replace("`", "") in said.replace("done ;", "done;")
    for line in (JOINED_BODY, LEFT_OPEN, NOT_SHOWN):
        assert line.sentence in said
        assert line.evidence in said
    assert "only at exit, 5.20 s late" in said
    assert "72 more tokens after the clients had left; 1 without it" in said
    assert "Did not show here: accumulator." in said


def test_what_a_server_says_is_never_markup():
    nasty = "<script>alert(1)</script> & `<b>x</b>`"
    run = server("broken", client((), "error", code=nasty, ended_at=1.0))
    markup = html_report(compare(FIXED, run, fault("joined_body", run, evidence=nasty, sentence=nasty)))
    assert "<script" not in markup
    assert "<b>x" not in markup
    assert "<code>&lt;b&gt;x&lt;/b&gt;</code>" in markup
