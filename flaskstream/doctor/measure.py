"""A client that has no opinion: what came, when it came, and how it ended; its public names."""

from __future__ import annotations

from flaskstream.doctor.arrivals import Chunk, Read, Timed, TimedComment
from flaskstream.doctor.exchange import Exchange, open_exchange
from flaskstream.doctor.recording import Recording, record
from flaskstream.doctor.request import Request

__all__ = ["Chunk", "Exchange", "Read", "Recording", "Request", "Timed", "TimedComment", "open_exchange", "record"]
