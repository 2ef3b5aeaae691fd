"""The browser client in Chromium: how it paints, and what pages go through."""

from __future__ import annotations

import secrets
import time
from typing import Any

import pytest
from client_page import page_app, shown
from flask import Response
from recorded import script
from test_client_js import needs_chromium

pytestmark = needs_chromium

BOX = """
    document.body.innerHTML = '<div id="box" style="height: 200px; overflow: auto"><p id="out"></p></div>';
    const box = document.getElementById("box");
    const out = document.getElementById("out");
    out.style.whiteSpace = "pre-wrap";
    const painter = client.paint(out);
    const line = (n) => `line ${n}\\n`;
"""


def tried(body: str, **options: Any) -> Any:
    """Return what the body of an async function returns in a page with the client."""
    with shown(page_app(BOX + body, **options)) as heard:
        told = heard()
    assert not isinstance(told, str), told  # what went wrong in the page
    return told


def test_tokens_appear_one_by_one(model: Any) -> None:
    said = script(f"painted-{secrets.token_hex(4)}", tokens=16, interval_ms=100)
    told = tried(
        f"""
        const painted = [];
        new MutationObserver(() => painted.push([performance.now(), out.textContent.length]))
            .observe(out, {{ subtree: true, childList: true, characterData: true }});
        const body = {{ q: "hello", model: "{said.model}" }};
        for await (const event of client.stream("/stream/chat", {{ body }})) painter.take(event);
        painter.flush();
        await frame();
        return {{ painted, text: out.textContent }};
        """,
        upstream=model.url,
        store="memory:",
    )
    assert told["text"] == said.text
    times = [at for at, _ in told["painted"]]
    assert len(times) >= said.tokens * 0.7  # a machine that is busy for a moment has two of them in one frame
    assert times[-1] - times[0] > (said.tokens - 1) * said.interval_ms * 0.7


PACE = 1000  # tokens a second
SECONDS, ROUNDS = 1, 3


def test_a_thousand_tokens_a_second_cost_no_frames() -> None:
    """The same page, behind a long answer, without painting and with it, in turns.

    The best round of each counts: a machine is busy at times.
    """
    told = tried(
        f"""
        const tokens = {PACE * SECONDS};
        async function run(add) {{
          let frames = 0;
          let isOver = false;
          const count = () => isOver || ((frames += 1), requestAnimationFrame(count));
          requestAnimationFrame(count);
          const began = performance.now();
          const elapsed = () => performance.now() - began;
          async function* pieces() {{
            for (let n = 0; n < tokens; ) {{
              await until(4);
              let lines = "";
              for (const due = Math.min(tokens, elapsed() * {PACE} / 1000); n < due; n++)
                lines += `data: ${{JSON.stringify({{ t: n % 40 ? ` word${{n}}` : "\\n" }})}}\\n\\n`;
              yield new TextEncoder().encode(lines);
            }}
            yield new TextEncoder().encode("event: done\\ndata: {{}}\\n\\n");
          }}
          const source = pieces();
          const pull = async (to) => {{
            const {{ done, value }} = await source.next();
            done ? to.close() : to.enqueue(value);
          }};
          const fetch = async () =>
            new Response(new ReadableStream({{ pull }}), {{ headers: {{ "Content-Type": "text/event-stream" }} }});
          for await (const event of client.stream("/", {{ fetch }})) add(event);
          isOver = true;
          return {{ frames, seconds: elapsed() / 1000 }};
        }}
        for (let n = 0; n < 20_000; n++) {{
          painter.add(n % 40 ? " before" : "\\n");
          if (n % 100 === 0) painter.flush();
        }}
        painter.flush();
        const [read, painted] = [[], []];
        for (let round = 0; round < {ROUNDS}; round++) {{
          read.push(await run((event) => event.event === "message" && JSON.parse(event.data).t));
          painted.push(await run(painter.take));
          painter.flush();
        }}
        const scrolled = box.scrollHeight - box.scrollTop - box.clientHeight;
        const words = out.textContent.split(" word").length - 1;
        return {{ read, painted, words, scrolled }};
        """
    )
    assert told["words"] == PACE * SECONDS * ROUNDS * 39 / 40
    assert abs(told["scrolled"]) < 2
    read, painted = (max(run["frames"] / run["seconds"] for run in told[name]) for name in ("read", "painted"))
    assert painted > read * 0.6  # measured: 0.98; and 0.06 where each token is painted by itself
    read, painted = (min(run["seconds"] for run in told[name]) for name in ("read", "painted"))
    assert painted < read * 1.5


def test_what_comes_in_one_frame_is_painted_at_once() -> None:
    told = tried("""
        let changes = 0;
        const observer = new MutationObserver((seen) => (changes += seen.length));
        observer.observe(out, { subtree: true, childList: true, characterData: true });
        for (let n = 0; n < 500; n++) painter.add(line(n));
        const before = out.textContent;
        await frame();
        await frame();
        return { before, changes, lines: out.textContent.split("\\n").length - 1 };
    """)
    assert told == {"before": "", "changes": 1, "lines": 500}


def test_a_selection_survives() -> None:
    told = tried("""
        for (let n = 0; n < 3; n++) painter.add(line(n));
        painter.flush();
        getSelection().setBaseAndExtent(out.firstChild, 5, out.firstChild, 13);
        const before = String(getSelection());
        for (let n = 0; n < 2000; n++) {
          painter.add(line(n));
          if (n % 100 === 0) painter.flush();
        }
        painter.flush();
        return { before, after: String(getSelection()), length: out.textContent.length };
    """)
    assert told["before"] == told["after"] == "0\nline 1"
    assert told["length"] > 10_000


def test_whoever_is_at_the_end_stays_there_and_whoever_has_scrolled_up_stays_too() -> None:
    told = tried("""
        const more = async () => {
          for (let n = 0; n < 50; n++) painter.add(line(n));
          await frame();
          await frame();
          return [box.scrollTop, box.scrollHeight - box.clientHeight];
        };
        const atEnd = [await more(), await more()];
        box.scrollTop = 300;
        const above = [await more(), await more()];
        box.scrollTop = box.scrollHeight;
        return { atEnd, above, again: [await more()] };
    """)
    for top, bottom in told["atEnd"] + told["again"]:
        assert abs(bottom - top) < 2 and bottom > 300
    assert [top for top, _ in told["above"]] == [300, 300]


def test_text_is_text_and_a_reset_empties() -> None:
    told = tried("""
        out.append("before ");
        painter.add("<img src=x onerror=alert(1)><b>&amp;");
        painter.flush();
        const [text, elements] = [out.textContent, out.children.length];
        painter.add("never painted");
        painter.take({ event: "reset", data: "{}", id: undefined, lastEventId: "" });
        painter.take({ event: "ping", data: "{}", id: undefined, lastEventId: "" });
        painter.take({ event: "message", data: '{"t":"anew"}', id: undefined, lastEventId: "" });
        painter.flush();
        return { text, elements, anew: out.textContent };
    """)
    assert told == {"text": "before <img src=x onerror=alert(1)><b>&amp;", "elements": 0, "anew": "before anew"}


def test_a_page_without_frames_is_painted_too() -> None:
    told = tried("""
        window.requestAnimationFrame = () => 1; // as in a hidden tab: it is never called
        const seen = new Promise((resolve) => new MutationObserver(resolve).observe(out, { childList: true }));
        painter.add("hidden");
        await seen;
        return { text: out.textContent };
    """)
    assert told == {"text": "hidden"}


def test_the_seventh_connection_gets_a_hint() -> None:
    """Chromium has six connections for one server; Werkzeug's speaks HTTP/1.1."""
    app = page_app("""
        const events = Array.from({ length: 6 }, () => client.listen("/silent"));
        const hint = await new Promise((onhint) => client.listen("/silent", { hintAfter: 500, onhint }));
        const states = events.map(({ state }) => state);
        events.forEach((one) => one.close());
        return { hint, states };
    """)

    @app.route("/silent")
    def silent() -> Response:
        def beats() -> Any:
            while True:
                yield ": hb\n"
                time.sleep(0.1)

        return Response(beats(), mimetype="text/event-stream")

    with shown(app) as heard:
        told = heard()
    assert "six connections" in told["hint"] and told["states"] == ["open"] * 6


@pytest.mark.parametrize("way", ["reload", "back"])
def test_a_page_that_is_left_and_comes_back_loses_nothing(model: Any, way: str) -> None:
    """By a reload, with what it has kept; by the back button, whole, as browsers keep pages for a while."""
    said = script(f"left-{secrets.token_hex(4)}", tokens=40, interval_ms=50)
    app = page_app(
        f"""
        const kept = JSON.parse(sessionStorage.kept ?? "null");
        let text = kept?.text ?? "";
        let lost = 0;
        let persisted = false;
        addEventListener("pageshow", (event) => (persisted ||= event.persisted));
        const body = {{ q: "hello", model: "{said.model}" }};
        const events = kept
          ? client.stream(kept.location, {{ lastEventId: kept.lastEventId }})
          : client.stream("/stream/chat", {{ body, onretry: () => (lost += 1) }});
        let heard = 0;
        for await (const event of events) {{
          if (event.event === "message") text += JSON.parse(event.data).t;
          const {{ location: place, lastEventId }} = events;
          sessionStorage.kept = JSON.stringify({{ text, location: place, lastEventId }});
          if (!kept && ++heard === 5) "{way}" === "reload" ? location.reload() : (location.href = "/away");
        }}
        return {{ text, persisted, lost, isAnew: Boolean(kept), state: events.state }};
        """,
        upstream=model.url,
        store="memory:",
        retry=100_000,  # longer than the test: who is shown again does not wait for it
    )
    app.add_url_rule("/away", "away", lambda: "<!doctype html><script>setTimeout(() => history.back(), 300)</script>")
    with shown(app) as heard:
        told = heard()
    assert (told["text"], told["state"]) == (said.text, "done")
    assert len([call for call in model.requests() if call["model"] == said.model]) == 1
    assert told["isAnew"] or (told["persisted"] and told["lost"] == 1)
