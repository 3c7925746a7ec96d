from __future__ import annotations

from typing import Any

from mainstay.runtime.coordinator.epochs import EpochBook, EpochRecord
from mainstay.runtime.messages import Acknowledge, Attempt, Epoch, Figures
from mainstay.runtime.options import SnapshotOptions
from mainstay.snapshot.manifest import FileRef, SegmentRef, SubtaskState

SUBTASKS = frozenset({("source", 0), ("source", 1), ("sink", 0)})


def book(now: float = 100.0, first: int = 1, **options: Any) -> EpochBook:
    chosen = SnapshotOptions(**{"every_s": 10.0, "timeout_s": 60.0, **options})
    return EpochBook(3, SUBTASKS, chosen, Epoch(first), now)


def begin(epochs: EpochBook, now: float, *, is_final: bool = False) -> Epoch:
    return epochs.begin(now, 5000.0 + now, {}, is_final=is_final).epoch


def acknowledge(epochs: EpochBook, epoch: int, task: str, subtask: int, size: int = 0) -> Any:
    segment = SegmentRef(
        f"{task}-{subtask}-{epoch}", FileRef(f"state/{task}-{subtask}-{epoch}", size, ""), 0, 9, 1
    )
    states = {task: SubtaskState(subtask, (segment,))}
    figures = Figures(size_bytes=size)
    return epochs.acknowledge(Acknowledge(Attempt(3), Epoch(epoch), task, subtask, states, figures))


def acknowledge_all(epochs: EpochBook, epoch: int) -> Any:
    results = [acknowledge(epochs, epoch, *subtask) for subtask in sorted(SUBTASKS)]
    return results[-1]


def commit(epochs: EpochBook, epoch: int, now: float) -> tuple[EpochRecord, list[EpochRecord]]:
    acknowledge_all(epochs, epoch).is_committing = True
    return epochs.complete(Epoch(epoch), now)


# ---------------------------------------------------------------- when


def test_the_first_epoch_is_due_one_interval_after_the_beginning() -> None:
    assert book(now=100.0).next_trigger() == 110.0


def test_the_next_epoch_is_due_one_interval_after_the_last_trigger() -> None:
    epochs = book()
    begin(epochs, 110.0)
    commit(epochs, 1, 112.0)
    assert epochs.next_trigger() == 120.0


def test_no_epoch_is_due_while_as_many_as_allowed_are_pending() -> None:
    one, two = book(), book(max_concurrent=2)
    begin(one, 110.0)
    assert one.next_trigger() is None
    begin(two, 110.0)
    assert two.next_trigger() == 120.0
    begin(two, 120.0)
    assert two.next_trigger() is None


def test_the_pause_is_counted_from_the_end_of_the_last_epoch() -> None:
    epochs = book(min_pause_s=9.0)
    begin(epochs, 110.0)
    commit(epochs, 1, 118.0)
    assert epochs.next_trigger() == 127.0


def test_a_failed_epoch_is_followed_by_the_pause_too() -> None:
    epochs = book(min_pause_s=9.0)
    begin(epochs, 110.0)
    epochs.fail(Epoch(1), 119.0, "no space")
    assert epochs.next_trigger() == 128.0


def test_the_pause_does_not_delay_the_first_epoch() -> None:
    assert book(now=100.0, min_pause_s=50.0).next_trigger() == 110.0


def test_an_epoch_expires_when_its_time_is_over() -> None:
    epochs = book(max_concurrent=2)
    begin(epochs, 110.0)
    begin(epochs, 120.0)
    assert epochs.next_timeout() == 170.0
    assert epochs.expired(169.9) == []
    assert epochs.expired(170.0) == [1]
    assert epochs.expired(180.0) == [1, 2]


def test_an_epoch_that_is_being_committed_does_not_expire() -> None:
    epochs = book()
    begin(epochs, 110.0)
    acknowledge_all(epochs, 1).is_committing = True
    assert epochs.next_timeout() is None
    assert epochs.expired(1e9) == []


# ---------------------------------------------------------------- acknowledgements


def test_the_last_missing_acknowledgement_makes_the_epoch_whole() -> None:
    epochs = book()
    begin(epochs, 110.0)
    assert acknowledge(epochs, 1, "source", 0) is None
    assert acknowledge(epochs, 1, "source", 1) is None
    assert acknowledge(epochs, 1, "sink", 0) is epochs.pending[Epoch(1)]


def test_a_repeated_acknowledgement_counts_once_and_keeps_the_first_word() -> None:
    epochs = book()
    begin(epochs, 110.0)
    acknowledge(epochs, 1, "source", 0, size=7)
    assert acknowledge(epochs, 1, "source", 0, size=9) is None
    assert acknowledge(epochs, 1, "source", 0, size=9) is None
    assert epochs.pending[Epoch(1)].figures["source", 0].size_bytes == 7
    assert epochs.pending[Epoch(1)].waiting == {("source", 1), ("sink", 0)}


def test_acknowledgements_of_strangers_change_nothing() -> None:
    epochs = book()
    begin(epochs, 110.0)
    assert acknowledge(epochs, 2, "source", 0) is None
    assert acknowledge(epochs, 1, "map", 0) is None
    assert acknowledge(epochs, 1, "source", 2) is None
    assert epochs.pending[Epoch(1)].waiting == set(SUBTASKS)
    assert list(epochs.pending) == [1]


# ---------------------------------------------------------------- ends


def test_epoch_numbers_go_up_from_the_first() -> None:
    epochs = book(first=7, max_concurrent=2)
    assert [begin(epochs, 110.0), begin(epochs, 120.0)] == [7, 8]
    assert epochs.next_epoch == 9


def test_a_completed_epoch_is_recorded_with_what_was_measured() -> None:
    epochs = book()
    begin(epochs, 110.0)
    for subtask in sorted(SUBTASKS):
        acknowledge(epochs, 1, *subtask, size=100)
    record, subsumed = epochs.complete(Epoch(1), 113.5)
    assert subsumed == []
    assert (record.epoch, record.attempt, record.status) == (1, 3, "complete")
    assert (record.triggered_at, record.duration_s, record.size_bytes) == (5110.0, 3.5, 300)
    assert set(record.figures) == SUBTASKS


def test_completing_an_epoch_subsumes_older_pending_ones_only() -> None:
    epochs = book(max_concurrent=3)
    for now in (110.0, 120.0, 130.0):
        begin(epochs, now)
    record, subsumed = commit(epochs, 2, 131.0)
    assert record.epoch == 2
    assert [(r.epoch, r.status, r.reason) for r in subsumed] == [(1, "subsumed", "by epoch 2")]
    assert list(epochs.pending) == [3]


def test_a_subsumed_epoch_is_no_failure() -> None:
    epochs = book(max_concurrent=2)
    begin(epochs, 110.0)
    begin(epochs, 120.0)
    commit(epochs, 2, 121.0)
    assert epochs.failures_in_a_row == 0


def test_failures_in_a_row_are_counted_until_one_too_many() -> None:
    epochs = book(tolerable_failures=1)
    begin(epochs, 110.0)
    record = epochs.fail(Epoch(1), 111.0, "no space")
    assert (record.status, record.reason, record.duration_s) == ("failed", "no space", 1.0)
    assert not epochs.has_failed_too_often
    begin(epochs, 120.0)
    epochs.fail(Epoch(2), 121.0, "no space")
    assert epochs.has_failed_too_often


def test_a_completed_epoch_ends_the_row_of_failures() -> None:
    epochs = book(tolerable_failures=1)
    begin(epochs, 110.0)
    epochs.fail(Epoch(1), 111.0, "no space")
    begin(epochs, 120.0)
    commit(epochs, 2, 121.0)
    begin(epochs, 130.0)
    epochs.fail(Epoch(3), 131.0, "no space")
    assert epochs.failures_in_a_row == 1
    assert not epochs.has_failed_too_often


def test_the_end_of_an_attempt_closes_open_epochs_but_not_those_being_committed() -> None:
    epochs = book(max_concurrent=2)
    begin(epochs, 110.0)
    begin(epochs, 120.0)
    acknowledge_all(epochs, 1).is_committing = True
    records = epochs.abandon(121.0, "a worker was lost")
    assert [(r.epoch, r.status, r.reason) for r in records] == [(2, "failed", "a worker was lost")]
    assert list(epochs.pending) == [1]
    assert epochs.failures_in_a_row == 0


def test_the_oldest_whole_epoch_comes_first() -> None:
    epochs = book(max_concurrent=3)
    for now in (110.0, 120.0, 130.0):
        begin(epochs, now)
    assert epochs.oldest_whole() is None
    for epoch in (3, 2):
        acknowledge_all(epochs, epoch).is_committing = True
    whole = epochs.oldest_whole()
    assert whole is not None
    assert whole.epoch == 2


def test_the_files_of_pending_epochs_are_those_acknowledged_so_far() -> None:
    epochs = book(max_concurrent=2)
    begin(epochs, 110.0)
    begin(epochs, 120.0)
    acknowledge(epochs, 1, "source", 0)
    acknowledge(epochs, 2, "sink", 0)
    assert sorted(epochs.pending_files()) == ["state/sink-0-2", "state/source-0-1"]


def test_a_final_epoch_is_known_to_be_pending() -> None:
    epochs = book(max_concurrent=2)
    begin(epochs, 110.0)
    assert not epochs.final_is_pending
    begin(epochs, 120.0, is_final=True)
    assert epochs.final_is_pending
