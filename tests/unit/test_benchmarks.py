"""Every benchmark runs in its smallest form and reports all of its rows; times are not judged."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

ROWS = {
    "state_access": [
        "the loop alone",
        "dict get + set",
        "ValueState get",
        "ValueState update",
        "ValueState get + update",
        "ListState add",
        "MapState put",
    ],
    "record_path": [
        "bare loop with a dict",
        "process (KeyedProcess, a row out for each row in)",
        "process_batches (KeyedBatchProcess)",
        "map",
    ],
    "stateful_processor": [
        "process (KeyedProcess, called for each row)",
        "transform_with_state, rows",
        "transform_with_state, pandas",
        "apply_in_pandas_with_state",
    ],
    "snapshot_cost": [
        "10",
        "100",
        "1,000",
        "1,000",
        *(["10"] * 2),
        *(["100"] * 2),
        *(["1,000"] * 4),
    ],
    "aggregate_path": [
        "100,000: pyarrow's group_by",
        "100,000: aggregate",
        "100,000: aggregate, spread keys",
        "1,000,000: pyarrow's group_by",
        "1,000,000: aggregate",
        "1,000,000: aggregate, spread keys",
        "group",
        "group, spread keys",
        "combine",
        "fold into state",
        "fold into state, spread keys",
        "hash and split rows in two (where there are more workers)",
    ],
    "distinct_path": [
        "sum",
        "sum, half of the rows",
        "max_by",
        "count_distinct of longs",
        "count_distinct of doubles",
        "count_distinct of texts",
    ],
    "interval_join": [
        "DuckDB, 1 threads",
        "DuckDB, 2 threads",
        "inner, parallelism 1",
        "left, parallelism 1",
        "inner, parallelism 2",
        "left, parallelism 2",
    ],
    "breadth": [*["1 x 1", "5 x 1", "20 x 1"] * 2, "1", "10", "100"],
    "little_work": ["1, none", "20, none", "1, 300", "20, 300"],
    "sessions": [
        "bytes for an open session",
        "bytes in a dictionary",
        "rows/s into sessions that are open",
        "rows/s that begin sessions",
        "sessions/s that fire",
    ],
    "pane_segments": ["heap, 10", "heap, 100", "rocksdb, 10", "rocksdb, 100"],
    "rocksdb_state": ["heap", "rocksdb"] * 6,
    "local_recovery": ["no", "yes"],
    "timers": ["a dictionary", "heap", "RocksDB, order in memory", "RocksDB"] * 4,
    "queries": ["1", "100", "1,000"],
    "savepoints": [
        "savepoint, with the stop of the job",
        "pyarrow: write the same rows",
        "restore to heap, parallelism 2",
        "restore to heap, parallelism 3",
        "restore to rocksdb, parallelism 2",
        "restore to rocksdb, parallelism 3",
        "pyarrow: read the same rows",
    ],
}


@pytest.fixture(autouse=True)
def _benchmarks_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))


@pytest.mark.parametrize("name", ROWS)
def test_a_benchmark_reports_all_its_rows(name: str) -> None:
    module = importlib.import_module(f"benchmarks.{name}")
    report = importlib.import_module("benchmarks.report")
    tables = module.measure(report.TINY)
    assert [row[0] for table in tables for row in table.rows] == ROWS[name]


def test_the_report_is_written_where_it_is_asked_for(tmp_path: Path) -> None:
    main = importlib.import_module("benchmarks.__main__").main
    main(["--size", "tiny", "--only", "state_access", "--output", str(tmp_path / "report.md")])
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "pyarrow" in text
    assert "| ValueState get + update |" in text


def test_a_row_of_the_wrong_length_is_refused() -> None:
    report = importlib.import_module("benchmarks.report")
    with pytest.raises(ValueError, match="1 cells for 2 columns"):
        report.Table("times", ["a", "b"]).add("only one")
