"""The figures for people, as Markdown that also reads well in a terminal. It computes nothing."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from bench.case import Case, Row


def report(result: Mapping[str, Any], cases: Mapping[str, Case]) -> str:
    """Return all that was measured.

    Args:
        result: as it stands in JSON.
        cases: the kinds of work by name.
    """
    parts = [_about(result)]
    if result["budget"]:
        parts.append(budget_table(result["budget"]))
    parts.append(grid(("server", "what it is"), list(result["subjects"].items())))
    parts += [_section(cases[name], rows) for name, rows in result["cases"].items() if rows]
    if result["skipped"]:
        parts.append("Skipped:\n\n" + "\n".join(f"- {name}: {why}" for name, why in result["skipped"].items()))
    return "\n\n".join(parts)


def _about(result: Mapping[str, Any]) -> str:
    machine = ", ".join(f"{name} {value}" for name, value in result["machine"].items())
    parts = [f"Measured in {result['seconds'] / 60:.1f} min on {machine}."]
    others = result["others"]
    if others is not None:
        middle, most = (f"{others[name] * 100:.0f} %" for name in ("median", "most"))
        parts.append(f"Everybody else on it took {middle} of a core, the median of all rows, and {most} at most.")
    if result["quick"]:
        parts.append("With `--quick`: the figures are less exact.")
    return " ".join(parts)


def _section(case: Case, rows: Sequence[Row]) -> str:
    return f"### {case.title}\n\n{case.words}\n\n{case_table(case, rows)}"


def budget_table(lines: Sequence[Mapping[str, Any]]) -> str:
    """Return the budget, met or missed."""
    return grid(
        ("budget", "at most", "measured", ""),
        [
            (
                line["what"],
                _with_unit(line["limit"], line["unit"]),
                _with_unit(line["value"], line["unit"]),
                line["verdict"],
            )
            for line in lines
        ],
    )


def _with_unit(value: float | None, unit: str) -> str:
    return "" if value is None else f"{value:g} {unit}".rstrip()


def case_table(case: Case, rows: Sequence[Row]) -> str:
    """Return the table of a kind of work; a column in which nothing stands is left out."""
    cells = [[column.cell(row) for column in case.columns] for row in rows]
    kept = [at for at in range(len(case.columns)) if any(line[at] for line in cells)]
    return grid([case.columns[at].title for at in kept], [[line[at] for at in kept] for line in cells])


def grid(titles: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a table."""
    rows = [tuple(titles), *map(tuple, lines)]
    widths = [max(3, *map(len, column)) for column in zip(*rows)]
    padded = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |" for row in rows]
    padded.insert(1, "| " + " | ".join("-" * width for width in widths) + " |")
    return "\n".join(padded)


def replaced(page: str, text: str, begin: str, end: str) -> str:
    """Return a page with this text between two marks. Raises `ValueError`: they are not there."""
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"expected {begin} and {end}")
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"
