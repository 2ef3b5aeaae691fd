"""The page /compare in Chromium: what it shows of both sides, what can be done with it, and by whom."""

from __future__ import annotations

import re

import pytest
from client_page import page_app
from compare_page import PHONE, chromium, served, visited
from marked import Mark
from test_client_js import needs_node, run, tool

from flaskstream.lab.faults import FAULTS
from flaskstream.lab.model.script import Script
from flaskstream.testing import serve

STATUS_APART_MS = 2000
"""Two sentences to a screen reader are further apart than that."""


@pytest.fixture(scope="module")
def servers():
    mark = Mark()
    with served(mark) as (_, urls):
        yield urls


@pytest.fixture(scope="module")
def started():
    with chromium() as browser:
        yield browser


@pytest.fixture
def page(started, servers):
    with visited(started, servers["page"]) as page:
        yield page


RECORD = """
    window.seen = { broken: [], fixed: [], status: [] };
    for (const [name, place] of [["broken", "#broken .answers"], ["fixed", "#fixed .answers"], ["status", "#status"]])
        new MutationObserver(() => seen[name].push([performance.now(), document.querySelector(place).textContent]))
            .observe(document.querySelector(place), { subtree: true, childList: true, characterData: true });
"""
"""Has the page note when what it shows changes."""


# What it shows.


def test_tokens_appear_one_by_one_on_the_fixed_side_and_at_once_on_the_broken_one(page):
    said = Script(tokens=20, interval_ms=100)
    page.set("broken", readers=1, tokens=said.tokens, interval=said.interval_ms)
    page.tab.evaluate(RECORD)
    page.press("start")
    page.until_figure("fixed", "ended", "✓ done")
    page.until_figure("broken", "ended", "✓ done")
    seen = page.tab.evaluate("seen")
    assert page.text("fixed") == page.text("broken") == said.text
    times = {side: [at for at, text in seen[side] if text] for side in ("fixed", "broken")}
    length = (said.tokens - 1) * said.interval_ms
    assert len(times["fixed"]) >= said.tokens * 0.6  # a busy machine has two of them in one frame
    assert times["fixed"][-1] - times["fixed"][0] > length * 0.7
    assert times["broken"][-1] - times["broken"][0] < length * 0.3
    assert times["broken"][0] - times["fixed"][0] > length * 0.5
    assert page.figure("broken", "arrived").endswith(f"{said.tokens} events")


def test_the_debug_lines_come_as_they_come_out(page):
    page.set("unflushed_print", readers=1, tokens=12, interval=50)
    page.press("start")
    page.until_figure("fixed", "ended", "✓ done")
    page.until_figure("broken", "ended", "✓ done")
    page.until_figure("fixed", "lines", "12 came out")
    assert page.figure("broken", "lines") == "none came out yet"
    assert page.tab.locator("#fixed .lines li").count() == 12
    assert "wire=" in page.tab.locator("#fixed .lines li").first.inner_text()


def test_debug_lines_of_another_run_are_not_this_one_s(page):
    for tokens in (20, 60):  # the buffer is full in the second run, and the lines of the first come out
        page.set("unflushed_print", readers=1, tokens=tokens, interval=10)
        page.press("start")
        page.until_over()
    page.until_figure("fixed", "lines", "60 came out")
    page.until_figure("broken", "lines", "of 60 came out")
    lines = page.tab.locator("#broken .lines li").all_inner_texts()
    assert page.figure("broken", "lines").startswith(f"{len(lines)} of 60")
    assert len({re.search(r"stream=(\S+)", line)[1] for line in lines}) == 1
    assert "event=1 " in lines[0]


def test_the_timeline_is_drawn_and_said(page):
    page.set("joined_body", readers=1, tokens=10, interval=60)
    page.press("start")
    page.until_over()
    page.until("document.querySelector('#fixed canvas').getAttribute('aria-label').includes('done')")
    for side in ("broken", "fixed"):
        colors = page.tab.evaluate(
            """(side) => {
                const canvas = document.querySelector(`#${side} canvas`);
                const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
                const seen = new Set();
                for (let n = 0; n < data.length; n += 4) if (data[n + 3] === 255) seen.add(`${data.slice(n, n + 3)}`);
                return [...seen];
            }""",
            side,
        )
        assert {"broken": "191,59,48", "fixed": "26,127,75"}[side] in colors
        label = page.tab.get_attribute(f"#{side} canvas", "aria-label")
        assert "First token: after" in label and "Ended: ✓ done" in label


def test_readers_who_come_at_once_are_served_one_after_the_other_by_a_sync_worker(page):
    page.set("sync_worker", tokens=10, interval=60)
    assert page.tab.input_value("#readers") == "2"  # it takes two to show
    page.tab.evaluate(RECORD)
    page.press("start")
    page.until_over()
    assert page.tab.locator("#broken .answer").all_inner_texts() == [Script(tokens=10).text] * 2
    first = {side: page.figure(side, "first") for side in ("broken", "fixed")}
    assert all(text.endswith(", the slowest") for text in first.values())
    assert _ms(first["broken"]) > _ms(first["fixed"]) + 9 * 60 * 0.7


def _ms(text):
    number, unit = text.split(",")[0].replace("after ", "").split()
    return float(number) * (1000 if unit == "s" else 1)


# What can be done.


def test_a_mistake_is_chosen_told_and_shown(page):
    page.set("token_accumulator")
    fault = FAULTS["token_accumulator"]
    assert [page.tab.inner_text(f"#{name}") for name in ("sentence", "met", "cure")] == [
        fault.sentence,
        fault.met,
        fault.cure,
    ]
    assert page.tab.locator("#fault option").all_inner_texts()[1:] == list(FAULTS)
    page.set(tokens=20, interval=30)
    page.press("start")
    page.until_over()
    pieces = {side: int(page.figure(side, "arrived").split()[0]) for side in ("broken", "fixed")}
    assert 1 <= pieces["broken"] < 6 < pieces["fixed"]


def test_a_page_that_is_loaded_anew_goes_on_and_nothing_is_paid_for_twice(page):
    said = Script(tokens=40, interval_ms=100)
    page.set("joined_body", readers=1, tokens=said.tokens, interval=said.interval_ms)
    page.press("start")
    page.until_text("fixed", 20)
    with page.tab.expect_navigation():
        page.press("reload")
    page.until_figure("fixed", "ended", "not yet")
    page.until_text("fixed", 20)
    page.until_figure("fixed", "ended", "✓ done")
    assert page.text("fixed") == said.text
    assert page.figure("fixed", "arrived").endswith(f" {said.tokens} events")
    page.until_figure("fixed", "said", "asked once; over")
    assert page.figure("fixed", "said").startswith(f"{said.tokens} tokens")
    assert "lost" in page.figure("broken", "ended") and page.text("broken") == ""
    for kept in (None, "{not JSON", "{}"):  # it is over; and what makes no sense is nothing
        if kept:
            page.tab.evaluate("(kept) => sessionStorage.setItem('flaskstream compare', kept)", kept)
        page.tab.reload()
        page.until_over()
        assert page.tab.locator(".answer").count() == 0


def test_a_page_that_is_loaded_anew_before_it_is_answered_gets_the_answer_all_the_same(page, servers):
    asked = servers["fixed"] + "/stream/chat?*"
    answered = []

    def swallow_the_first(route):
        answered.append(route)
        if len(answered) > 1:
            route.continue_()
        else:
            route.fetch()  # the server answers, and the page does not know

    page.tab.route(asked, swallow_the_first)
    page.set("token_accumulator", readers=1, tokens=8, interval=20)
    page.press("start")
    page.until_figure("fixed", "said", "8 tokens")
    with page.tab.expect_navigation():
        page.press("reload")
    page.until_figure("fixed", "ended", "✓ done")
    assert page.text("fixed") == Script(tokens=8).text
    page.until_figure("fixed", "said", "8 tokens, asked once; over")
    assert len(answered) == 2


def test_a_start_can_be_stopped_and_one_that_fails_is_told(page):
    page.tab.route("**/choice?*", lambda route: None)
    page.set("token_accumulator", readers=1, tokens=8, interval=20)
    page.tab.focus("#tokens")
    page.tab.keyboard.press("Enter")
    page.until("document.querySelector('#stop').getAttribute('aria-disabled') === 'false'")
    fields = page.tab.locator("input, select")
    assert not any(fields.nth(n).is_enabled() for n in range(fields.count()))  # they say what runs
    assert page.tab.evaluate("document.activeElement.id") == "start"
    page.press("stop")
    page.until_over()
    assert page.tab.locator("#broken .hint").inner_text() == "Stopped before it began."
    page.press("start")
    with page.tab.expect_navigation():
        page.press("reload")
    page.until_figure("fixed", "ended", "✓ done")  # it needs nobody else
    page.until_over()
    page.tab.unroute("**/choice?*")
    no = {"status": 503, "headers": {"Access-Control-Allow-Origin": "*"}, "json": {"error": "no gunicorn here"}}
    page.tab.route("**/choice?*", lambda route: route.fulfill(**no))
    page.press("start")
    page.until("document.querySelector('#broken .hint').textContent.includes('no gunicorn here')")
    page.until_over()
    assert page.tab.locator("#broken .hint").is_visible() and page.tab.locator(".answer").count() == 0
    page.tab.unroute("**/choice?*")
    page.press("start")
    page.until_figure("fixed", "ended", "✓ done")
    assert not page.tab.locator("#broken .hint").is_visible()


def test_without_a_server_stop_ends_it_on_the_page(page):
    page.set("token_accumulator", readers=1, tokens=100, interval=100)
    page.press("start")
    page.until_text("fixed", 5)
    page.tab.route("**/streams/*", lambda route: route.abort())
    page.press("stop")
    page.until_over()
    assert "■ left" in page.figure("fixed", "ended")
    assert "could not be told to stop" in page.tab.inner_text("#fixed .hint")


def test_stop_stops_the_upstream_and_the_broken_side_pays_on(page):
    page.set("upstream_left_open", readers=1, tokens=60, interval=50)
    page.press("start")
    page.until_text("fixed", 10)
    page.until_text("broken", 10)
    page.press("stop")
    page.until_over()
    page.until_figure("fixed", "said", "; over")
    page.until_figure("broken", "said", "; over")
    assert int(page.figure("fixed", "said").split()[0]) < 60
    assert page.figure("broken", "said").startswith("60 tokens")
    assert "■ stopped" in page.figure("fixed", "ended") and "■ left" in page.figure("broken", "ended")


def test_half_an_answer_is_an_error_on_the_fixed_side_and_looks_whole_on_the_broken_one(page):
    page.set("cut_looks_whole", readers=1, tokens=40, interval=20)
    page.press("start")
    page.until_over()
    assert "upstream_truncated" in page.figure("fixed", "ended")
    assert "✓ done" in page.figure("broken", "ended")


def test_it_can_be_started_again_and_what_was_shown_is_gone(page):
    page.set("joined_body", readers=2, tokens=6, interval=20)
    for readers in (2, 1):
        page.set(readers=readers)
        page.press("start")
        page.until_over()
        assert page.tab.locator("#fixed .answer").all_inner_texts() == [Script(tokens=6).text] * readers


# Who can use it.


def test_the_keyboard_is_enough(page):
    tab = page.tab
    order = []
    for _ in range(8):
        tab.keyboard.press("Tab")
        order.append(tab.evaluate("document.activeElement.id"))
    assert order == ["question", "fault", "readers", "tokens", "interval", "start", "stop", "reload"]
    tab.focus("#fault")
    tab.keyboard.type("late")
    assert tab.input_value("#fault") == "late_reader" and FAULTS["late_reader"].sentence in tab.inner_text("#sentence")
    tab.focus("#tokens")
    tab.keyboard.press("Control+A")
    tab.keyboard.type("60")
    tab.focus("#start")
    outline = tab.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    tab.keyboard.press("Enter")
    page.until_text("fixed", 5)
    assert (outline, tab.evaluate("document.activeElement.id")) == ("solid", "start")  # it keeps its place
    tab.keyboard.press("Enter")  # a second time: nothing
    tab.keyboard.press("Tab")
    tab.keyboard.press("Space")
    page.until_over()
    assert "■ stopped" in page.figure("fixed", "ended")
    tab.keyboard.press("Tab")
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.className") == "answer"  # what scrolls can be reached


def test_a_screen_reader_hears_a_few_sentences_and_finds_names_and_headings(page):
    page.set("joined_body", readers=2, tokens=40, interval=60)
    page.tab.evaluate(RECORD)
    page.press("start")
    page.until_over()
    page.until("document.querySelector('#status').textContent.includes('done')")
    spoken = page.tab.evaluate("seen.status")
    times = [at for at, _ in spoken]
    assert 2 <= len(times) <= 6
    assert all(later - earlier > STATUS_APART_MS for earlier, later in zip(times, times[1:]))
    assert any("the first token came after" in text for _, text in spoken)
    assert page.tab.get_attribute("#status", "aria-live") == "polite"
    assert page.tab.locator("[aria-live], [role=log], [role=alert]").count() == 1  # tokens are not read out
    headings = page.tab.evaluate("[...document.querySelectorAll('h1, h2, h3')].map(({ tagName }) => tagName)")
    assert headings[:2] == ["H1", "H2"] and headings.count("H1") == 1
    assert all(page.tab.get_by_role("button", name=name).is_visible() for name in ("Start", "Stop"))
    for label in ("Question", "Mistake of the broken side", "Readers", "Tokens", "Interval, ms"):
        assert page.tab.get_by_label(label, exact=True).is_visible()
    assert page.tab.get_by_role("group", name="Fixed, reader 2").is_visible()
    assert page.tab.get_by_role("region", name="Broken").is_visible()


CONTRAST = """
    () => {
        const channel = (c) => ((c /= 255), c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
        const light = (color) => {
            const [r, g, b] = color.match(/[\\d.]+/g).map(Number).map(channel);
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const behind = (element) => {
            const { backgroundColor } = getComputedStyle(element);
            return /, 0\\)$/.test(backgroundColor) ? behind(element.parentElement) : backgroundColor;
        };
        const texts = "h1, h2, h3, p, label, dt, dd, button, input, select, .answer, li";
        const visible = [...document.querySelectorAll(texts)]
            .filter((element) => element.checkVisibility());
        return visible.map((element) => {
            const [one, other] = [light(getComputedStyle(element).color), light(behind(element))];
            const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
            return [ratio, element.id || element.textContent.slice(0, 40)];
        });
    }
"""
"""Of each text the ratio of https://www.w3.org/TR/WCAG21/#contrast-minimum, which wants 4.5."""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_text_can_be_read_in_both_themes(started, servers, theme):
    with visited(started, servers["page"], color_scheme=theme) as page:
        page.set("joined_body", readers=1, tokens=10, interval=20)
        page.press("start")
        page.until_over()
        ratios = page.tab.evaluate(CONTRAST)
        assert len(ratios) > 30 and min(ratios)[0] >= 4.5, min(ratios)
        paper = page.tab.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (paper == "rgb(255, 255, 255)") == (theme == "light")


@pytest.mark.parametrize("width", [320, PHONE["width"]])
def test_a_phone_has_nothing_to_scroll_sideways(started, servers, width):
    with visited(started, servers["page"], viewport={**PHONE, "width": width}, is_mobile=True, has_touch=True) as page:
        page.set("token_accumulator", readers=2, tokens=20, interval=20)
        page.tab.tap("#start")
        page.until_over()
        page.until_figure("fixed", "lines", "came out")
        assert page.tab.evaluate("document.documentElement.scrollWidth") <= width
        wide = page.tab.evaluate(
            "(width) => [...document.querySelectorAll('main *')].filter((one) => one.checkVisibility()"
            " && one.getBoundingClientRect().right > width).map((one) => one.outerHTML.slice(0, 80))",
            width,
        )
        assert wide == []
        small = page.tab.evaluate(
            "[...document.querySelectorAll('button, input, select')].filter((one) => one.checkVisibility()"
            " && one.getBoundingClientRect().height < 44).map(({ id }) => id)"
        )
        assert small == []


# Without a second server, and when connections run out.


@pytest.fixture
def plain(model):
    with serve(page_app("", upstream=model.url)) as server:
        yield server.url + "/stream/compare"


def test_without_a_second_server_it_shows_the_fixed_side_and_says_how_to_get_the_other(started, plain):
    with visited(started, plain) as page:
        assert page.tab.get_by_text("flaskstream compare --serve").is_visible()
        assert not page.tab.locator("#fault").is_visible() and not page.tab.locator("#broken canvas").is_visible()
        page.press("start")
        page.until_figure("fixed", "ended", "✓ done")
        assert page.text("fixed") == Script().text


def test_a_seventh_connection_gets_a_hint_and_not_silence(started, plain, model):
    """Chromium has six connections for one server of HTTP/1.1, over all tabs."""
    with visited(started, plain) as first:
        tabs = [first, *(type(first)(first.tab.context, plain) for _ in range(2))]
        asked = "/stream/chat?q=hello&model=silent%3Fslow_headers_ms%3D600000"
        for tab in tabs[:2]:  # uncached, or they wait for each other
            ask = f"fetch({asked!r}, {{ cache: 'no-store' }}).catch(() => {{}})"
            tab.tab.evaluate(f"for (let n = 0; n < 3; n++) {ask}; null")
        tabs[2].press("start")
        tabs[2].until("document.querySelector('#fixed .hint').textContent.includes('six connections')")
        for tab in tabs:
            tab.check()


def test_a_seventh_tab_gets_a_hint_and_not_silence(started, servers):
    """Each tab has a connection of its own to the desk, for the debug lines."""
    with visited(started, servers["page"]) as first:
        for _ in range(5):
            type(first)(first.tab.context, servers["page"])
        seventh = first.tab.context.new_page()
        seventh.goto(servers["page"])
        seventh.get_by_text("The desk has not answered yet. By HTTP/1.1 a browser opens six connections").wait_for()


# What it is made of.


@needs_node
def test_its_types_are_right():
    run("node", tool("typescript", "tsc"), "--project", "tsconfig.compare.json")
