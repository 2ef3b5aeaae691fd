"""What a dialect is, and what its events can say."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Mapping

from flaskstream.dialects.framings import EVENTS, Framing
from flaskstream.dialects.skimming import Skimmer
from flaskstream.dialects.tools import ToolFragment
from flaskstream.sse import Event


@dataclass(frozen=True)
class Usage:
    """How many tokens an answer cost, as far as the upstream has said it."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None

    def updated(self, newer: Usage) -> Usage:
        """Return what is known now: some upstreams tell the one number at the start, the other at the end."""
        known = {name: number for name, number in vars(newer).items() if number is not None}
        return Usage(**{**vars(self), **known})


@dataclass(frozen=True)
class Reading:
    """What one event says.

    Attributes:
        text: of the answer; may be empty.
        choices: which of the answers, where several were asked for, it goes on with.
        finished: which of them are whole now; more may follow that is no text, such as the usage.
        last: all is said.
        error: the upstream reports a failure: a short name of it, never its message, which may quote secrets.
        malformed: it is no event of this dialect. The stream goes on without it.
        tools: parts of calls of tools, for `ToolCalls` to put together.
        usage: what the answer costs; `None`: it does not say.
        part: it belongs to the answer, though it says none of this: such as thinking, or the end of a block.
    """

    text: str = ""
    choices: tuple[int, ...] = ()
    finished: tuple[int, ...] = ()
    last: bool = False
    error: str | None = None
    malformed: bool = False
    tools: tuple[ToolFragment, ...] = ()
    usage: Usage | None = None
    part: bool = False

    @property
    def is_answer(self) -> bool:
        """It is part of the answer, and no ping, nor what a gateway puts around one."""
        said = (self.text, self.choices, self.finished, self.last, self.tools, self.usage, self.part)
        return self.error is not None or any(said)


def as_it_is(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the payload of a dialect whose requests look like those of OpenAI's chat completions."""
    return dict(payload)


@dataclass(frozen=True)
class Dialect:
    """One model API.

    Attributes:
        name: its key in `DIALECTS`.
        path: where a chat request goes, below the upstream's base URL; "": to the base URL itself.
        read: tells what one event says.
        error_event: the bytes with which this API reports an error inside a stream, given a code and a message.
        framing: how its events are cut out of the bytes.
        request: makes its payload from `{"model": ..., "messages": [...]}`; what is in its own form already stays.
        headers: that its requests need, unless the upstream was given others.
        key_header: the header that carries the API key, and its value.
        client_headers: those of a client's headers that its own route passes on.
        skimmer: tells tokens by a look; `None`: each event has to be parsed.
        ping: what this API itself sends in silence; b"": nothing of its own.
        ends_with_body: it has no terminal mark: the proper end of a framed body is the end of the answer.
    """

    name: str
    path: str
    read: Callable[[Event], Reading]
    error_event: Callable[[str, str], bytes]
    framing: Framing = EVENTS
    request: Callable[[Mapping[str, Any]], dict[str, Any]] = as_it_is
    headers: Mapping[str, str] = field(default_factory=dict)
    key_header: tuple[str, str] = ("Authorization", "Bearer {}")
    client_headers: tuple[str, ...] = ()
    skimmer: Skimmer | None = None
    ping: bytes = b""
    ends_with_body: bool = False
