"""One self-contained page from a template: it loads nothing and runs no script."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Callable, Mapping

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape


def rendered(template: Path, filters: Mapping[str, Callable[..., Any]], **values: Any) -> str:
    """Return the page.

    Args:
        template: its file; what it shares with others is in `page.html` beside this module.
        filters: of its own, beside `ticked`.
        **values: what it shows.
    """
    environment = Environment(
        loader=FileSystemLoader([str(template.parent), str(Path(__file__).parent)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(filters, ticked=_ticked)
    return environment.get_template(template.name).render(**values)


def _ticked(text: str) -> Markup:
    """Return the text as HTML, with what stands in backticks as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))
