"""What is kept up to date for many channels is what a look at all of them would find."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from mainstay.runtime.coordinator.recovery import _chains
from mainstay.runtime.messages import ChannelId, Epoch, Marker, TimeMark
from mainstay.runtime.watermarks import END_US, GateClock
from mainstay.runtime.worker.output import Output, OutputChannel
from mainstay.runtime.worker.partition import ToEach
from mainstay.snapshot.manifest import FileRef, SegmentRef
from mainstay.state.keygroups import range_of

# ---------------------------------------------------------------- event time


@dataclass
class Channel:
    """A channel as the rules for event time see it."""

    time_us: int | None = None
    is_idle: bool = False
    has_ended: bool = False

    @property
    def is_left(self) -> bool:
        return not self.has_ended and self.time_us != END_US


@dataclass
class ByDefinition:
    """Looks at all channels every time."""

    channels: list[Channel]
    current: TimeMark = field(default_factory=lambda: TimeMark(None))

    def now(self) -> TimeMark:
        left = [each for each in self.channels if each.is_left]
        active = [each for each in left if not each.is_idle]
        times = [each.time_us for each in active]
        if not active:
            stopped = [each.time_us for each in left or self.channels]
            times = [max((time for time in stopped if time is not None), default=None)]
        before = self.current.time_us
        lowest = None if None in times else min(times)
        known = [time for time in (before, lowest) if time is not None]
        found = max(known, default=None)
        self.current = TimeMark(found, is_idle=not active and found != END_US)
        return self.current


steps = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.one_of(st.none(), st.integers(0, 6), st.just(END_US)),
        st.sampled_from(["tells", "is idle", "ends"]),
    ),
    max_size=40,
)


@given(st.integers(1, 5), steps)
def test_a_task_is_where_a_look_at_all_of_its_channels_says(
    channels: int, steps: list[tuple[int, int | None, str]]
) -> None:
    clock, model = GateClock(channels), ByDefinition([Channel() for _ in range(channels)])
    is_used = False
    for number, time_us, what in steps:
        place = number % channels
        channel, before = model.channels[place], model.current
        if what == "ends":
            channel.has_ended = True
            found = clock.on_end(place)
        else:
            is_used = True
            channel.time_us = channel.time_us if time_us is None else time_us
            channel.is_idle = what == "is idle"
            found = clock.on_watermark(place, TimeMark(time_us, is_idle=channel.is_idle))
        if not is_used:
            assert found is None, "nobody has told the time"
            continue
        assert found == (None if model.now() == before else model.current)
        assert clock.current == model.current


# ---------------------------------------------------------------- outputs

numbers = st.integers(0, 3)
acts = st.lists(
    st.tuples(st.sampled_from(["rows", "marker", "grant", "flush", "overtake"]), numbers, numbers),
    max_size=40,
)


@given(acts)
def test_an_output_knows_which_of_its_channels_hold_something_back(
    acts: list[tuple[str, int, int]],
) -> None:
    sent: list[object] = []
    channels = [
        OutputChannel(ChannelId(n), 16, lambda *each: sent.append(each), lambda *_: None)
        for n in range(4)
    ]
    output, epoch = Output(ToEach(4), channels, 3), 0
    for act, number, amount in acts:
        channel = channels[number]
        if act == "rows":
            channel.gather(pa.record_batch({"n": pa.array(range(amount + 1))}), 3)
        elif act == "marker":
            epoch += 1
            output.send_control(Marker(Epoch(epoch)))
        elif act == "grant":
            channel.grant(8 * amount)
        elif act == "flush":
            output.flush()
        else:
            channel.overtake(Epoch(epoch))
        output.check_invariants()
        assert output.has_room == all(each.has_room for each in channels)
        least = min(each.slice_rows for each in channels)
        assert output.slice_rows == least or math.isinf(least)
    output.flush()
    assert not any(each.flush() for each in channels), "what was gathered has been flushed"


# ---------------------------------------------------------------- restores


@given(st.data())
def test_every_segment_is_given_to_those_whose_key_groups_it_has(data: st.DataObject) -> None:
    most = data.draw(st.integers(1, 40))
    parallelism = data.draw(st.integers(1, most))
    bounds = st.tuples(st.integers(0, most - 1), st.integers(0, most - 1)).map(sorted)
    refs = [
        SegmentRef(f"s{number}", FileRef(f"s{number}", 1, "crc32:0"), first, last, 1)
        for number, (first, last) in enumerate(data.draw(st.lists(bounds, max_size=12)))
    ]
    assert _chains(refs, parallelism, most) == [
        _clipped(refs, subtask, parallelism, most) for subtask in range(parallelism)
    ]


def _clipped(
    refs: Sequence[SegmentRef], subtask: int, parallelism: int, most: int
) -> list[SegmentRef]:
    """All segments, each cut to the key-groups of a subtask."""
    groups = range_of(subtask, parallelism, most)
    clipped = [ref.clipped(groups.first, groups.last) for ref in refs]
    return [ref for ref in clipped if ref is not None]
