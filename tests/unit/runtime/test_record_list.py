"""What a job tells of its epochs, attempts and problems, as a person reads it."""

from __future__ import annotations

import pickle

import pytest

from mainstay.quantities import shown_size
from mainstay.runtime.coordinator.epochs import EpochRecord
from mainstay.runtime.messages import Epoch, Figures
from mainstay.runtime.record_list import RecordList
from mainstay.runtime.status import AttemptRecord, EpochStatus, Problem, Recovery

DONE = EpochRecord(
    Epoch(12), 1, EpochStatus.COMPLETE, 1_700_000_000.0, 0.25, 4096, {("in", 0): Figures(0.125)}
)
FAILED = EpochRecord(
    Epoch(13), 2, EpochStatus.FAILED, 1_700_000_010.0, 3.0, reason="the disk\n<is> full"
)


def test_an_epoch_fits_on_a_line() -> None:
    assert str(DONE) == "epoch 12 (attempt 1) complete after 0.250 s, 4.0 KiB"
    assert str(FAILED).endswith(
        "epoch 13 (attempt 2) failed after 3.000 s, 0 B: the disk\n<is> full"
    )
    assert "Figures" not in repr(DONE)


def test_a_list_of_epochs_is_a_table_with_a_line_for_each() -> None:
    head, first, second = repr(RecordList("epochs", [DONE, FAILED])).splitlines()
    assert head.split() == [
        *["epoch", "status", "triggered", "(UTC)", "duration", "alignment", "size", "attempt"],
        "reason",
    ]
    assert first == "12     complete  2023-11-14 22:13:20  0.250 s   0.125 s    4.0 KiB  1"
    assert second.endswith("0 B      2        the disk <is> full")
    assert len({line.index("20") for line in (first, second)}) == 1


def test_columns_in_which_there_is_nothing_are_left_out() -> None:
    assert "reason" not in repr(RecordList("epochs", [DONE]))


def test_of_many_records_the_last_are_shown() -> None:
    many = RecordList("epochs", [DONE] * 2000 + [FAILED])
    first, *lines = repr(many).splitlines()
    assert first == "the last 50 of 2,001 epochs:"
    assert len(lines) == 51
    assert "failed" in lines[-1]
    assert many._repr_html_().startswith("the last 50 of 2,001 epochs:<table>")


def test_what_was_not_kept_of_an_epoch_is_not_shown_as_zero() -> None:
    assert DONE.cells()["alignment"] == "0.125 s"
    assert FAILED.cells()["alignment"] == ""


def test_a_long_reason_stays_on_its_line() -> None:
    lines = repr(RecordList("attempts", [AttemptRecord(1, None, 0.0, reason="x" * 500)]))
    assert max(map(len, lines.splitlines())) < 140


def test_a_notebook_gets_a_table_in_which_nothing_is_markup() -> None:
    html = RecordList("epochs", [DONE, FAILED])._repr_html_()
    assert html.count("<tr>") == 3
    assert "<td>12</td>" in html
    assert "the disk &lt;is&gt; full" in html


def test_an_empty_list_says_what_there_is_none_of() -> None:
    empty: RecordList[EpochRecord] = RecordList("epochs")
    assert (repr(empty), bool(empty), len(empty)) == ("no epochs yet", False, 0)
    assert "no epochs yet" in empty._repr_html_()


def test_it_is_a_list_in_every_other_respect() -> None:
    records = RecordList("epochs", [DONE, FAILED])
    assert records == [DONE, FAILED]
    assert isinstance(records, list)
    assert [each.epoch for each in records] == [12, 13]
    assert records[-1] is FAILED
    assert repr(records[:1]) == repr(RecordList("epochs", [DONE]))
    assert pickle.loads(pickle.dumps(records)) == records


def test_attempts_recoveries_and_problems_fit_on_a_line_each() -> None:
    running = AttemptRecord(2, 7, 100.0)
    ended = AttemptRecord(1, None, 90.0, ended_at=95.0, reason="a worker died")
    restored = AttemptRecord(1, None, 90.0, report=("matched state 'a.b'",))
    recovery = Recovery(2, "a worker died", 95.0, 96.0, 97.0, 97.5)
    problem = Problem("sink 'out'", "has not confirmed epoch 12", "OSError: away", 43.2)
    assert str(running) == "attempt 2 from epoch 7 has not ended"
    assert str(ended) == "attempt 1 from nothing ended after 5.000 s: a worker died"
    assert restored.origin == "a savepoint or another job"
    assert str(recovery) == (
        "attempt 2 ran 2.500 s after the failure (waited 1.000 s, relaunched in 1.000 s, restored "
        "in 0.500 s): a worker died"
    )
    assert len(repr(RecordList("attempts", [ended, running])).splitlines()) == 3
    assert len(repr(RecordList("recoveries", [recovery])).splitlines()) == 2
    assert "43 s" in repr(RecordList("problems", [problem]))


@pytest.mark.parametrize(
    ("size_bytes", "expected"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 << 30, "3.0 GiB")],
)
def test_sizes_are_for_people(size_bytes: int, expected: str) -> None:
    assert shown_size(size_bytes) == expected
