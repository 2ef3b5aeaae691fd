"""All that was seen of one hop, and what two looks beside each other tell. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Mapping

from flaskstream.doctor.looks import Look
from flaskstream.doctor.shapes import Shape, shape_of

SAME_RATIO = 1.45
"""Two measured figures within this factor are the same figure."""


def is_same(one: float, other: float) -> bool:
    """Tell whether two figures are the same but for the noise of measuring."""
    low, high = sorted((one, other))
    return low > 0 and high / low <= SAME_RATIO


@dataclass(frozen=True)
class Evidence:
    """The looks at one hop, by the name of their variant.

    Attributes:
        url: of the hop.
        looks: one for each experiment that was made; "two" is the second of two at once.
        product: what the hop is, by its headers; "": it does not say.
        server: what the app says of its server; "": no probe was asked.
    """

    url: str
    looks: Mapping[str, Look]
    product: str = ""
    server: str = ""
    shapes: Mapping[str, Shape] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "shapes", {name: shape_of(look) for name, look in self.looks.items()})

    @property
    def first(self) -> Look:
        return self.looks["first"]

    @property
    def shape(self) -> Shape:
        """Of the first look."""
        return self.shapes["first"]

    def kind(self, name: str) -> str:
        """Return the kind of shape of a look; "": there is no such look, or it shows nothing."""
        return self.shapes[name].kind if name in self.shapes else ""

    def held(self, name: str) -> bool:
        """Tell whether this look was held."""
        return name in self.shapes and self.shapes[name].holds

    def streamed(self, name: str) -> bool:
        """Tell whether this look streamed."""
        return self.kind(name) == "streams"

    @property
    def is_direct(self) -> bool | None:
        """Whether the app itself answers here, with no proxy between; `None`: it cannot be told."""
        return self.first.is_direct

    @property
    def closely(self) -> Shape:
        """The shape of the look with the most ticks: made where the first one was held."""
        return self.shapes.get("long", self.shape)

    @property
    def buffer_bytes(self) -> int:
        """The size of what fills up before it is passed on; 0: none was found.

        At two sizes of tick as many bytes came at a time; or the small ones waited for the end, and larger ones did
        not.
        """
        small, large = self.closely, self.shapes.get("pad")
        if large is None or self.batch_ticks:
            return 0
        if small.kind == large.kind == "bursts":
            return large.size if is_same(small.size, large.size) else 0
        if small.kind not in ("held_to_end", "first_block"):
            return 0
        for name in ("pad", "big"):
            if self.kind(name) in ("bursts", "one_late", "streams", "first_block"):
                return self.shapes[name].size
        return 0

    @property
    def timer(self) -> float:
        """The time after which what waits is passed on, in seconds; 0: none was found.

        With ticks that are further apart than that each is alone, and as late.
        """
        fast, slow = self.closely, self.shapes.get("slow")
        if fast.kind not in ("bursts", "lagged") or slow is None or self.batch_ticks:
            return 0.0
        if slow.kind == "lagged":
            return slow.delay
        return slow.period if slow.kind == "bursts" and is_same(slow.period, fast.period) else 0.0

    @property
    def batch_ticks(self) -> int:
        """How many ticks are collected, whatever their size; 0: they are not."""
        small, large = self.closely, self.shapes.get("pad")
        if large is None or small.kind != "bursts" or large.kind != "bursts" or small.ticks < 2:
            return 0
        return small.ticks if small.ticks == large.ticks and not is_same(small.size, large.size) else 0
