"""Chromium, driven by Playwright: pages that a test types into and clicks through as a person does."""

from __future__ import annotations

import contextlib
import importlib.util
from typing import Any, Iterator

import browser


def missing() -> str | None:
    """Why its tests must skip."""
    return browser.missing() or (None if importlib.util.find_spec("playwright") else "playwright is not installed")


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    """Have a Chromium run while the block does, which gets Playwright's `Browser`."""
    from playwright.sync_api import sync_playwright

    flags = [flag for flag in browser.FLAGS if flag != "--headless"]  # Playwright has its own
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=browser.program(), args=flags)
        try:
            yield running
        finally:
            running.close()
