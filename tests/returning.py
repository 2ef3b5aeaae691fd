"""Clients that come back by themselves, as a browser does: each time with the last id that they were given."""

from __future__ import annotations

import json
import threading
import time
from typing import Any
from urllib.parse import quote

from recorded import CHAT
from relay_client import JSON

from flaskstream.doctor.measure import Exchange, Request, open_exchange
from flaskstream.sse import Event

ENDS = ("done", "error", "stopped")
PATIENCE = 30.0  # seconds that no answer of these tests takes, unless one fails
_SOON = 0.02


class Returning:
    """One client of one answer, from construction until its end, in a thread of its own.

    Args:
        server: where it asks.
        said: the script of the answer that it begins; `None`: it reads one that is there.
        stream_id: of the answer that it reads.
        avoid: the worker that it does not want to be served by.
        is_browser: it comes back to where it began, and knows no id of a stream, as a native `EventSource`.

    Attributes:
        stream_id: of what it reads; `None`: it was told none.
        events, heard_at: all that it was sent, in order, except comments; and when.
        text: of the answer, as its user sees it: what came before `reset` is forgotten.
        last_id: as a browser keeps it.
        workers: who has served it, one for each of its visits.
        proper: of each of its visits, whether the answer had a proper end.
        statuses: of the answers that were no streams.
    """

    def __init__(
        self,
        server: Any,
        said: Any = None,
        stream_id: str | None = None,
        avoid: int = 0,
        is_browser: bool = False,
    ) -> None:
        self.stream_id = stream_id
        self.events: list[Event] = []
        self.heard_at: list[float] = []
        self.text = ""
        self.last_id = ""
        self.workers: list[int] = []
        self.proper: list[bool] = []
        self.statuses: list[int] = []
        self._url = server.url
        self._said = said
        self._avoid = str(avoid)
        self._is_browser = is_browser
        self._deadline = time.monotonic() + PATIENCE
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def wait(self) -> Returning:
        """Wait for its end; return itself."""
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), f"expected an end, got {self.names} {self.statuses}"
        return self

    def wait_for(self, events: int) -> Returning:
        """Wait until it has so many events; return itself."""
        while len(self.events) < events:
            assert time.monotonic() < self._deadline and self._thread.is_alive(), f"{self.names} {self.statuses}"
            time.sleep(_SOON)
        return self

    @property
    def names(self) -> list[str]:
        """The names of its events, those of the text left out."""
        return [event.event for event in self.events if event.event != "message"]

    @property
    def numbers(self) -> list[int]:
        """The numbers in the ids of its events."""
        ids = (event.id or "" for event in self.events)
        return [int(one.rpartition("-")[2]) for one in ids if "-" in one and not one.startswith("done-")]

    @property
    def end(self) -> Any:
        """What its last event says, beside its name."""
        return self.events[-1].event, self.events[-1].json()

    def _read(self) -> None:
        while not self._has_all() and time.monotonic() < self._deadline:
            with open_exchange(self._request()) as exchange:
                self._visit(exchange)

    def _has_all(self) -> bool:
        return bool(self.names and self.names[-1] in ENDS) or 204 in self.statuses or 404 in self.statuses

    def _request(self) -> Request:
        headers = (("Last-Event-ID", self.last_id),) if self.last_id else ()
        if self._is_browser:
            url = f"{self._url}{CHAT}?q=hello&model={quote(self._said.model)}"
            return Request(url, headers=headers, timeout=PATIENCE)
        if self.stream_id is not None:
            return Request(f"{self._url}/stream/streams/{self.stream_id}", headers=headers, timeout=PATIENCE)
        fields = json.dumps({"q": "hello", "model": self._said.model}).encode()
        return Request(self._url + CHAT, "POST", (JSON, *headers), fields, timeout=PATIENCE)

    def _visit(self, exchange: Exchange) -> None:
        if exchange.status != 200:
            if exchange.status is not None:
                self.statuses.append(exchange.status)
            time.sleep(_SOON)
            return
        worker = exchange.header("X-Worker") or "0"
        if worker == self._avoid:
            return
        self.stream_id = self.stream_id or exchange.header("X-Stream-Id")
        self.workers.append(int(worker))
        for timed in exchange.events():
            self._hear(timed.event)
        self.proper.append(exchange.framing_complete)

    def _hear(self, event: Event) -> None:
        if event.event == "message":
            self.text += event.json()["t"]
        elif event.event == "reset":
            self.text = ""
        self.last_id = self.last_id if event.id is None else event.id
        self.heard_at.append(time.monotonic())
        self.events.append(event)
