"""Calls of tools come in parts; these put them together. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ToolFragment:
    """A part of a call.

    Attributes:
        index: which call it belongs to; `None`: the upstream does not number them.
        id: of the call; "" on all but its first part, with most upstreams.
        name: of the tool; "" likewise.
        arguments: the next piece of their JSON.
        opens: it begins a call, whatever else it says.
    """

    index: int | None = None
    id: str = ""
    name: str = ""
    arguments: str = ""
    opens: bool = False


@dataclass
class ToolCall:
    """A call as far as it is known. Its `arguments` are JSON when the answer is whole."""

    id: str = ""
    name: str = ""
    arguments: str = ""


class ToolCalls:
    """Puts the calls of one answer together.

    The index tells them apart. Where there is none, or it is always 0, a new id opens a new call, and a part without an
    id goes on with the last one.

    Attributes:
        calls: in the order in which they began.
    """

    def __init__(self) -> None:
        self.calls: list[ToolCall] = []
        self._last: dict[int | None, ToolCall] = {}  # by index; `None`: the last one of all
        self._by_id: dict[tuple[int | None, str], ToolCall] = {}

    def add(self, fragment: ToolFragment) -> None:
        """Take the next part."""
        call = self._call_of(fragment)
        self._last[fragment.index] = self._last[None] = call
        call.id = call.id or fragment.id
        call.name = call.name or fragment.name
        call.arguments += fragment.arguments
        if call.id:
            self._by_id[fragment.index, call.id] = call

    def _call_of(self, fragment: ToolFragment) -> ToolCall:
        last = None if fragment.opens else self._last.get(fragment.index)
        if fragment.id and last and last.id and last.id != fragment.id:
            last = self._by_id.get((fragment.index, fragment.id))
        if last is None:
            last = ToolCall()
            self.calls.append(last)
        return last
