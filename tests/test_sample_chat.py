"""samples/chat in Chromium: a person logs in, asks, stops, and loads the page anew in the middle of an answer."""

from __future__ import annotations

import copy
import os
import pathlib
import re
import signal
import time
from typing import Any, Iterator

import driven
import pytest
from recorded import wait_until

from flaskstream.lab.gunicorn import GunicornProcess
from flaskstream.lab.model.script import Script
from flaskstream.lab.processes import ModelProcess

pytestmark = pytest.mark.skipif(driven.missing() is not None, reason=str(driven.missing()))
pytest.importorskip("flask_wtf", reason="Flask-WTF is not installed")

FOLDER = pathlib.Path(__file__).parent.parent / "samples" / "chat"
SCRIPT = Script("chat", tokens=30, interval_ms=80)
FEW = 4  # tokens, after which something happens to an answer
PATIENCE_MS = 30_000

# Notes how long the last article is, and when, each time that it changes.
WATCH = """
  window.growth = [];
  addEventListener("DOMContentLoaded", () => {
    const chat = document.querySelector("#chat");
    const look = () => growth.push([performance.now(), chat.lastElementChild?.textContent.length ?? 0]);
    if (chat) new MutationObserver(look).observe(chat, { subtree: true, childList: true, characterData: true });
  });
"""


@pytest.fixture(scope="module")
def model() -> Iterator[ModelProcess]:
    with ModelProcess() as process:
        yield process


@pytest.fixture(scope="module")
def server(model: ModelProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GunicornProcess]:
    store = f"sqlite:{tmp_path_factory.mktemp('chat')}/streams.db"
    settings = {"upstream": model.url, "model": SCRIPT.model, "store": store}
    with GunicornProcess(settings, app="chat:app", folder=str(FOLDER), config="../../gunicorn.conf.py") as process:
        process.wait_until_it_answers("/login")
        yield process


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with driven.chromium() as running:
        yield running


class Person:
    """Somebody with a browser of their own.

    Attributes:
        page: Playwright's.
        web: asks as the page would, with its cookies, and without its script.
        visits: the responses to what was asked under `/stream/`, in order.
        complaints: what the browser found wrong with the page, such as a breach of its policy.
    """

    def __init__(self, chromium: Any, url: str, **options: Any) -> None:
        self.url = url
        self.visits: list[Any] = []
        self.complaints: list[str] = []
        self._context = chromium.new_context(**options)
        self._context.add_init_script(WATCH)
        self._context.set_default_timeout(PATIENCE_MS)
        self.web = self._context.request
        self.page = self._tab()

    def _tab(self) -> Any:
        page = self._context.new_page()
        page.on("response", self._note)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", self._hear)
        return page

    def another_tab(self) -> Person:
        """The same person, who is logged in, at the same page once more."""
        other = copy.copy(self)
        other.page = self._tab()
        other.page.goto(self.url)
        return other

    def _note(self, response: Any) -> None:
        if "/stream/" in response.url and not response.url.endswith(".js"):
            self.visits.append(response)

    def _hear(self, message: Any) -> None:
        is_complaint = message.type in ("error", "warning")
        if is_complaint and "Failed to load resource" not in message.text:  # of what a test is about
            self.complaints.append(message.text)

    def log_in(self, name: str = "ada", password: str = "lovelace") -> Person:
        self.page.goto(self.url)
        self.page.get_by_label("Name").fill(name)
        self.page.get_by_label("Password").fill(password)
        self.page.get_by_role("button", name="Log in").click()
        return self

    def ask(self, question: str = "Why?") -> Person:
        self.page.get_by_label("Question").fill(question)
        self.page.get_by_role("button", name="Ask").click()
        return self

    def wait_for(self, tokens: int) -> str:
        """Wait until so much of the answer is shown; return what is."""
        begun = Script(tokens=tokens).text
        self.page.locator("#chat .assistant", has_text=begun).last.wait_for()
        return self.shown[-1]

    def wait_for_end(self, state: str = "Done.") -> Person:
        self.expect(self.page.get_by_role("status")).to_have_text(state, timeout=PATIENCE_MS)
        return self

    def expect(self, what: Any) -> Any:
        from playwright.sync_api import expect

        return expect(what)

    @property
    def articles(self) -> Any:
        return self.page.locator("#chat article")

    @property
    def shown(self) -> list[str]:
        """All questions and answers."""
        return [str(text) for text in self.articles.evaluate_all("all => all.map(({ textContent }) => textContent)")]

    @property
    def token(self) -> str:
        return str(self.page.locator("meta[name=csrf-token]").get_attribute("content"))

    @property
    def place(self) -> str:
        """Where the last answer is found again."""
        return str(self.url + self.visits[-1].headers["location"])

    @property
    def cookies(self) -> list[Any]:
        return list(self._context.cookies())

    def close(self) -> None:
        self._context.close()


@pytest.fixture
def people(chromium: Any, server: GunicornProcess, model: ModelProcess) -> Iterator[Any]:
    """A function that brings somebody; nobody's browser may have complained in the end."""
    model.forget()
    there: list[Person] = []

    def bring(**options: Any) -> Person:
        there.append(Person(chromium, server.url, **options))
        return there[-1]

    yield bring
    for person in there:
        person.close()
    assert [person.complaints for person in there] == [[] for _ in there]


@pytest.fixture
def ada(people: Any) -> Person:
    found: Person = people().log_in()
    found.expect(found.page.get_by_role("button", name="Ask")).to_be_enabled()  # by its script
    return found


def test_tokens_appear_one_by_one(ada: Person, model: ModelProcess) -> None:
    ada.ask("Why is the sky blue?").wait_for_end()
    assert ada.shown == ["Why is the sky blue?", SCRIPT.text]
    growth = ada.page.evaluate("() => growth")
    paints = [(at, length) for (at, length), (_, before) in zip(growth[1:], growth) if length > before]
    times = [at for at, _ in paints]
    assert len(paints) > SCRIPT.tokens / 2
    assert times[-1] - times[0] > (SCRIPT.tokens - 1) * SCRIPT.interval_ms * 0.7
    gaps = [later - earlier for earlier, later in zip(times, times[1:])]
    assert sum(gap > SCRIPT.interval_ms / 5 for gap in gaps) >= len(gaps) / 2


def test_a_conversation_is_sent_as_a_whole_and_text_is_text(ada: Person) -> None:
    first, second = "<b onclick=alert(1)>bold</b>", "And two\nlines?"
    ada.ask(first).wait_for_end()
    with ada.page.expect_request("**/stream/chat") as asked:
        ada.ask(second)
    ada.wait_for_end()
    assert ada.shown == [first, SCRIPT.text, second, SCRIPT.text]
    assert ada.page.locator("#chat b").count() == 0
    assert asked.value.post_data_json["messages"] == [
        {"role": "user", "content": first},
        {"role": "assistant", "content": SCRIPT.text},
        {"role": "user", "content": second},
    ]


def test_stop_stops_the_upstream_by_keyboard_too(ada: Person, model: ModelProcess) -> None:
    ada.page.keyboard.type("One")  # where the page has put the cursor
    ada.page.keyboard.press("Shift+Enter")
    ada.page.keyboard.type("two")
    ada.page.keyboard.press("Enter")
    ada.wait_for(FEW)
    ada.page.keyboard.press("Tab")
    ada.expect(ada.page.get_by_role("button", name="Stop")).to_be_focused()
    ada.page.keyboard.press("Enter")
    ada.wait_for_end("Stopped.")
    ada.expect(ada.page.get_by_label("Question")).to_be_focused()
    wait_until(lambda: model.requests()[-1]["ended"])
    (asked,) = model.requests()
    assert asked["ended"] != "complete" and asked["sent_tokens"] < SCRIPT.tokens
    question, part = ada.shown
    assert question == "One\ntwo" and SCRIPT.text.startswith(part) and part != SCRIPT.text
    ada.page.reload()
    assert ada.shown == [question, part]  # what was said stays


@pytest.mark.parametrize("tokens", [0, FEW])
def test_a_reload_loses_nothing_and_asks_nothing_twice(ada: Person, model: ModelProcess, tokens: int) -> None:
    ada.ask()
    before = ada.wait_for(tokens) if tokens else ""
    ada.page.reload()
    ada.wait_for_end()
    assert before != SCRIPT.text
    assert ada.shown == ["Why?", SCRIPT.text]
    assert [asked["ended"] for asked in model.requests()] == ["complete"]
    ada.page.reload()
    assert ada.shown == ["Why?", SCRIPT.text]
    assert len(model.requests()) == 1


def test_a_restart_of_the_server_is_survived(ada: Person, server: GunicornProcess, model: ModelProcess) -> None:
    ada.ask().wait_for(FEW)
    os.kill(server.pid, signal.SIGHUP)
    ada.wait_for_end()
    assert ada.shown == ["Why?", SCRIPT.text]
    assert [asked["ended"] for asked in model.requests()] == ["complete"]
    assert {visit.url for visit in ada.visits[1:]} == {ada.place}  # the browser may first come back to the old worker
    assert server.errors().count("Booting worker") == 2


def test_a_stream_is_its_owner_s_alone(people: Any, ada: Person) -> None:
    grace = people().log_in("grace", "hopper")
    grace.page.wait_for_selector("#question")
    ada.ask().wait_for(FEW)
    assert ada.web.head(ada.place).status == 200
    assert grace.web.get(ada.place).status == 404
    assert grace.web.delete(ada.place, headers={"X-CSRFToken": grace.token}).status == 404
    ada.wait_for_end()
    assert ada.shown[-1] == SCRIPT.text


def test_without_a_token_nothing_is_asked(ada: Person, model: ModelProcess) -> None:
    for token, status in (("", 400), ("x" + ada.token, 400), (ada.token, 200)):
        assert (
            ada.web.post(ada.url + "/stream/chat", data={"q": "hello"}, headers={"X-CSRFToken": token}).status == status
        )
    assert len(model.requests()) == 1


def test_a_page_whose_token_is_no_longer_good_says_so_and_a_new_one_goes_on(ada: Person) -> None:
    """Its user has logged in once more."""
    again = {"csrf_token": ada.token, "name": "ada", "password": "lovelace"}
    assert ada.web.post(ada.url + "/login", form=again).ok
    ada.ask().wait_for_end(re.compile("Please load this page again"))
    ada.page.reload()
    ada.wait_for_end()
    assert ada.shown == ["Why?", SCRIPT.text]


def test_without_a_login_there_is_nothing(people: Any) -> None:
    nobody = people()
    for path in ("/stream/chat?q=hello", "/stream/client.js"):
        assert nobody.web.get(nobody.url + path).status == 403
    assert nobody.web.get(nobody.url + "/").url.endswith("/login")
    nobody.log_in("ada", "hopper")
    nobody.expect(nobody.page.get_by_role("alert")).to_have_text("This name and password do not go together.")


def test_every_answer_has_the_policy_and_no_script_reads_the_cookie(ada: Person) -> None:
    for path in ("/", "/static/chat.js", "/stream/client.js", "/no-such-page"):
        policy = ada.web.get(ada.url + path).headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self';") and "unsafe" not in policy
        assert "require-trusted-types-for 'script'" in policy and "frame-ancestors 'none'" in policy
    (cookie,) = ada.cookies
    assert cookie["httpOnly"] and cookie["sameSite"] == "Lax"


def test_a_foreign_page_cannot_ask_by_a_link(ada: Person, model: ModelProcess) -> None:
    headers = {"Sec-Fetch-Site": "cross-site"}
    assert ada.web.get(ada.url + "/stream/chat?q=hello", headers=headers).status == 403
    assert model.requests() == []


BAD_GATEWAY = {"status": 502, "content_type": "text/html", "body": "<h1>502 Bad Gateway</h1>"}


def test_an_answer_behind_a_broken_proxy_is_asked_for_again_and_paid_for_once(ada: Person, model: ModelProcess) -> None:
    ada.ask().wait_for(FEW)
    ada.page.route("**/stream/chat", lambda route: route.fulfill(**BAD_GATEWAY))
    for _ in range(2):  # it loses nothing either time
        ada.page.reload()
        ada.wait_for_end("HTTP 502")
    ada.page.unroute("**/stream/chat")
    ada.page.get_by_role("button", name="Try again").click()
    ada.expect(ada.page.get_by_role("button", name="Try again")).to_be_hidden()
    ada.wait_for_end()
    assert ada.shown == ["Why?", SCRIPT.text]
    assert len(model.requests()) == 1


def test_a_question_that_is_not_asked_again_is_given_up(ada: Person, model: ModelProcess) -> None:
    ada.page.route("**/stream/chat", lambda route: route.fulfill(**BAD_GATEWAY))
    ada.ask("Why?").wait_for_end("HTTP 502")
    assert ada.shown == ["Why?", ""]
    ada.page.unroute("**/stream/chat")
    ada.ask("How?").wait_for_end()
    assert ada.shown == ["How?", SCRIPT.text]
    assert len(model.requests()) == 1


@pytest.mark.parametrize("tokens", [0, FEW])
def test_without_a_server_stop_ends_it_on_the_page(ada: Person, tokens: int) -> None:
    if tokens:
        ada.ask().wait_for(tokens)
    ada.page.route("**/stream/**", lambda route: route.abort())
    if not tokens:
        ada.ask().wait_for_end(re.compile("Trying again"))
    ada.page.get_by_role("button", name="Stop").click()
    ada.wait_for_end(re.compile("^Stopped"))
    ada.expect(ada.page.get_by_role("button", name="Ask")).to_be_enabled()
    if tokens:
        assert ada.shown[0] == "Why?" and SCRIPT.text.startswith(ada.shown[1])
    else:  # it goes back to be asked again
        assert ada.shown == []
        ada.expect(ada.page.get_by_label("Question")).to_have_value("Why?")


def test_a_page_without_a_network_says_so_and_waits(ada: Person, model: ModelProcess) -> None:
    ada.page.route("**/stream/chat", lambda route: route.abort())
    ada.ask()
    ada.wait_for_end(re.compile(r"The server cannot be reached\. Trying again in \d s\."))
    ada.page.unroute("**/stream/chat")
    ada.wait_for_end()
    assert ada.shown == ["Why?", SCRIPT.text]
    assert len(model.requests()) == 1


def test_who_logs_out_leaves_nothing_to_the_next_in_any_tab(ada: Person, model: ModelProcess) -> None:
    other = ada.another_tab()
    other.ask("In the other tab?").wait_for(FEW)
    ada.ask().wait_for(FEW)

    def late(route: Any) -> None:  # the answers end meanwhile, and are kept
        wait_until(lambda: all(asked["ended"] for asked in model.requests()))
        time.sleep(SCRIPT.interval_ms * 3 / 1000)
        route.continue_()

    ada.page.route("**/logout", late)
    ada.page.get_by_role("button", name="Log out ada").click(no_wait_after=True)
    for tab in (ada, other):
        tab.page.wait_for_url("**/login")
        assert tab.page.evaluate("() => sessionStorage.length") == 0
    ada.log_in("grace", "hopper").page.get_by_role("button", name="Log out grace").wait_for()
    assert ada.shown == []


def test_who_could_not_log_out_loses_nothing(ada: Person) -> None:
    ada.ask().wait_for_end()
    ada.page.locator("[name=csrf_token]").evaluate("(field) => (field.value = 'stale')")
    ada.page.get_by_role("button", name="Log out ada").click()
    ada.page.get_by_text("Please load this page again.").wait_for()
    ada.page.goto(ada.url + "/login")  # which is for nobody who is logged in
    assert ada.shown == ["Why?", SCRIPT.text]


def test_what_somebody_else_has_left_goes(ada: Person) -> None:
    """In another tab grace has logged in: this one has not seen the login page."""
    ada.page.evaluate("() => sessionStorage.setItem('chat of grace', 'a secret')")
    ada.page.evaluate("() => sessionStorage.setItem('chat of ada', '{not JSON')")
    ada.page.reload()
    ada.ask().wait_for_end()
    assert ada.page.evaluate("() => Object.keys(sessionStorage)") == ["chat of ada"]


def test_a_new_chat_begins_without_the_old_one(ada: Person) -> None:
    ada.ask().wait_for_end()
    with ada.page.expect_navigation():
        ada.page.get_by_role("button", name="New chat").click()
    with ada.page.expect_request("**/stream/chat") as asked:
        ada.ask("Again?")
    assert asked.value.post_data_json["messages"] == [{"role": "user", "content": "Again?"}]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_and_follows_the_answer(people: Any, scheme: str) -> None:
    ada = people(viewport={"width": 320, "height": 480}, color_scheme=scheme).log_in()
    ada.ask("word" * 100).wait_for_end()
    told = ada.page.evaluate(
        """() => {
          const chat = document.querySelector("#chat");
          const buttons = [...document.querySelectorAll("button:not([hidden]), textarea")];
          return {
            width: document.documentElement.scrollWidth,
            height: document.documentElement.scrollHeight,
            overflow: chat.scrollHeight - chat.clientHeight,
            below: chat.scrollHeight - chat.clientHeight - chat.scrollTop,
            lowest: Math.min(...buttons.map((button) => button.offsetHeight)),
            light: getComputedStyle(document.body).backgroundColor === "rgb(255, 255, 255)",
          };
        }"""
    )
    assert told["width"] == 320 and told["height"] == 480
    assert told["overflow"] > 0 and told["below"] < 2
    assert told["lowest"] >= 44  # pixels of CSS, a finger's
    assert told["light"] == (scheme == "light")


def test_a_screen_reader_is_told(ada: Person) -> None:
    """The answer is a part of a log that is not read out before it is whole."""
    log = ada.page.get_by_role("log", name="Conversation")
    ada.ask().wait_for(FEW)
    answer = log.get_by_role("article", name="Answer")
    ada.expect(answer).to_have_attribute("aria-busy", "true")
    ada.expect(ada.page.get_by_role("status")).to_have_text("The answer comes.")
    ada.wait_for_end()
    ada.expect(answer).to_have_attribute("aria-busy", "false")
    ada.expect(log.get_by_role("article", name="You")).to_have_text("Why?")
