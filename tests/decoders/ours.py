"""Our own decoder, by which the others are judged."""

from __future__ import annotations

from decoders.reading import Reading, reading
from flaskstream.sse import Decoder


def read(stream: bytes, tells_last_id: bool) -> Reading:
    """Return what the standard says of a stream of ours, which is whole, and has no line without a meaning.

    Args:
        stream: the bytes.
        tells_last_id: see `decoders.reading.Decoder`.
    """
    ignored: list[str] = []
    decoder = Decoder("strict", on_ignored_line=ignored.append)
    events = decoder.feed(stream)
    assert (decoder.close(), decoder.truncated, ignored) == ([], False, [])
    return reading(
        (event.event, event.data, event.last_event_id if tells_last_id else event.id, event.retry) for event in events
    )
