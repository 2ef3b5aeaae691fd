"""The routes of a blueprint with a store: `/chat`, whose answer survives its connection, and `/streams/<id>`."""

from __future__ import annotations

import functools
from typing import Any, Callable, Iterator

from flask import Blueprint, Response, request

from flaskstream.errors import FlaskStreamError
from flaskstream.guard import refusal
from flaskstream.resume.delivery import ENDPOINT, Deliveries, asked_position, failure, not_found
from flaskstream.resume.ids import checked_key, checked_stream_id, digest, new_epoch, new_stream_id
from flaskstream.stores.protocol import NewStream
from flaskstream.waiting import Turn

Produce = Callable[["dict[str, Any]", Turn], Iterator[Any]]


def recorded_chat(deliveries: Deliveries, payload: Callable[[], dict[str, Any]], produce: Produce) -> Callable[[], Any]:
    """Return the view that begins an answer, or comes back to it.

    Args:
        deliveries: gives the stream out.
        payload: returns what the request asks. Raises `ValueError`: it asks nothing.
        produce: makes the generator of the events of an answer, given what was asked and a turn that it may begin.
    """

    @_with_store
    def chat() -> Any:
        answered = deliveries.answer_without_stream()
        if answered is not None:
            return answered
        position = asked_position()
        if position is not None:
            return deliveries.resume(position)
        try:
            asked = payload()
            new = _new_stream(deliveries, asked)
        except ValueError as error:
            return refusal(400, "bad_request", str(error))
        is_named = "Idempotency-Key" in request.headers or "X-Stream-Id" in request.headers
        with deliveries.place() as place:
            begun = deliveries.streams.begin(new, lambda turn: produce(asked, turn), is_named)
            if not begun.is_new and not deliveries.may_have(begun.info):
                return not_found()
            if begun.info.request != new.request:
                return refusal(422, "key_reused", "expected the question that this key or id was first used for")
            return deliveries.deliver(begun.info, is_kept=begun.is_kept, place=place)

    return chat


def _new_stream(deliveries: Deliveries, asked: dict[str, Any]) -> NewStream:
    key = request.headers.get("Idempotency-Key")
    given = request.headers.get("X-Stream-Id")
    return NewStream(
        stream_id=new_stream_id() if given is None else checked_stream_id(given),
        epoch=new_epoch(),
        owner=deliveries.current_owner(),
        key=None if key is None else checked_key(key),
        request=digest(asked),
    )


def add_streams(blueprint: Blueprint, deliveries: Deliveries) -> None:
    """Add `/streams/<id>`: GET resumes, HEAD tells the state, DELETE stops."""

    @blueprint.route("/streams/<stream_id>", endpoint=ENDPOINT, methods=["GET", "HEAD", "DELETE"])
    @_with_store
    def streams(stream_id: str) -> Any:
        info = deliveries.of_id(stream_id)
        if info is None:
            return not_found()
        if request.method == "HEAD":
            return deliveries.state(info)
        if request.method == "GET":
            return deliveries.answer_without_stream() or deliveries.deliver(info, asked_position())
        deliveries.streams.stop(stream_id)  # also what has ended for the store: it may go on here without it
        return Response(status=204, headers={"Cache-Control": "no-store"})


def _with_store(view: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(view)
    def asking(*args: Any, **kwargs: Any) -> Any:
        try:
            return view(*args, **kwargs)
        except FlaskStreamError as error:
            return failure(error)

    return asking
