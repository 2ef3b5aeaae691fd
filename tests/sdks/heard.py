"""What a client is asked to do in these tests, and what it heard."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

API_KEY = "sk-of-the-client"
MESSAGES = [{"role": "user", "content": "hello"}]
MAX_TOKENS = 1024  # Anthropic's clients have to name one


@dataclass(frozen=True)
class Question:
    """What a client asks.

    Attributes:
        server: where the blueprint is, below `/stream`.
        model: the script.
        stream: as a stream, or as one object.
        leave_after: leave after so many tokens; `None`: hear it to the end.
        timeout: seconds for which the client waits for bytes.
    """

    server: str
    model: str
    stream: bool = True
    leave_after: int | None = None
    timeout: float = 30.0


@dataclass
class Heard:
    """What became of it. Times are seconds of the monotonic clock, which all processes of a machine share.

    Attributes:
        tokens: the texts, as they came, and
        arrivals: when each of them did.
        calls: the calls of tools, `[id, name, arguments]`, by their place; the arguments are JSON in a text.
        usage: input and output tokens.
        finish: why it ended, in the words of the API.
        request_id: the upstream's, of an answer in one object.
        left_at: when the client left.
        error: what it raised: the names of its class and of all that this is a kind of.
        status: of an error,
        message: and
        retry_after: the header of this name that came with it.
    """

    tokens: list[str] = field(default_factory=list)
    arrivals: list[float] = field(default_factory=list)
    calls: dict[int, list[str]] = field(default_factory=dict)
    usage: list[int] | None = None
    finish: str | None = None
    request_id: str | None = None
    left_at: float | None = None
    error: list[str] = field(default_factory=list)
    status: int | None = None
    message: str = ""
    retry_after: str | None = None

    @property
    def text(self) -> str:
        return "".join(self.tokens)

    def hear(self, text: str | None) -> None:
        """Take the next text; an empty one is no token."""
        if text:
            self.tokens.append(text)
            self.arrivals.append(time.monotonic())

    def hear_whole(self, text: str | None) -> None:
        """Take the text that the client has put together: it has the last word."""
        if self.text != (text or ""):
            self.tokens, self.arrivals = [], []
            self.hear(text)

    def wants_more(self, question: Question) -> bool:
        """Tell whether the client stays; if not, it goes now."""
        if question.leave_after is None or len(self.tokens) < question.leave_after:
            return True
        self.left_at = time.monotonic()
        return False

    def fail(self, error: BaseException) -> None:
        self.error = [kind.__name__ for kind in type(error).__mro__]
        self.status = getattr(error, "status_code", None)
        self.message = str(error)
        headers = getattr(getattr(error, "response", None), "headers", {})
        self.retry_after = headers.get("retry-after")
