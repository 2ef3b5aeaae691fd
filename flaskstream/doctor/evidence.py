"""All that was seen of one hop, and what two looks beside each other tell. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import Mapping

from flaskstream.doctor.looks import Look
from flaskstream.doctor.shapes import PROMPT_SECONDS, Shape, shape_of

SAME_RATIO = 1.45
"""Two measured figures within this factor are the same figure."""


def is_same(one: float, other: float) -> bool:
    """Tell whether two figures are the same but for the noise of measuring."""
    low, high = sorted((one, other))
    return low > 0 and high / low <= SAME_RATIO


WAITED_SHARE = 0.7
"""Of two streams at once the second waited for the first if it began so late, as a share of what one takes."""


SHORTEST_WAIT_SECONDS = 0.5
"""What waited for less may have waited for a busy machine."""

REFUSALS = (429, 503)
"""Statuses of a request that is one too many."""

WORSE_RATIO, WORSE_SECONDS = 1.6, 0.05
"""A look is worse than the first one if its median delay is longer by this factor, and this."""

LONGER_RATIO = 1.5
"""A silence that is so much longer than all before it may be what ended the stream."""

LOOKS_ROUND_SECONDS = 1.1
"""gunicorn looks once a second for sync workers that give no sign of life, on a machine that may be busy."""

ENOUGH_GAPS = 8
UNEVEN_SHARE, ALIKE_SHARE = 0.35, 0.75
"""Of the times between the bursts of a timer so many are within that share of the usual one."""

ENDED = ("first", "long", "fast", "slow", "pad", "big")
ENDS_TO_COMPARE = 4
"""So many looks tell a distance by the ends, of those with no coding, some fast, some slow, some large."""

WHOLE_TICKS = 0.25
"""A delay that is so near to a number of ticks is that many."""


@dataclass(frozen=True)
class Evidence:
    """The looks at one hop, by the name of their variant.

    Attributes:
        url: of the hop.
        looks: one for each experiment that was made; "two" is the second of two at once, "beside" one of the probe
            while an ordinary endpoint streamed.
        product: what the hop is, by its headers; "": it does not say.
        server: what the app says of its server; "": no probe was asked.
        left_out: experiments for which there was no time.
        distance: how long everything takes from the app, in seconds, beyond what the connection shows: it is far away,
            and whatever holds besides holds for so much less.
    """

    url: str
    looks: Mapping[str, Look]
    product: str = ""
    server: str = ""
    left_out: tuple[str, ...] = ()
    shapes: Mapping[str, Shape] = field(init=False, compare=False)
    distance: float = field(init=False, compare=False)

    def __post_init__(self) -> None:
        shapes = {name: shape_of(look) for name, look in self.looks.items()}
        distance = _distance(shapes) or _distance_at_end(self.looks, shapes)
        if distance:
            shapes = {name: shape_of(look.nearer(distance)) for name, look in self.looks.items()}
        object.__setattr__(self, "shapes", shapes)
        object.__setattr__(self, "distance", distance)

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
        """Tell whether this look was held.

        One that is late by the same in each of its ticks, beside a first one that was not, waited for a worker; and one
        that is hardly later than a first one that passes for prompt is no worse than that.
        """
        shape = self.shapes.get(name)
        if shape is None or not shape.holds or self.kind("first") != "streams" or not self.first.variant.is_probe:
            return shape is not None and shape.holds
        return shape.kind != "lagged" and shape.delay > self.shape.delay * WORSE_RATIO + WORSE_SECONDS

    def streamed(self, name: str) -> bool:
        """Tell whether this look streamed."""
        return self.kind(name) == "streams"

    def cut_alike(self, name: str, again: str) -> bool:
        """Tell whether these two looks were cut after the same time."""
        if self.kind(name) != "cut" or self.kind(again) != "cut":
            return False
        if any(self.looks[look].ended in ("left", "timeout") for look in (name, again)):
            return False  # it is the doctor who went
        return self.is_same_age(self.looks[name].ended_at, self.looks[again].ended_at)

    def is_same_age(self, one: float, other: float) -> bool:
        """Tell whether two streams lived equally long, in seconds."""
        return is_same(one, other) or abs(one - other) <= self._slack

    @property
    def _slack(self) -> float:
        """Seconds by which two times may differ and be the same."""
        is_sync = self.first.hello.get("worker") == "sync"
        return _NOISE_SECONDS + (LOOKS_ROUND_SECONDS if is_sync else 0.0)

    def cut_when_quiet(self, name: str) -> bool:
        """Tell whether a silence may have cut this look, and those cut alike: no look lived through one as long."""
        lived_through = max((gap for look in self.looks.values() for gap in look.silences[:-1]), default=0.0)
        alike = [look for other, look in self.looks.items() if self.cut_alike(name, other)]
        return all(look.silences[-1] > lived_through * LONGER_RATIO for look in alike)

    def outlived(self, name: str) -> tuple[Look, ...]:
        """Return the looks that lived longer than this one, which was cut: its age was no reason."""
        age = self.looks[name].ended_at * SAME_RATIO + self._slack
        return tuple(look for look in self.looks.values() if look.ticks and look.ended_at - look.ticks[0].came > age)

    def outlived_by_busier(self, name: str) -> bool:
        """Tell whether one of those was usually not silent for as long as this one when it was cut: that is why."""
        silence = self.looks[name].silences[-1]
        return any(median(look.silences[1:-1] or look.silences) < silence for look in self.outlived(name))

    @property
    def is_direct(self) -> bool | None:
        """Whether the app itself answers here, with no proxy between; `None`: it cannot be told."""
        return self.first.is_direct

    @property
    def closely(self) -> Shape:
        """The shape of the look with the most ticks: made where the first one was held."""
        return self.shapes.get("long", self.shape)

    @property
    def waited(self) -> float:
        """How long the second of two streams waited for the end of the first, in seconds; 0: it did not."""
        look = self.looks.get("two")
        if look is None or not look.ticks or self.held("first"):
            return 0.0
        waited = look.ticks[0].came - look.ticks[0].sent
        usual = self.first.ticks[0].came - self.first.ticks[0].sent if self.first.ticks else 0.0
        return waited if waited >= max(look.variant.seconds * WAITED_SHARE, 3 * usual) else 0.0

    @property
    def refused(self) -> int:
        """The status with which one of two streams at once was refused, where one alone is not; 0: none was."""
        look = self.looks.get("two")
        if look is None or not self.first.is_answer or not self.first.ticks or look.status not in REFUSALS:
            return 0
        return look.status or 0

    @property
    def cut_after_bytes(self) -> int:
        """About how many bytes came before each cut, where denser ticks are cut at as many, sooner; 0: they are not."""
        first, dense = self.first, self.looks.get("dense")
        if dense is None or not first.ticks or self.kind("dense") != "cut" or not self.cut_alike("first", "again"):
            return 0
        sizes = [sum(tick.size for tick in look.ticks) for look in (first, dense)]
        one_tick = max(tick.size for tick in dense.ticks[1:] or first.ticks)
        is_sooner = dense.ended_at < first.ended_at and not self.is_same_age(dense.ended_at, first.ended_at)
        return max(sizes) if is_sooner and abs(sizes[0] - sizes[1]) <= one_tick else 0

    @property
    def kept_waiting(self) -> float:
        """How long the probe, asked while this endpoint streamed, waited for its end, in seconds; 0: it did not."""
        probe, endpoint = self.looks.get("beside"), self.looks.get("browser")
        if probe is None or endpoint is None or not self.first.ticks:
            return 0.0
        waited = probe.ticks[0].came - probe.ticks[0].sent if probe.ticks else probe.ended_at
        rest = endpoint.ended_at - self.first.ticks[0].came
        return waited if waited >= max(rest * WAITED_SHARE, SHORTEST_WAIT_SECONDS) else 0.0

    @property
    def timer(self) -> float:
        """The time after which what waits is passed on, in seconds; 0: none was found.

        With ticks that are further apart none waits longer. Whatever waits for an amount keeps them for longer then.
        """
        fast, slow = self.closely, self.shapes.get("slow")
        if (
            self.pause
            or slow is None
            or fast.kind not in ("bursts", *_SINGLY)
            or slow.kind in ("held_to_end", "first_block")
        ):
            return 0.0
        return self._finely(max(fast.longest, slow.longest)) if _is_no_longer(slow, fast) else 0.0

    @property
    def pause(self) -> float | None:
        """The time after which what waits is passed on if nothing more comes, in seconds; `None`: it is not so.

        What comes more often waits for the end, and what comes seldom does not.
        """
        slow = self.shapes.get("slow")
        is_held = all(self.kind(name) == "held_to_end" for name in ("first", "long"))
        return slow.delay if is_held and slow is not None and slow.kind in ("streams", "lagged") else None

    @property
    def uneven(self) -> float:
        """By how much the ticks are late at most, in seconds, where they are so without any order; 0: it is not so.

        A timer makes bursts that are equally far apart, and what waits for an amount holds slow ticks for longer.
        """
        close, slow = self.closely, self.shapes.get("slow")
        if slow is None or not self.held("first") or any(shape.kind not in _UNEVENLY for shape in (close, slow)):
            return 0.0
        gaps = [gap for name in ("long", "fast") if name in self.looks for gap in _gaps(self.looks[name])]
        alike = [gap for gap in gaps if abs(gap - 1) <= UNEVEN_SHARE]
        is_regular = len(gaps) < ENOUGH_GAPS or len(alike) >= ALIKE_SHARE * len(gaps)
        return 0.0 if is_regular or not _is_no_longer(slow, close) else max(close.longest, self.shape.longest)

    @property
    def is_throttled(self) -> bool:
        """Tell whether the ticks come more slowly than they are sent, at the same pace throughout."""
        return self.closely.kind == "throttled"

    @property
    def cut_while_held(self) -> tuple[str, ...]:
        """The looks that were cut, of a hop that holds: what holds is not what cuts."""
        if not self.held("first"):
            return ()
        gone = ("left", "timeout")  # it is the doctor who went
        return tuple(name for name in self.shapes if self.kind(name) == "cut" and self.looks[name].ended not in gone)

    def _finely(self, seconds: float) -> float:
        """Return this time as the look with the fastest ticks shows it, if that is long enough to show it twice."""
        look, shape = self.looks.get("fast"), self.shapes.get("fast")
        is_shown = look is not None and shape is not None and shape.holds and seconds < look.variant.seconds / 2
        return shape.longest if shape is not None and is_shown else seconds

    @property
    def batch_ticks(self) -> int:
        """How many ticks are collected, whatever their size; 0: they are not."""
        small, large = self.closely, self.shapes.get("pad")
        if large is None or self.timer or small.kind != "bursts" or large.kind != "bursts" or small.ticks < 2:
            return 0
        is_count = small.ticks == large.ticks and small.is_even and large.is_even
        return small.ticks if is_count and not is_same(small.size, large.size) else 0

    @property
    def late_by(self) -> int:
        """With which of the ticks after it each tick comes, at two paces; 0: it does not wait for one."""
        long, slow = self.shapes.get("long"), self.shapes.get("slow")
        if long is None or slow is None or long.kind not in _SINGLY:
            return 0
        late = slow.longest / self.looks["slow"].variant.interval
        is_whole = abs(late - round(late)) <= WHOLE_TICKS
        is_same_number = abs(long.longest / self.looks["long"].variant.interval - round(late)) <= 0.5
        return round(late) if is_whole and is_same_number else 0

    @property
    def first_block_seconds(self) -> float:
        """For how long everything is held at the beginning, after which the rest passes; 0: it is not so.

        Larger ticks are then held for as long, and so are more bytes.
        """
        small, large = self.shapes.get("long"), self.shapes.get("pad")
        if small is None or large is None or not small.kind == large.kind == "first_block":
            return 0.0
        is_by_time = is_same(small.first_came, large.first_came) and not is_same(small.first_size, large.first_size)
        return small.first_came if is_by_time else 0.0

    @property
    def first_block_bytes(self) -> int:
        """How much is held at the beginning, after which the rest passes; 0: it is not so."""
        if self.timer or self.batch_ticks or self.first_block_seconds:
            return 0
        for name in ("long", "first", "pad", "big"):
            if self.kind(name) == "first_block" or (self.kind(name) == "streams" and name in ("pad", "big")):
                return self.shapes[name].first_size
            if self.kind(name) not in ("held_to_end", "first_block"):
                return 0
        return 0

    @property
    def buffer_bytes(self) -> int:
        """The size of what fills up again and again before it is passed on; 0: none was found.

        The ticks came in bursts; or the small ones waited for the end, and larger ones did not.
        """
        if self.timer or self.batch_ticks or self.first_block_seconds or self.first_block_bytes:
            return 0
        for name in ("long", "pad", "big"):
            if self.kind(name) in ("bursts", *_SINGLY):
                return self.shapes[name].size
            if self.kind(name) == "streams":
                return 0
        return 0


_SINGLY = ("lagged", "one_late")
"""Each tick is alone, and late."""


_UNEVENLY = ("streams", "bursts", *_SINGLY)


def _gaps(look: Look) -> list[float]:
    """Return the times between bursts, but for the last one, which the end makes, as shares of the usual one."""
    gaps = [later.came - earlier.came for earlier, later in zip(look.bursts, look.bursts[1:-1])]
    return [gap / median(gaps) for gap in gaps]


def _is_no_longer(slow: Shape, fast: Shape) -> bool:
    return slow.longest <= fast.longest * 1.3 + _NOISE_SECONDS


_NOISE_SECONDS = 0.05


def _distance(shapes: Mapping[str, Shape]) -> float:
    """Return how far away the app is, in seconds: what each tick takes, each alone, at every pace; 0: it is not that.

    What holds makes bunches as soon as the ticks come faster than it lets go.
    """
    looked = [shapes.get(name) for name in ("first", "long", "fast", "slow")]
    found = [shape for shape in looked if shape is not None]
    if len(found) < len(looked) or found[0].kind not in _SINGLY:
        return 0.0
    is_alone = all(shape.kind in ("streams", *_SINGLY) for shape in found)
    return min(shape.delay for shape in found) if is_alone and _is_no_longer(found[-1], found[0]) else 0.0


def _distance_at_end(looks: Mapping[str, Look], shapes: Mapping[str, Shape]) -> float:
    """Return how far away the app is, in seconds, where something holds besides; 0: it is not far.

    At the end of a stream whatever holds lets go. What is late by the same even then, in all looks, is far away.
    """
    ended = [looks[name] for name in ENDED if name in looks and shapes[name].holds]
    late = [look.delays[-1] for look in ended if look.is_whole and look.ticks]
    if len(late) < ENDS_TO_COMPARE or min(late) < PROMPT_SECONDS or max(late) - min(late) > _NOISE_SECONDS:
        return 0.0
    return min(late)
