"""The page /compare in a real Chromium that a test drives: `flaskstream compare --serve`, and what the page shows."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import subprocess
import sys
import time
from typing import Any, Iterator

import browser
import pytest
from marked import Mark

ROOT = str(pathlib.Path(__file__).parent.parent)
PATIENCE_MS = browser.PATIENCE * 1000
WIDE = {"width": 1200, "height": 900}
PHONE = {"width": 360, "height": 640}

_WATCHING = """
    window.violations = [];
    addEventListener("securitypolicyviolation", (event) =>
        violations.push(`${event.violatedDirective} ${event.blockedURI}`));
"""


@contextlib.contextmanager
def served(mark: Mark, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], dict[str, str]]]:
    """The command, up to where it has printed its addresses: the process, and the addresses by name."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with subprocess.Popen(
        [sys.executable, "-m", "flaskstream", "compare", "--serve", *arguments],
        cwd=ROOT,
        env={**inherited, **mark.environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            said = _said(process)
            page = re.search(r"http://\S+/compare", said)
            assert page, (said, process.stderr and process.stderr.read())
            yield process, {"page": page[0], **dict(re.findall(r"(\w+) +(http://\S+)", said))}
        finally:
            process.kill()
    mark.wait_until_gone()


def _said(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout
    said = ""
    for line in process.stdout:
        said += line.decode()
        if "Ctrl-C" in said:
            break
    return said


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    """A browser, or a skip that says why there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if browser.missing():
        pytest.skip(str(browser.missing()))
    arguments = [*(flag for flag in browser.FLAGS if flag != "--headless"), "--disable-lcd-text"]
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=browser.program(), args=arguments)
        yield opened
        opened.close()


class Page:
    """The page in a tab, and what it shows; no error and no violation of its policy may come up.

    Args:
        context: of the browser.
        url: of the page.
    """

    def __init__(self, context: Any, url: str) -> None:
        self.tab = context.new_page()
        self.tab.set_default_timeout(PATIENCE_MS)
        self.errors: list[str] = []
        self.tab.on("pageerror", lambda error: self.errors.append(str(error)))
        self.tab.on("console", self._hear)
        self.tab.add_init_script(_WATCHING)
        self.tab.goto(url)
        self.tab.wait_for_selector("#fixed .figures dd")

    def _hear(self, said: Any) -> None:
        if said.type == "error" and "Failed to load resource" not in said.text:  # which a test is about
            self.errors.append(said.text)

    def set(self, fault: str = "", **numbers: int) -> None:
        """Fill in the form."""
        if fault:
            self.tab.select_option("#fault", fault)
        for name, number in numbers.items():
            if name == "readers":
                self.tab.select_option("#readers", str(number))
            else:
                self.tab.fill(f"#{name}", str(number))

    def press(self, button: str) -> None:
        self.tab.click(f"#{button}")

    def figure(self, side: str, name: str) -> str:
        return str(self.tab.inner_text(f"#{side} [data-figure={name}]"))

    def text(self, side: str) -> str:
        return str(self.tab.text_content(f"#{side} .answer"))

    def until(self, condition: str) -> None:
        """Wait until an expression is true in the page."""
        deadline = time.monotonic() + browser.PATIENCE
        while not self.tab.evaluate(condition):  # Playwright's own waiting needs eval, which the page forbids
            assert time.monotonic() < deadline, (condition, self.tab.inner_text("main"))
            self.tab.wait_for_timeout(30)

    def until_figure(self, side: str, name: str, part: str) -> None:
        self.until(f"document.querySelector('#{side} [data-figure={name}]')?.textContent.includes('{part}')")

    def until_text(self, side: str, length: int) -> None:
        """Wait until its first answer has so many characters."""
        self.until(f"(document.querySelector('#{side} .answer')?.textContent.length ?? 0) >= {length}")

    def until_over(self) -> None:
        self.until("document.querySelector('#start').getAttribute('aria-disabled') === 'false'")

    def check(self) -> None:
        """Nothing went wrong in it."""
        assert self.tab.evaluate("violations") == [] and self.errors == []


@contextlib.contextmanager
def visited(started: Any, url: str, **options: Any) -> Iterator[Page]:
    """The page in a context of its own, which is closed after it was checked."""
    context = started.new_context(**{"viewport": WIDE, **options})
    try:
        page = Page(context, url)
        yield page
        page.check()
    finally:
        context.close()
