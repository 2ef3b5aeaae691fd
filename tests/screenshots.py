"""Write docs/compare-light.png and docs/compare-dark.png: `make screenshots`. Look at them before you keep them."""

from __future__ import annotations

import pathlib

from compare_page import chromium, served, visited
from marked import Mark

DOCS = pathlib.Path(__file__).parent.parent / "docs"
MOST_BYTES = 150_000
SIZE = {"width": 900, "height": 800}


def main() -> None:
    with served(Mark()) as (_, urls), chromium() as browser:
        for theme in ("light", "dark"):
            path = DOCS / f"compare-{theme}.png"
            with visited(browser, urls["page"], color_scheme=theme, viewport=SIZE) as page:
                page.set("broken", readers=1, tokens=16, interval=270)
                page.press("start")
                page.until_over()
                page.until_figure("broken", "said", "; over")
                page.until("document.querySelector('#status').textContent.includes('Broken, reader 1: done')")
                page.tab.screenshot(path=str(path), full_page=True)
            assert path.stat().st_size < MOST_BYTES, path
            print(f"{path}: {path.stat().st_size} bytes")  # noqa: T201 - it is what this command says


if __name__ == "__main__":
    main()
