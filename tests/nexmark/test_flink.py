"""Flink's statements give what DuckDB gives. Skipped where Flink or its jars are not there."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from benchmarks.harness.environments import Missing
from benchmarks.nexmark.command import JARS, ROOT, flink
from benchmarks.nexmark.contract import QUERIES
from benchmarks.nexmark.flink_sql import STATEMENTS
from benchmarks.nexmark.generator import Generator
from benchmarks.nexmark.parquet_input import write_parquet
from benchmarks.nexmark.reference import expected, tables_of
from benchmarks.nexmark.timeline import Timeline

EVENTS = 3_000
GENERATOR = Generator(3, Timeline(rate=100))


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the rows of every query, by one run of Flink."""
    cache = ROOT / ".bench"
    ready = flink(cache, may_install=False)
    if isinstance(ready, Missing):
        pytest.skip(ready.reason)
    directory = tmp_path_factory.mktemp("flink")
    write_parquet(directory / "events", EVENTS, GENERATOR)
    options = {"--input": directory / "events", "--jars": cache / JARS, "--output": directory}
    given = [str(part) for option in options.items() for part in option]
    command = [ready.python, "-m", "benchmarks.nexmark.flink_rows", *STATEMENTS, *given]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return directory


def text(value: Any) -> str:
    # Flink's times have no zone; all of them are UTC.
    return value.replace(tzinfo=None).isoformat() if hasattr(value, "isoformat") else str(value)


@pytest.mark.spark
@pytest.mark.xdist_group("nexmark-flink")
@pytest.mark.parametrize("query", STATEMENTS)
def test_a_statement_for_flink_gives_what_the_reference_gives(query: str, rows: Path) -> None:
    found = Counter(map(tuple, json.loads((rows / f"{query}.json").read_text(encoding="utf-8"))))
    wanted = expected(query, tables_of(query, GENERATOR, EVENTS)).to_pylist()
    assert found == Counter(tuple(map(text, row.values())) for row in wanted)


def test_every_query_that_flink_can_run_has_a_statement() -> None:
    assert QUERIES.keys() - STATEMENTS.keys() == {"q6", "q10", "q12"}
