from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from mainstay.runtime.messages import ChannelId, Epoch, Marker
from mainstay.runtime.worker.alignment import MAX_TRACKED, Action, Aligner, Tracker, Verdict
from mainstay.runtime.worker.gate import Gate, InputChannel

IGNORE = Verdict(Action.IGNORE)
BLOCK = Verdict(Action.BLOCK)
WAIT = Verdict(Action.WAIT)
SNAPSHOT = Verdict(Action.SNAPSHOT)

Batch = Callable[..., pa.RecordBatch]


def marked(handler: Aligner | Tracker, *arrivals: tuple[int, int]) -> list[Verdict]:
    """The verdicts on markers that arrive as (channel, epoch)."""
    return [handler.on_marker(channel, Epoch(epoch)) for channel, epoch in arrivals]


class Input:
    """A gate and its marker handler, put together as a task does."""

    def __init__(self, handler: Aligner | Tracker, channels: int) -> None:
        self.handler = handler
        self.granted: list[int] = []
        self.gate = Gate(
            [InputChannel(ChannelId(n), 0) for n in range(channels)],
            lambda channel, _: self.granted.append(channel),
        )
        self._sequences = [0] * channels

    def put(self, channel: int, *elements: Any) -> None:
        for element in elements:
            size_bytes = element.nbytes if isinstance(element, pa.RecordBatch) else 0
            self.gate.put(ChannelId(channel), self._sequences[channel], element, size_bytes)
            self._sequences[channel] += 1

    def run(self) -> list[Any]:
        """What comes through until nothing is ready: rows, and snapshots as ("cut", epoch)."""
        seen: list[Any] = []
        while self.gate.is_ready:
            number, element = self.gate.take(1000)
            if isinstance(element, Marker):
                seen.extend(self._on_marker(number, element.epoch))
            else:
                seen.extend((number, value) for value in element.column(0).to_pylist())
            self.gate.check_invariants()
        return seen

    def _on_marker(self, number: int, epoch: Epoch) -> list[Any]:
        verdict = self.handler.on_marker(number, epoch)
        if verdict.abandoned is not None:
            self.gate.unblock_all()
        if verdict.action is Action.BLOCK:
            self.gate.block(number)
        if verdict.action is Action.SNAPSHOT:
            self.gate.unblock_all()
            return [("cut", epoch)]
        return []

    @property
    def blocked(self) -> list[int]:
        return [n for n, channel in enumerate(self.gate.channels) if channel.blocked]


# ---------------------------------------------------------------- the aligner


def test_without_markers_everything_passes_and_nothing_is_waited_for(numbers: Batch) -> None:
    given = Input(Aligner(2), 2)
    given.put(0, numbers(1), numbers(2))
    given.put(1, numbers(3))
    assert sorted(given.run()) == [(0, 1), (0, 2), (1, 3)]
    assert given.blocked == []


def test_a_single_channel_is_cut_at_every_marker_and_keeps_its_order(numbers: Batch) -> None:
    given = Input(Aligner(1), 1)
    given.put(0, numbers(1), Marker(Epoch(1)), numbers(2, 3), Marker(Epoch(2)), Marker(Epoch(3)))
    given.put(0, numbers(4))
    expected = [(0, 1), ("cut", 1), (0, 2), (0, 3), ("cut", 2), ("cut", 3), (0, 4)]
    assert given.run() == expected
    assert given.blocked == []


def test_exactly_the_channels_that_delivered_the_marker_are_blocked(numbers: Batch) -> None:
    given = Input(Aligner(3), 3)
    given.put(0, Marker(Epoch(1)), numbers(10))
    given.put(2, Marker(Epoch(1)), numbers(12))
    given.put(1, numbers(1), numbers(2))
    assert given.run() == [(1, 1), (1, 2)]
    assert given.blocked == [0, 2]
    given.put(1, numbers(3))
    assert given.run() == [(1, 3)]


def test_the_last_marker_cuts_and_then_unblocks_all_channels(numbers: Batch) -> None:
    given = Input(Aligner(3), 3)
    given.put(0, Marker(Epoch(1)), numbers(10))
    given.put(2, Marker(Epoch(1)), numbers(12))
    given.run()
    given.put(1, numbers(1), Marker(Epoch(1)), numbers(11))
    seen = given.run()
    assert seen[:2] == [(1, 1), ("cut", 1)]
    assert sorted(seen[2:]) == [(0, 10), (1, 11), (2, 12)]
    assert given.blocked == []


def test_a_blocked_channel_gives_no_credit_back(numbers: Batch) -> None:
    given = Input(Aligner(2), 2)
    given.put(0, Marker(Epoch(1)), numbers(1))
    given.run()
    assert given.granted == []
    given.put(1, Marker(Epoch(1)))
    given.run()
    assert given.granted == [0]


def test_epochs_without_rows_are_cut_like_any_other() -> None:
    given = Input(Aligner(2), 2)
    for epoch in (1, 2, 3):
        given.put(0, Marker(Epoch(epoch)))
    for epoch in (1, 2, 3):
        given.put(1, Marker(Epoch(epoch)))
    assert given.run() == [("cut", 1), ("cut", 2), ("cut", 3)]
    assert given.blocked == []


def test_epoch_numbers_may_skip() -> None:
    aligner = Aligner(2)
    assert marked(aligner, (0, 3), (1, 3), (1, 9), (0, 9)) == [BLOCK, SNAPSHOT, BLOCK, SNAPSHOT]


def test_a_newer_marker_abandons_the_older_epoch_and_starts_anew_with_that_channel(
    numbers: Batch,
) -> None:
    given = Input(Aligner(3), 3)
    given.put(0, Marker(Epoch(1)), numbers(10))
    given.put(1, Marker(Epoch(1)), numbers(11))
    assert given.run() == []
    given.put(2, Marker(Epoch(2)), numbers(12))
    assert sorted(given.run()) == [(0, 10), (1, 11)]
    assert given.blocked == [2]
    given.put(0, Marker(Epoch(2)))
    given.put(1, Marker(Epoch(2)))
    assert given.run() == [("cut", 2), (2, 12)]


def test_the_verdict_names_the_abandoned_epoch() -> None:
    aligner = Aligner(3)
    assert marked(aligner, (0, 1), (2, 2)) == [BLOCK, Verdict(Action.BLOCK, Epoch(1))]


def test_late_markers_of_an_abandoned_epoch_are_swallowed() -> None:
    aligner = Aligner(3)
    marked(aligner, (0, 1), (2, 2))
    assert marked(aligner, (1, 1), (0, 2), (1, 2)) == [IGNORE, BLOCK, SNAPSHOT]
    assert marked(aligner, (2, 1)) == [IGNORE]


def test_on_two_channels_the_newer_marker_needs_the_other_channel_again() -> None:
    aligner = Aligner(2)
    assert marked(aligner, (0, 1), (1, 2)) == [BLOCK, Verdict(Action.BLOCK, Epoch(1))]
    assert marked(aligner, (0, 2)) == [SNAPSHOT]


def test_markers_up_to_the_last_cut_are_swallowed() -> None:
    aligner = Aligner(2)
    marked(aligner, (0, 5), (1, 5))
    assert marked(aligner, (0, 5), (0, 4), (1, 1)) == [IGNORE] * 3
    assert marked(aligner, (1, 6)) == [BLOCK]


def test_aborting_the_current_epoch_says_that_channels_were_blocked() -> None:
    aligner = Aligner(2)
    marked(aligner, (0, 1))
    assert aligner.on_abort(Epoch(1)) is True
    assert marked(aligner, (1, 1), (1, 2)) == [IGNORE, BLOCK]


def test_late_markers_of_an_aborted_epoch_do_not_block(numbers: Batch) -> None:
    given = Input(Aligner(2), 2)
    given.put(0, Marker(Epoch(1)), numbers(10))
    given.run()
    assert given.handler.on_abort(Epoch(1))
    given.gate.unblock_all()
    given.put(1, Marker(Epoch(1)), numbers(11))
    assert sorted(given.run()) == [(0, 10), (1, 11)]
    assert given.blocked == []


def test_the_epoch_after_an_aborted_one_is_cut() -> None:
    aligner = Aligner(2)
    marked(aligner, (0, 1))
    aligner.on_abort(Epoch(1))
    assert marked(aligner, (0, 2), (1, 1), (1, 2)) == [BLOCK, IGNORE, SNAPSHOT]


def test_an_abort_that_comes_before_any_marker_swallows_all_of_them() -> None:
    aligner = Aligner(2)
    assert aligner.on_abort(Epoch(7)) is False
    assert marked(aligner, (0, 7), (1, 7)) == [IGNORE, IGNORE]
    assert marked(aligner, (0, 8), (1, 8)) == [BLOCK, SNAPSHOT]


def test_aborting_an_old_epoch_changes_nothing() -> None:
    aligner = Aligner(2)
    marked(aligner, (0, 5), (1, 5), (0, 6))
    assert aligner.on_abort(Epoch(5)) is False
    assert aligner.on_abort(Epoch(2)) is False
    assert marked(aligner, (1, 6)) == [SNAPSHOT]


def test_aborting_a_future_epoch_leaves_the_current_one_alone() -> None:
    aligner = Aligner(2)
    marked(aligner, (0, 1))
    assert aligner.on_abort(Epoch(2)) is False
    assert marked(aligner, (1, 1)) == [SNAPSHOT]
    assert marked(aligner, (0, 2), (1, 2)) == [IGNORE, IGNORE]
    assert marked(aligner, (0, 3), (1, 3)) == [BLOCK, SNAPSHOT]


def test_an_abort_said_twice_is_the_same_as_once() -> None:
    aligner = Aligner(2)
    marked(aligner, (0, 1))
    assert [aligner.on_abort(Epoch(1)), aligner.on_abort(Epoch(1))] == [True, False]
    assert marked(aligner, (1, 1), (0, 2), (1, 2)) == [IGNORE, BLOCK, SNAPSHOT]


def test_a_repeated_marker_of_a_channel_is_counted_once() -> None:
    aligner = Aligner(2)
    assert marked(aligner, (0, 1), (0, 1)) == [BLOCK, BLOCK]
    assert marked(aligner, (1, 1)) == [SNAPSHOT]


# ---------------------------------------------------------------- the tracker


def test_a_tracker_never_blocks(numbers: Batch) -> None:
    given = Input(Tracker(2), 2)
    given.put(0, Marker(Epoch(1)), numbers(1), Marker(Epoch(2)), numbers(2))
    given.put(1, numbers(11))
    assert sorted(given.run()) == [(0, 1), (0, 2), (1, 11)]
    assert given.blocked == []


def test_a_tracker_of_one_channel_cuts_at_every_marker() -> None:
    assert marked(Tracker(1), (0, 1), (0, 2), (0, 5)) == [SNAPSHOT] * 3


def test_a_tracker_cuts_when_the_last_channel_has_delivered() -> None:
    tracker = Tracker(3)
    assert marked(tracker, (0, 1), (2, 1), (1, 1)) == [WAIT, WAIT, SNAPSHOT]


def test_late_markers_still_complete_an_older_epoch() -> None:
    tracker = Tracker(2)
    assert marked(tracker, (0, 1), (0, 2), (0, 3)) == [WAIT] * 3
    assert marked(tracker, (1, 1), (1, 2), (1, 3)) == [SNAPSHOT] * 3


def test_completing_an_epoch_drops_the_older_ones() -> None:
    tracker = Tracker(3)
    marked(tracker, (0, 1), (1, 1), (0, 2), (1, 2))
    assert marked(tracker, (2, 2)) == [SNAPSHOT]
    assert marked(tracker, (2, 1), (0, 1)) == [IGNORE, IGNORE]


def test_completing_an_epoch_keeps_what_was_counted_of_newer_ones() -> None:
    tracker = Tracker(2)
    assert marked(tracker, (0, 1), (0, 2), (1, 1), (1, 2)) == [WAIT, WAIT, SNAPSHOT, SNAPSHOT]


def test_aborts_between_the_markers_of_several_epochs_swallow_only_their_own() -> None:
    tracker = Tracker(2)
    marked(tracker, (0, 1), (0, 2), (0, 3))
    assert tracker.on_abort(Epoch(2)) is False
    assert marked(tracker, (1, 1), (1, 2)) == [SNAPSHOT, IGNORE]
    assert tracker.on_abort(Epoch(4)) is False
    assert marked(tracker, (1, 3), (0, 4), (1, 4)) == [SNAPSHOT, IGNORE, IGNORE]
    assert marked(tracker, (0, 5), (1, 5)) == [WAIT, SNAPSHOT]


def test_a_tracker_ignores_the_abort_of_an_old_epoch() -> None:
    tracker = Tracker(2)
    marked(tracker, (0, 3), (1, 3), (0, 4))
    tracker.on_abort(Epoch(3))
    tracker.on_abort(Epoch(1))
    assert marked(tracker, (1, 4)) == [SNAPSHOT]


def test_past_fifty_epochs_the_oldest_is_given_up_and_its_markers_swallowed() -> None:
    assert MAX_TRACKED == 50
    tracker = Tracker(2)
    assert marked(tracker, *((0, epoch) for epoch in range(1, 51))) == [WAIT] * 50
    assert marked(tracker, (0, 51)) == [Verdict(Action.WAIT, Epoch(1))]
    assert marked(tracker, (1, 1), (1, 2)) == [IGNORE, SNAPSHOT]


@pytest.mark.parametrize("handler", [Aligner(2), Tracker(2)])
def test_epochs_that_one_channel_skips_stop_nothing_and_lose_no_row(
    handler: Aligner | Tracker, numbers: Batch
) -> None:
    given = Input(handler, 2)
    for epoch in range(1, 200):
        if epoch % 3:
            given.put(0, numbers(epoch), Marker(Epoch(epoch)))
        if epoch % 5:
            given.put(1, numbers(epoch), Marker(Epoch(epoch)))
    given.put(0, Marker(Epoch(200)))
    given.put(1, Marker(Epoch(200)))
    seen = given.run()
    assert [row for row in seen if row[0] == 0] == [(0, n) for n in range(1, 200) if n % 3]
    assert [row for row in seen if row[0] == 1] == [(1, n) for n in range(1, 200) if n % 5]
    cuts = [epoch for kind, epoch in seen if kind == "cut"]
    assert cuts == [epoch for epoch in range(1, 200) if epoch % 3 and epoch % 5] + [200]
