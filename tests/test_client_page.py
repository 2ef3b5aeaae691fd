"""docs/client.md: its tables are those of the code, its examples run in Chromium."""

from __future__ import annotations

import json
import re
import secrets
from typing import Any

from client_page import page_app, shown
from flask import Response
from pages import Page, code
from recorded import script
from test_client_js import MOST_BYTES, needs_chromium

from flaskstream.client_js import MAX_AGE, SOURCE

PAGE = Page("docs/client.md")
CHAT, (CALLBACKS, RELOADED) = PAGE.blocks("html")[0], PAGE.blocks("js")
CODE = SOURCE.read_text("utf-8")
CALLBACK_OF_LISTEN = ("onevent", "onend", "onerror")


def test_the_options_are_those_of_the_client() -> None:
    declared = re.findall(r"@property \{.*?\} \[(\w+)\]", CODE[CODE.index("@typedef {object} Options") :])
    options = declared[: declared.index("onhint") + 1]
    rows = PAGE.rows("`stream(url, options)`")
    assert [name for name, *_ in rows] == [code(name) for name in options]
    for name, default, _ in rows:
        number = re.fullmatch(r"`(\d+)`", default)
        if number:
            assert re.search(rf"\b{name.strip('`')} = (\w+)", CODE)[1].replace("_", "") == number[1]
    assert tuple(re.findall(r"@property \{.*?\} \[(on\w+)\]", CODE)[-3:]) == CALLBACK_OF_LISTEN


def test_the_codes_are_those_of_the_client() -> None:
    first_cells = [name for name, *_ in PAGE.rows("When the connection is lost")]
    told = {name.strip("`") for name in first_cells if name.startswith("`") and name != "`error.code`"}
    assert told == set(re.findall(r'(?:StreamError|lost)\("(\w+)"', CODE)) | {"error"}
    (states,) = re.findall(r'@typedef \{("new".*?)\} State', CODE)
    for state in set(re.findall(r'"(\w+)"', states)) - {"new"}:
        assert code(state) in PAGE.section("`stream(url, options)`")


def test_the_figures_are_those_of_the_code() -> None:
    assert f"below {MOST_BYTES // 1000} kB minified" in PAGE.text
    assert MAX_AGE == 300 and "for five minutes, then ask" in PAGE.text
    assert "LONGEST_RETRY_AFTER = 300_000" in CODE and "`Retry-After` of at most five minutes" in PAGE.text
    assert "2 ** 24; // of one event" in CODE and "more than 16 million characters" in PAGE.text
    assert "LEAST_DELAY = 250;" in CODE and "at least 250 ms" in PAGE.text
    assert "STOP = 6000;" in CODE and "It has six seconds" in PAGE.text


ASKED = """
    const chosen = { model: "%s" };
    const real = window.fetch;
    window.fetch = (url, init) => {
      const isQuestion = url.endsWith("/chat");
      return real(url, isQuestion ? { ...init, body: JSON.stringify({ ...JSON.parse(init.body), ...chosen }) } : init);
    };
"""
"""Has the questions of an example answered by the script of a test."""


def app_with(model: Any, said: Any, body: str, module: str = "") -> Any:
    app = page_app(ASKED % said.model + body, upstream=model.url, store="memory:", retry=100)
    for name, block in (("callbacks", CALLBACKS), ("reloaded", RELOADED), ("example", module)):
        served = Response(block, mimetype="text/javascript")
        app.add_url_rule(f"/{name}.js", name, lambda served=served: served)
    return app


def told_by(app: Any) -> Any:
    with shown(app) as heard:
        told = heard()
    assert not isinstance(told, str), told
    return told


@needs_chromium
def test_the_page_asks_paints_and_stops(model: Any) -> None:
    said = script(f"page-{secrets.token_hex(4)}", tokens=12, interval_ms=60)
    markup, module = CHAT.split('<script type="module">')
    body = f"""
        document.body.insertAdjacentHTML("beforeend", {json.dumps(markup.replace("<!doctype html>", ""))});
        await import("/example.js");
        const answer = document.querySelector("#answer");
        const button = document.querySelectorAll("button")[1];
        const ask = async (q) => {{
          form.q.value = q;
          form.requestSubmit();
          await until(0);
        }};
        const form = document.querySelector("form");
        await ask("hello");
        await ask("hello"); // while the answer comes: nothing
        const isOffered = !button.disabled;
        while (!button.disabled) await until(20);
        await until(300); // whatever is not painted yet
        const whole = answer.textContent;
        await ask("again");
        while (!answer.textContent) await until(20);
        button.click();
        while (!button.disabled) await until(20);
        const trouble = document.querySelector("#trouble").textContent;
        return {{ isOffered, whole, stopped: answer.textContent, trouble }};
    """
    told = told_by(app_with(model, said, body, module=module.replace("</script>", "")))
    assert (told["isOffered"], told["whole"], told["trouble"]) == (True, said.text, "")
    assert said.text.startswith(told["stopped"]) and told["stopped"] != said.text


@needs_chromium
def test_the_effect_tells_its_text_and_its_end_and_undoes_itself(model: Any) -> None:
    said = script(f"effect-{secrets.token_hex(4)}", tokens=8, interval_ms=30)
    body = """
        const { answer } = await import("/callbacks.js");
        const texts = [];
        const onText = (text) => texts.push(text);
        const state = await new Promise((onEnd, onError) => answer("hello", { onText, onEnd, onError }));
        const called = [];
        const note = () => called.push(1);
        answer("again", { onText: note, onEnd: note, onError: note })();
        await until(300);
        return { text: texts.at(-1), updates: texts.length, state, called };
    """
    told = told_by(app_with(model, said, body))
    assert told == {"text": said.text, "updates": said.tokens + 1, "state": "done", "called": []}


@needs_chromium
def test_an_answer_is_gone_on_with_after_a_reload(model: Any) -> None:
    said = script(f"reloaded-{secrets.token_hex(4)}", tokens=20, interval_ms=50)
    body = """
        const { ask, goOn } = await import("/reloaded.js");
        const texts = [];
        const show = (text) => texts.push(text);
        if (!sessionStorage.answer) await ask("hello", (text) => text.length > 20 && location.reload());
        const seen = [];
        goOn((text) => seen.push(text)); // another one ends it
        await goOn(show);
        if (seen.length !== 1) throw Error("two loops");
        return { first: texts[0], text: texts.at(-1) };
    """
    told = told_by(app_with(model, said, body))
    assert told["text"] == said.text and 20 < len(told["first"]) < len(said.text)
    assert len([call for call in model.requests() if call["model"] == said.model]) == 1
