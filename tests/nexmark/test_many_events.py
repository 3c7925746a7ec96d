"""Ten million events of Nexmark on processes of their own give exactly what DuckDB gives.

The queries whose rows are never replaced: what the others give is in their last rows, whose order
files do not tell.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from benchmarks.nexmark.contract import QUERIES
from benchmarks.nexmark.flink_sql import DELAY_S
from benchmarks.nexmark.generator import Generator
from benchmarks.nexmark.ours import sources_of
from benchmarks.nexmark.parquet_input import write_parquet
from benchmarks.nexmark.queries.registry import build
from benchmarks.nexmark.reference import expected, stored_tables
from benchmarks.nexmark.results import compare
from mainstay.bench.running import PROCESSES, environment, start
from mainstay.connectors import FileSink

EVENTS = 10_000_000
ASKED = ("q3", "q5", "q7", "q8", "q9", "q11", "q20")

pytestmark = pytest.mark.soak


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("events")
    write_parquet(directory, EVENTS, Generator(3))
    yield directory
    for path in directory.rglob("*.parquet"):
        path.unlink()


@pytest.mark.xdist_group("nexmark-events")
@pytest.mark.parametrize("query", ASKED)
def test_ten_million_events_give_what_the_reference_gives(
    query: str, events: Path, tmp_path: Path
) -> None:
    output = tmp_path / "output"
    env = environment(str(tmp_path / "snapshots"))
    sink = FileSink(output, format="parquet")
    build(env, query, sources_of(query, events), sink, delay=f"{DELAY_S}s")
    start(env, query, PROCESSES).wait(progress=False)
    files = sorted(output.glob("*.parquet"))
    found = pq.ParquetDataset(files).read().cast(QUERIES[query].schema)
    compare(found, expected(query, stored_tables(query, events)))
