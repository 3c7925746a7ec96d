"""Checkpoints of real Spark queries as savepoints, from which jobs go on as in one run."""

from __future__ import annotations

import json
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import mainstay as ms
from mainstay.errors import RestoreError, SavepointError, StateTypeError
from mainstay.inspect.reading import Origin
from mainstay.spark.checkpoints.logs import FORMAT_VERSION
from tests.spark.checkpoints import (
    HOUR_MS,
    SCHEMA,
    Changed,
    GoesOn,
    at,
    by_group_states,
    by_kinds,
    by_sessions,
    last_by_key,
    run_query,
    write_clicks,
    write_numbers,
)

pytestmark = pytest.mark.spark
pytest.importorskip("google.protobuf", reason="Spark's transformWithState needs protobuf")


@pytest.fixture(scope="module")
def kinds(stateful: Any, tmp_path_factory: pytest.TempPathFactory) -> GoesOn:
    """A stopped query with every kind of state, and new files that it has not seen."""
    folder = tmp_path_factory.mktemp("kinds")
    write_numbers(folder / "in", "first part.json", range(20))
    run_query(stateful, folder, by_kinds)
    write_numbers(folder / "in", "rest.json", range(20, 40))
    return GoesOn(folder, by_kinds)


def imported(spark: Any, job: GoesOn, name: str = "saved", **given: Any) -> Any:
    program = given.pop("program", None) or job.build("planned")[0]
    checkpoint = given.pop("checkpoint", job.folder / "checkpoint")
    return ms.spark.import_checkpoint(
        checkpoint, job.folder / name, program=program, spark=spark, partitions=1, **given
    )


@pytest.fixture(scope="module")
def report(stateful: Any, kinds: GoesOn) -> Any:
    return imported(stateful, kinds)


@pytest.fixture(scope="module")
def whole(kinds: GoesOn) -> Any:
    """What one run over all rows comes to."""
    return last_by_key(kinds.run("whole"), 2)


@pytest.mark.parametrize(
    ("parallelism", "state"),
    [
        (1, "heap"),
        (3, "rocksdb"),
        pytest.param(1, "rocksdb", marks=pytest.mark.soak),
        pytest.param(3, "heap", marks=pytest.mark.soak),
    ],
)
def test_a_job_goes_on_with_every_kind_of_state(
    parallelism: int, state: str, report: Any, kinds: GoesOn, whole: Any
) -> None:
    settings: dict[str, Any] = {"restore": report.savepoint, "parallelism": parallelism}
    if state == "rocksdb":
        pytest.importorskip("rocksdict")
        settings["state"] = ms.RocksDB(memory="64MiB")
    found = kinds.run(f"goes-on-{parallelism}-{state}", **settings)
    assert last_by_key(found, 2) == whole


def test_what_was_taken_over_is_told(report: Any, kinds: GoesOn) -> None:
    taken = {each.state: each.rows for each in report.states}
    assert taken == {
        "total": 6,
        "numbers": 6,
        "by_page": 6,
        "last": 6,
        "recent": 6,
        "seen": 20,
        "brief": 6,
        "processing_timers": 20,
    }
    assert report.batch == 0
    assert report.watermark is None
    assert report.sources == {"clicks": "reads all but 1 file that the query has read"}
    assert report.notes == ()


def test_values_expire_when_spark_would_have_let_them_expire(report: Any, kinds: GoesOn) -> None:
    log = (kinds.folder / "checkpoint/offsets/0").read_text().splitlines()
    written = json.loads(log[1])["batchTimestampMs"]
    origin = Origin.open(report.savepoint)
    for state in ("last", "recent", "seen"):
        (part,) = origin.view("kinds", state).slices(1)
        stamps = part.read().column("touched_at").combine_chunks()
        flat = stamps.flatten() if state == "recent" else stamps
        assert {at.timestamp() * 1000 for at in flat.to_pylist()} == {written}


def test_event_time_goes_on_with_timers_and_late_rows(stateful: Any, tmp_path: Path) -> None:
    write_clicks(tmp_path / "in", "1.json", [("a", 0), ("b", 1), ("x", 28), ("b", 30)])
    write_clicks(tmp_path / "in", "2.json", [("c", 31), ("c", 32)])
    stateful.conf.set(FORMAT_VERSION, "2")
    first = run_query(stateful, tmp_path, by_sessions, watermark=True, maxFilesPerTrigger="1")
    stateful.conf.unset(FORMAT_VERSION)
    assert [row[:2] for row in first] == [("a", 1)]
    # The watermark is 31 by now, and the timers up to 29 have fired.
    write_clicks(tmp_path / "in", "3.json", [("b", 31), ("c", 33), ("x", 34), ("d", 40)])
    job = GoesOn(tmp_path, by_sessions, watermark=True)
    report = imported(stateful, job)
    assert report.watermark == at(31)
    ends = [(row[0], row[1], row[2]) for row in job.run("goes-on", restore=report.savepoint)]
    assert ends == [
        ("x", 1, at(31)),
        ("b", 2, at(33)),
        ("c", 3, at(36)),
        ("x", 1, at(37)),
        ("d", 1, at(43)),
    ]


def test_a_function_with_a_group_state_goes_on(stateful: Any, tmp_path: Path) -> None:
    write_clicks(tmp_path / "in", "1.json", [("a", 0), ("b", 1), ("a", 2)])
    run_query(stateful, tmp_path, by_group_states, watermark=True)
    write_clicks(tmp_path / "in", "2.json", [("b", 3), ("c", 30)])
    job = GoesOn(tmp_path, by_group_states, watermark=True)
    report = imported(stateful, job)
    assert {each.state: each.rows for each in report.states} == {"state": 2, "timeout": 2}
    found = job.run("goes-on", restore=report.savepoint)
    assert sorted(found) == [
        ("a", 2, True),
        ("b", 2, False),
        ("b", 2, True),
        ("c", 1, False),
        ("c", 1, True),
    ]


def processing(rows: Any, processor: Any, *keys: str) -> Any:
    """A processor in a job, in the place of ``Kinds``."""
    return rows.key_by(*keys or ("user", "page")).transform_with_state(
        processor, processor.output, time_mode="ProcessingTime", uid="kinds"
    )


def test_times_to_live_may_change(stateful: Any, kinds: GoesOn) -> None:
    job = GoesOn(kinds.folder, lambda rows: processing(rows, Changed()))
    report = imported(stateful, job, "changed")
    taken = {each.state: each.rows for each in report.states}
    assert taken == {"total": 6, "last": 6, "seen": 20, "brief": 0, "processing_timers": 20}
    assert set(report.notes) == {
        "values of kinds.total have a time to live, which begins with this import",
        "values of kinds.seen expire no more",
        "values of kinds.brief expire no more",
        "the state 'numbers' of the checkpoint was left behind",
        "the state 'by_page' of the checkpoint was left behind",
        "the state 'recent' of the checkpoint was left behind",
        "state kinds.added is not in the checkpoint: starts empty",
    }
    origin = Origin.open(report.savepoint)
    (part,) = origin.view("kinds", "last").slices(1)
    (before,) = Origin.open(str(kinds.folder / "saved")).view("kinds", "last").slices(1)
    hour_earlier = [at - timedelta(hours=1) for at in before.read()["touched_at"].to_pylist()]
    assert part.read()["touched_at"].to_pylist() == hour_earlier


class Typed(Changed):
    """Has a state of another type."""

    def init(self, handle: Any) -> None:
        for name in ("numbers", "by_page", "recent", "total", "seen", "brief"):
            handle.deleteIfExists(name)
        handle.getValueState("last", "n int", ttlDurationMs=HOUR_MS)


def test_another_type_is_refused_before_anything_is_written(stateful: Any, kinds: GoesOn) -> None:
    job = GoesOn(kinds.folder, lambda rows: processing(rows, Typed()))
    with pytest.raises(StateTypeError, match="state 'last': the column 'last' is struct<n:long>"):
        imported(stateful, job, "typed")
    assert not (kinds.folder / "typed").exists()


def test_another_key_is_refused(stateful: Any, kinds: GoesOn) -> None:
    job = GoesOn(kinds.folder, lambda rows: processing(rows, Changed(), "user"))
    with pytest.raises(RestoreError, match=r"keyed by user.*key_by\('user', 'page'\)"):
        imported(stateful, job, "keyed")


def test_a_key_of_the_same_columns_in_another_order_is_refused(
    stateful: Any, kinds: GoesOn
) -> None:
    job = GoesOn(kinds.folder, lambda rows: processing(rows, Changed(), "page", "user"))
    said = r"grouped by 'user string, page string'.*keyed by page, user\..*key_by\('user', 'page'\)"
    with pytest.raises(RestoreError, match=said):
        imported(stateful, job, "turned")
    assert not (kinds.folder / "turned").exists()


def test_a_state_whose_files_are_gone_is_refused(stateful: Any, kinds: GoesOn) -> None:
    copied = kinds.folder / "copied"
    shutil.copytree(kinds.folder / "checkpoint", copied)
    for file in (copied / "state/0/0").glob("*.zip"):
        file.unlink()
    with pytest.raises(SavepointError, match=r"was not written: .*CANNOT_LOAD_STATE_STORE"):
        imported(stateful, kinds, "damaged", checkpoint=copied)
    assert not list((kinds.folder / "damaged").iterdir())


def test_a_query_that_runs_is_refused(stateful: Any, tmp_path: Path, kinds: GoesOn) -> None:
    rows = stateful.readStream.schema(SCHEMA).json(str(kinds.folder / "in"))
    writer = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "runs"))
    query = writer.start()
    try:
        query.processAllAvailable()
        with pytest.raises(RestoreError, match="a query of this session runs on the checkpoint"):
            imported(stateful, kinds, checkpoint=tmp_path / "runs")
    finally:
        query.stop()
    with pytest.raises(RestoreError, match="no state of a StatefulProcessor"):
        imported(stateful, kinds, checkpoint=tmp_path / "runs")


def test_what_is_no_checkpoint_is_refused(stateful: Any, tmp_path: Path, kinds: GoesOn) -> None:
    for place in (tmp_path, tmp_path / "absent", kinds.folder / "saved"):
        with pytest.raises(RestoreError, match="there is no checkpoint at"):
            imported(stateful, kinds, checkpoint=place)
