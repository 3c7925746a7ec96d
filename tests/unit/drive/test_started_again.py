"""A job that has ended is started again on its directory and reads what is new."""

from __future__ import annotations

import logging
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import mainstay as ms
from mainstay.connectors import Files, FileSink, Memory, ParquetSink, Rows, Sequence
from mainstay.errors import DamagedFileError, RestoreError
from tests.drive.ledger import await_until
from tests.unit.drive.test_embedded import PATIENCE_S, Gated, Telling, environment, start

SCHEMA = "name string, n long"


class Total(ms.KeyedProcess):
    total = ms.ReducingState("long", lambda a, b: a + b)

    def process(self, row: Any, ctx: Any) -> Any:
        self.total.add(row.n)
        yield ctx.key, row.n, self.total.get()


class Other(ms.KeyedProcess):
    total = ms.ValueState("string")

    def process(self, row: Any, ctx: Any) -> Any:
        yield ctx.key, row.n, 0


def run(
    place: Path, source: Any, sink: Any, function: Any = None, uid: str = "totals", **settings: Any
) -> Any:
    """Run to the end; the handle of the job."""
    env = environment(place, **{"restore": "latest-or-new", **settings})
    keyed = env.source(source, uid="in").key_by("name")
    keyed.process(function or Total(), "name string, n long, total long", uid=uid).sink(
        sink, uid="out"
    )
    job = env.start("totals")
    assert job.wait(PATIENCE_S) == "finished"
    return job


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path


def put(folder: Path, name: str, *rows: tuple[str, int]) -> None:
    lines = "".join(f"{key},{n}\n" for key, n in rows)
    (folder / "in" / name).write_text("name,n\n" + lines)


def files(folder: Path) -> Files:
    return Files(folder / "in", schema=SCHEMA)


# ---------------------------------------------------------------- new input


def test_only_new_files_are_read_and_their_rows_are_counted_on_top(folder: Path) -> None:
    out = Memory()
    put(folder, "monday.csv", ("a", 1), ("b", 2))
    first = run(folder / "snapshots", files(folder), out)
    put(folder, "tuesday.csv", ("a", 10))
    put(folder, "wednesday.csv", ("b", 20), ("c", 30))
    second = run(folder / "snapshots", files(folder), out, parallelism=3)
    assert sorted(out.rows()) == sorted(
        [("a", 1, 1), ("b", 2, 2), ("a", 10, 11), ("b", 20, 22), ("c", 30, 30)]
    )
    assert second.snapshots()[0].epoch > first.snapshots()[-1].epoch
    assert [record.attempt for record in second.attempts()] == [2]


@pytest.mark.parametrize("kind", [FileSink, ParquetSink])
def test_what_all_starts_have_written_is_there_exactly_once(folder: Path, kind: Any) -> None:
    expected: Counter[tuple[str, int]] = Counter()
    for day in range(4):
        rows = [(f"k{n % 3}", 100 * day + n) for n in range(50)]
        put(folder, f"day-{day}.csv", *rows)
        expected.update(rows)
        sink = kind(folder / "out", **({"format": "parquet"} if kind is FileSink else {}))
        run(folder / "snapshots", files(folder), sink)
        if day % 2:
            run(folder / "snapshots", files(folder), sink)
    found: Counter[tuple[str, int]] = Counter()
    totals: dict[str, int] = {}
    for path in (folder / "out").rglob("*.parquet"):
        for row in pq.read_table(path).to_pylist():
            found[row["name"], row["n"]] += 1
            totals[row["name"]] = max(row["total"], totals.get(row["name"], 0))
    assert found == expected
    assert totals == {f"k{k}": sum(n for key, n in expected if key == f"k{k}") for k in range(3)}


@pytest.mark.parametrize("drain", [False, True])
def test_a_job_that_was_stopped_reads_the_rest_and_what_is_new(tmp_path: Path, drain: bool) -> None:
    class Longer(Gated):
        def plan(self, seen: frozenset[str]) -> Any:
            return [*super().plan(seen), ms.connectors.Split("new", 200)]

    source, sink = Gated(), Telling()
    job = start(tmp_path, source, sink)
    sink.await_half()
    job.stop(drain=drain, timeout=PATIENCE_S)
    assert job.status == "stopped"
    longer = Longer()
    longer.open_gate()
    assert start(tmp_path, longer, sink, restore="latest").wait(PATIENCE_S) == "finished"
    counts = Counter(n for _, n, _ in sink.rows())
    again = set(range(200, 600, 2))
    assert counts == {n: 2 if n in again else 1 for n in range(600)}


def test_numbers_go_on_where_the_old_end_was(tmp_path: Path) -> None:
    out = Memory()
    for end in (10, 10, 25):
        env = environment(tmp_path, restore="latest-or-new")
        env.source(Sequence(end=end), uid="numbers").sink(out, uid="out")
        assert env.start("numbers").wait(PATIENCE_S) == "finished"
    assert sorted(out.rows()) == [(n,) for n in range(25)]


def test_numbers_without_an_end_may_be_given_one_and_another(tmp_path: Path) -> None:
    out = Memory()

    def started(end: int | None) -> Any:
        env = environment(tmp_path, restore="latest-or-new")
        env.source(Sequence(end=end, rows_per_second=100), uid="numbers").sink(out, uid="out")
        return env.start("numbers")

    job = started(None)
    await_until(out.rows, "the first rows have arrived")
    job.stop(timeout=PATIENCE_S)
    first = len(out.rows())
    for end in (first + 20, first + 20, first + 30):
        assert started(end).wait(PATIENCE_S) == "finished"
        assert sorted(out.rows()) == [(n,) for n in range(end)]
    job = started(None)
    await_until(lambda: len(out.rows()) > first + 30, "it goes on without an end")
    job.stop(timeout=PATIENCE_S)
    assert sorted(out.rows()) == [(n,) for n in range(len(out.rows()))]


def test_numbers_that_a_lower_end_has_left_out_come_with_a_higher_one(tmp_path: Path) -> None:
    out = Memory()
    source = Sequence(end=10**6, rows_per_second=100)
    env = environment(tmp_path, restore="latest-or-new")
    env.source(source, uid="numbers").sink(out, uid="out")
    job = env.start("numbers")
    await_until(out.rows, "the first rows have arrived")
    job.stop(timeout=PATIENCE_S)
    first = len(out.rows())
    for end in (first + 20, first + 30):
        env = environment(tmp_path, restore="latest")
        env.source(Sequence(end=end), uid="numbers").sink(out, uid="out")
        assert env.start("numbers").wait(PATIENCE_S) == "finished"
        assert sorted(out.rows()) == [(n,) for n in range(end)]


def test_files_are_known_however_their_paths_are_spelled(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = Memory()
    put(folder, "monday.csv", ("a", 1))
    monkeypatch.chdir(folder)
    for path in ("in", "./in", folder / "in", "in/*.csv"):
        run(folder / "snapshots", Files(path, schema=SCHEMA), out)
    assert out.rows() == [("a", 1, 1)]


def test_files_that_were_read_may_be_removed(folder: Path) -> None:
    out = Memory()
    put(folder, "monday.csv", ("a", 1))
    run(folder / "snapshots", files(folder), out)
    (folder / "in" / "monday.csv").unlink()
    job = run(folder / "snapshots", files(folder), out)
    assert "no new input since" in job.restored[0]
    put(folder, "tuesday.csv", ("a", 10))
    run(folder / "snapshots", files(folder), out)
    assert out.rows() == [("a", 1, 1), ("a", 10, 11)]


# ---------------------------------------------------------------- nothing new


def test_without_new_input_the_job_says_so_and_writes_nothing(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(folder, "monday.csv", ("a", 1))
    first = run(folder / "snapshots", files(folder), Memory())
    before = {p: p.read_bytes() for p in (folder / "snapshots").rglob("*") if p.is_file()}
    out = Memory()
    with caplog.at_level(logging.INFO, logger="mainstay"):
        job = run(folder / "snapshots", files(folder), out)
    after = {p: p.read_bytes() for p in (folder / "snapshots").rglob("*") if p.is_file()}
    assert (out.rows(), job.attempts(), after) == ([], [], before)
    epoch = first.snapshots()[-1].epoch
    assert job.snapshots()[-1].epoch == epoch
    assert job.restored[0].startswith(f"finished at epoch {epoch} on 20")
    assert job.restored[0].endswith(" UTC; no new input since")
    assert job.restored[1] == (
        "new input of source 'in' would be files at paths that were not read before"
    )
    assert [line for line in caplog.messages if "no new input" in line] == [
        f"job 'totals': {job.restored[0]}"
    ]


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize("new", [(("a", 1), ("a", 5)), (("a", 2),)], ids=["longer", "as long"])
def test_a_file_that_has_changed_since_it_was_read_is_refused_by_name(
    folder: Path, new: tuple[tuple[str, int], ...]
) -> None:
    put(folder, "monday.csv", ("a", 1))
    run(folder / "snapshots", files(folder), Memory())
    put(folder, "monday.csv", *new)
    put(folder, "tuesday.csv", ("b", 1))
    with pytest.raises(RestoreError, match=r"source 'in': .*monday.csv' has changed since it was"):
        run(folder / "snapshots", files(folder), Memory())


def test_a_file_that_was_only_touched_has_not_changed(folder: Path) -> None:
    put(folder, "monday.csv", ("a", 1))
    run(folder / "snapshots", files(folder), Memory())
    put(folder, "monday.csv", ("a", 1))
    assert "no new input" in run(folder / "snapshots", files(folder), Memory()).restored[0]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "another type": ({"function": Other()}, "totals.total"),
    "another uid": ({"uid": "sums"}, "the job has no operator 'totals'"),
    "another max_parallelism": ({"max_parallelism": 64}, "max_parallelism=128"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_cannot_be_restored_is_refused_although_nothing_is_new(folder: Path, why: str) -> None:
    settings, message = REFUSED[why]
    put(folder, "monday.csv", ("a", 1))
    run(folder / "snapshots", files(folder), Memory())
    with pytest.raises(RestoreError, match=message):
        run(folder / "snapshots", files(folder), Memory(), **settings)


@pytest.mark.parametrize("how", ["flipped", "gone"])
def test_a_damaged_file_is_refused_although_nothing_is_new(folder: Path, how: str) -> None:
    put(folder, "monday.csv", *((f"k{n}", n) for n in range(200)))
    run(folder / "snapshots", files(folder), Memory())
    (state, *_) = sorted((folder / "snapshots" / "state").rglob("*.msty"))
    if how == "gone":
        state.unlink()
    else:
        data = bytearray(state.read_bytes())
        data[len(data) // 3] ^= 1
        state.write_bytes(data)
    with pytest.raises(DamagedFileError, match=state.name):
        run(folder / "snapshots", files(folder), Memory())


def test_the_directory_of_another_job_is_refused(tmp_path: Path) -> None:
    run(tmp_path, Rows(SCHEMA, [("a", 1)]), Memory())
    env = environment(tmp_path, restore="latest")
    env.source(Rows(SCHEMA, [("a", 1)]), uid="in").sink(Memory(), uid="out")
    with pytest.raises(RestoreError, match="holds the history of job 'totals'"):
        env.start("others").wait(PATIENCE_S)


def test_another_job_may_start_from_the_directory_in_one_of_its_own(tmp_path: Path) -> None:
    out = Memory()
    run(tmp_path / "first", Rows(SCHEMA, [("a", 1)]), Memory())
    source = Rows(SCHEMA, [("a", 1), ("a", 10)])
    run(tmp_path / "second", source, out, restore=tmp_path / "first")
    assert out.rows() == [("a", 10, 11)]


def test_what_new_input_a_finished_job_goes_on_with_is_listed(tmp_path: Path) -> None:
    def run(rows: int, **settings: Any) -> Any:
        snapshots = ms.Snapshots(tmp_path)
        env = ms.Environment(spark="embedded", snapshots=snapshots, **settings)
        source = ms.connectors.Rows("n long", [(n,) for n in range(rows)])
        env.source(source, uid="in").sink(ms.connectors.Memory(), uid="out")
        job = env.start("rows")
        assert job.wait(60) == "finished"
        return job

    run(3)
    again = run(5, restore="latest")
    (line,) = [line for line in again.restored if "new input" in line]
    assert re.fullmatch(r"source 'in' reads new input \(rows-.*5.*\)", line)
