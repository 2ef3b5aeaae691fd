"""Where a decoder is known to read a stream of ours in its own way: what it makes of it, exactly, and why."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.metadata import version
from typing import Callable, Iterator

from decoders.reading import Seen


@dataclass(frozen=True)
class Deviation:
    """One known difference.

    Attributes:
        decoder: its key in `DECODERS`.
        effect: what its users see.
        reason: why.
        reads: the events that it makes of a stream, given the bytes and the events that the standard makes of them.
        streams: the names of the only ones in which it is to be seen; (): any.
        until: the version that reads as the standard says; "": none does.
    """

    decoder: str
    effect: str
    reason: str
    reads: Callable[[bytes, list[Seen]], list[Seen]]
    streams: tuple[str, ...] = ()
    until: str = ""

    def is_seen(self, decoder: str, stream: str) -> bool:
        """Tell whether this decoder, as it is installed, may read the stream of this name so."""
        is_mended = self.until and _numbers(version(self.decoder)) >= _numbers(self.until)
        return decoder == self.decoder and not is_mended and (not self.streams or stream in self.streams)


def _numbers(of: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", of)]


def _comments_are_events(stream: bytes, events: list[Seen]) -> list[Seen]:
    return [event or Seen("message", "", "") for event in _block_by_block(stream, events)]


def _comments_are_events_once_there_was_an_id(stream: bytes, events: list[Seen]) -> list[Seen]:
    read: list[Seen] = []
    for event in _block_by_block(stream, events):
        last_id = read[-1].id if read else ""
        if event or last_id:
            read.append(event or Seen("message", "", last_id))
    return read


def _block_by_block(stream: bytes, events: list[Seen]) -> Iterator[Seen | None]:
    """Yield for each block its event, or `None` for one of comments."""
    left = iter(events)
    for block in stream.replace(b"\r\n", b"\n").split(b"\n\n")[:-1]:
        is_comment = all(line.startswith(b":") for line in block.split(b"\n"))
        yield None if is_comment else next(left)


def _of_each_line(change: Callable[[str], str]) -> Callable[[bytes, list[Seen]], list[Seen]]:
    def reads(stream: bytes, events: list[Seen]) -> list[Seen]:
        return [event._replace(data="\n".join(map(change, event.data.split("\n")))) for event in events]

    return reads


def _empty_lines_at_the_beginning_are_lost(stream: bytes, events: list[Seen]) -> list[Seen]:
    return [event._replace(data=event.data.lstrip("\n")) for event in events]


DEVIATIONS = (
    Deviation(
        "@microsoft/fetch-event-source",
        "`onmessage` is called without data for each comment block: `: open`, `: hb`",
        'It makes an event of every blank line. `heartbeat_form="line"` spares it that.',
        _comments_are_events,
    ),
    Deviation(
        "@microsoft/fetch-event-source",
        "U+FEFF at the beginning of a line of raw text is lost",
        "It decodes each line by itself, and takes it for a mark of byte order.",
        _of_each_line(lambda line: line[1:] if line.startswith("\ufeff") else line),
        ("a mark of byte order",),
    ),
    Deviation(
        "@microsoft/fetch-event-source",
        "empty lines at the beginning of raw text are lost",
        "It puts a line end only behind a line that has text.",
        _empty_lines_at_the_beginning_are_lost,
        ("lines that begin empty",),
    ),
    Deviation(
        "openai",
        'an event without data for each heartbeat behind an id, with `heartbeat_form="block"`',
        "It makes an event of every blank line once it knows an id; the client then finds no JSON in it, and fails.",
        _comments_are_events_once_there_was_an_id,
        ("heartbeats as blocks among ids",),
    ),
    Deviation(
        "httpx-sse",
        'an event without data for each heartbeat behind an id, with `heartbeat_form="block"`',
        "It makes an event of every blank line once it knows an id.",
        _comments_are_events_once_there_was_an_id,
        ("heartbeats as blocks among ids",),
    ),
    Deviation(
        "httpx-sse",
        "raw text ends at U+2028, U+2029, U+0085 and the like, before 0.4.2",
        "It cut lines by `str.splitlines()`, which knows seven line ends too many.",
        _of_each_line(lambda line: line.splitlines()[0] if line else ""),
        ("odd characters",),
        until="0.4.2",
    ),
)
