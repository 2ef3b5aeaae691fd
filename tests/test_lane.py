"""The short way of a token must give what the long way gives, however the network cuts."""

from __future__ import annotations

import json
import random
from typing import Any, Iterator

import pytest
from test_skimming import event

from flaskstream.dialects import OPENAI
from flaskstream.errors import IdleTimeout, UpstreamTruncated
from flaskstream.relay.answers import batches, blocks
from flaskstream.relay.lane import Lane
from flaskstream.signals import ENDED
from flaskstream.upstream import Upstream
from flaskstream.waiting import Turn
from flaskstream.wire import Block, PlainToken, PlainTokens, TokenBlock

DONE = b"data: [DONE]\n\n"
KEY = b"sk-very-secret"


class Pieces:
    """A body in pieces, as a reader of a socket gives them; an exception is raised, `None` is a turn that is over."""

    def __init__(self, pieces: list[Any]) -> None:
        self.left = list(pieces)

    def read(self, express: Any = None) -> Any:
        piece = self.left.pop(0) if self.left else b""
        if isinstance(piece, Exception):
            raise piece
        return piece

    def put_back(self, what: Any) -> None:
        self.left.insert(0, what)

    def chunks(self) -> Iterator[bytes]:
        piece = self.read()
        while piece != b"":
            yield piece or b""
            piece = self.read()


def by_both_ways(pieces: list[Any], **more: Any) -> tuple[list[Any], int]:
    """Return what comes, and how many items came the short way."""
    reader = Pieces(pieces)
    assert OPENAI.skimmer is not None
    lane = Lane(OPENAI.skimmer, TokenBlock, several=Block, **more)
    items = blocks(reader.chunks(), OPENAI, lane=lane)
    came: list[Any] = [next(items)]
    lane.begin(reader, Turn())
    item = lane.take(items)
    while item is not ENDED:
        came.append(item)
        item = lane.take(items)
    return [item for item in came if item], sum(isinstance(item, TokenBlock) for item in came)


def by_the_long_way(pieces: list[Any]) -> list[Block]:
    return [block for block in blocks(Pieces(pieces).chunks(), OPENAI) if block]


ANSWER = [
    event("Hello"),
    event(" there"),
    event(', "quoted" \\ and'),
    event(" ünïcode"),
    b": hb\n\n",
    event(" more"),
    event(""),
    event(" and more"),
    event(" the error of finish_reason"),
    event(" end"),
    event("", finish="stop"),
    DONE,
]


def test_tokens_go_the_short_way_and_all_else_the_long_one() -> None:
    came, short = by_both_ways(ANSWER)
    assert came == by_the_long_way(ANSWER) and b"".join(came) == b"".join(ANSWER)
    assert [block.tokens for block in came] == [block.tokens for block in by_the_long_way(ANSWER)]
    assert short >= 4


@pytest.mark.parametrize("seed", range(40))
def test_however_the_network_cuts(seed: int) -> None:
    rng = random.Random(seed)
    body, pieces = b"".join(ANSWER * 3).replace(DONE, b"", 2).replace(b'"stop"', b"null", 2), []
    while body:
        size = rng.choice([1, 3, 50, 150, 200, 400, 1500])
        pieces.append(body[:size])
        body = body[size:]
    came, _ = by_both_ways(pieces)
    whole = by_the_long_way(pieces)
    assert b"".join(came) == b"".join(whole)
    assert sum(block.tokens for block in came) == sum(block.tokens for block in whole)


def test_a_turn_that_is_over_is_no_end() -> None:
    came, short = by_both_ways([ANSWER[0], None, ANSWER[1], None, None, event(" more"), DONE])
    assert b"".join(came) == ANSWER[0] + ANSWER[1] + event(" more") + DONE and short == 1


@pytest.mark.parametrize("failure", [IdleTimeout("expected more"), UpstreamTruncated("expected more")])
def test_what_fails_is_told_by_the_long_way(failure: Exception) -> None:
    with pytest.raises(type(failure)):
        by_both_ways([ANSWER[0], ANSWER[1], ANSWER[1], failure])
    came, _ = by_both_ways([ANSWER[0], ANSWER[1], event("", finish="stop"), failure])  # it was whole by then
    assert came[-1] == event("", finish="stop")


def test_a_cut_is_no_end() -> None:
    with pytest.raises(UpstreamTruncated):
        by_both_ways([ANSWER[0], ANSWER[1], ANSWER[1]])


def test_what_holds_a_secret_goes_the_long_way() -> None:
    _, short = by_both_ways([event("a"), event("b"), event(KEY.decode()), event("c"), DONE], secret=KEY)
    assert short == 1  # "c": "b" shows what the others look like


def texts(items: Any) -> list[str]:
    """The texts of tokens, whichever way they came."""
    if isinstance(items, PlainTokens):
        return [text for item in items for text in texts(item)]
    if isinstance(items, PlainToken):
        return [json.loads(b'"' + items + b'"')]
    return [text for item in items for text in (texts(item) if isinstance(item, PlainToken) else [item])]


@pytest.mark.parametrize("seed", range(40))
def test_texts_are_the_same_by_both_ways(seed: int) -> None:
    rng = random.Random(seed)
    words = [
        "Hello",
        " world",
        "\n\n",
        'say "a"',
        " ünï",
        "漢字",
        "🙂",
        "a\u2028b",
        "\u0085",
        "error",
        " \\ ",
        "\t",
        "\x00",
        "",
    ]
    body = b"".join(event(rng.choice(words)) for _ in range(60)) + event("", finish="stop") + DONE
    pieces = []
    while body:
        size = rng.choice([120, 121, 250, 1000]) if rng.random() < 0.3 else body.index(b"\n\n") + 2
        pieces.append(body[:size])
        body = body[size:]
    reader = Pieces(pieces)
    assert OPENAI.skimmer is not None
    lane = Lane(OPENAI.skimmer, PlainToken, takes_text=True)
    items = batches(reader.chunks(), OPENAI, lane=lane)
    came = texts(next(items))
    lane.begin(reader, Turn())
    item = lane.take(items)
    while item is not ENDED:
        came += texts(item or [])
        item = lane.take(items)
    assert came == [text for batch in batches(Pieces(pieces).chunks(), OPENAI) for text in batch]


def test_tokens_that_come_together_from_the_first_on_go_the_short_way() -> None:
    assert OPENAI.skimmer is not None
    several = b"".join(map(event, ("a", " b", " c")))
    lane = Lane(OPENAI.skimmer, PlainToken, takes_text=True)
    assert lane.look(several) == (b"a", b" b", b" c") and lane.look(event(" d")) == b" d"
    padded = [event(f"{n}").replace(b"]}", b'],"obfuscation":"%s"}' % (b"x" * n)) for n in range(1, 6)]
    assert [lane.look(one) for one in padded] == [b"1", b"2", b"3", b"4", b"5"]
    assert lane.look(several.replace(b" b", b"\\u0020b")) is None


@pytest.mark.parametrize("written", ["sk-very\\/secret", "sk-very\\u002Fsecret", "\\u0073k-very/secret"])
def test_a_secret_that_json_writes_otherwise_goes_the_long_way(written: str) -> None:
    upstream = Upstream("http://127.0.0.1:9/v1", "sk-very/secret")
    plain, odd = event("a plain one"), event("X").replace(b"X", f"say {written}!".encode())
    lane = Lane(OPENAI.skimmer, PlainToken, takes_text=True, secret=upstream.secret)
    assert lane.look(plain) == b"a plain one"
    assert lane.look(odd) is None and lane.look(plain + odd) is None
    assert lane.look(event("on two\nlines")) == b"on two\\nlines"
    hidden = json.loads(upstream.hide_key(odd)[6:])["choices"][0]["delta"]["content"]
    assert hidden.startswith("say **") and "sk-very" not in hidden and "secret" not in hidden
