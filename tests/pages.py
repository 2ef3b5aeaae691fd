"""Read the project's own pages: their blocks, tables and links."""

from __future__ import annotations

import pathlib
import re

ROOT = pathlib.Path(__file__).parent.parent

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


class Page:
    """One Markdown file of the project; `path` is relative to its root."""

    def __init__(self, path):
        self.path = ROOT / path
        self.text = self.path.read_text("utf-8")

    def section(self, heading):
        """Return the text between a heading and the next one."""
        found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#|\Z)", self._without_code(), re.MULTILINE | re.DOTALL)
        assert found, f"{self.path} has no heading {heading!r}"
        return found[1]

    def _without_code(self):
        """Comments in code begin with # as headings do."""
        return _BLOCK.sub("", self.text)

    def blocks(self, language):
        return [code for kind, code in _BLOCK.findall(self.text) if kind == language]

    def commands(self):
        """Return the lines of the console blocks that a reader types."""
        lines = "".join(self.blocks("console")).splitlines()
        return [line[2:] for line in lines if line.startswith("$ ")]

    def rows(self, heading):
        """Return the cells of the one table below a heading, without its head, as they are written."""
        lines = [line for line in self.section(heading).splitlines() if line.startswith("|")]
        return [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines[2:]]

    def links(self):
        return _LINK.findall(self._without_code())

    def anchors(self):
        """Return the anchors of its headings, as GitHub makes them."""
        headings = re.findall(r"^#+ (.*)$", self._without_code(), re.MULTILINE)
        return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def code(text):
    """Return a cell as code."""
    return f"`{text}`"
