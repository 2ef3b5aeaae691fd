"""openai-python: the decoder under the streams of its client, which then parses the data, and stops at `[DONE]`."""

from __future__ import annotations

from typing import Iterator

from decoders.reading import Told


def read(pieces: list[bytes]) -> Iterator[Told]:
    from openai._streaming import SSEDecoder

    for event in SSEDecoder().iter_bytes(iter(pieces)):
        yield event.event, event.data, event.id, event.retry
