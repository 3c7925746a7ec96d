"""The numbers that pages give are those of the code, or those that were measured."""

from __future__ import annotations

import pytest

from mainstay.drive.lease import LEASE_S
from mainstay.runtime.coordinator import attempt, epoch_history, splits
from mainstay.runtime.operators import aggregate, backlog, gathering, loop, sink, source
from mainstay.runtime.options import SnapshotOptions
from mainstay.runtime.retry import LONGEST_S
from mainstay.runtime.spec import Tuning
from mainstay.runtime.worker import credit, reports, slices
from mainstay.snapshot.units import MOST_IN_MANIFEST
from mainstay.state.backends.external import lookout
from mainstay.state.backends.heap import access, tables
from mainstay.state.backends.rocksdb import timer_order
from tests.pages import ROOT

TUNING = Tuning()
SAID = [
    ("rows", "Both gather up to {:,} rows", gathering.GATHERED_ROWS, 131_072),
    ("rows", "passes {} batches on", aggregate.PASSED_ON, 16),
    ("rows", "thirty milliseconds", gathering.LINGER_S, 0.03),
    ("rows", "about three milliseconds", TUNING.slice_s, 0.003),
    ("rows", "up to sixteen times longer", slices.PATIENCE, 16),
    ("rows", "longer than a tenth of a second", TUNING.slice_limit_s, 0.1),
    ("rows", "in a fifth of a second", credit.WORTH_S, 0.2),
    ("rows", "between {} bytes", TUNING.least_window_bytes, 64),
    ("rows", "and 4 MiB", TUNING.window_bytes, 4 << 20),
    ("rows", "when there are {:,} rows", TUNING.batch_rows, 8192),
    ("rows", "after five milliseconds", TUNING.flush_s, 0.005),
    ("rows", "asked again after ten milliseconds", source.QUIET_S, 0.01),
    ("rows", "{:,} in a run", splits.RUN, 4096),
    ("rows", "When two pieces wait behind the current one", backlog.MAX_WAITING, 2),
    ("rows", "more than four completed epochs", sink.MAX_BEHIND, 4),
    ("rows", "at most half a minute apart", LONGEST_S, 30.0),
    ("rows", "Every half second", reports.METRICS_S, 0.5),
    ("snapshots", "Operator state beyond 64 KiB", MOST_IN_MANIFEST, 64 << 10),
    ("snapshots", "Beyond 64 MiB", loop.MEMORY_BYTES, 64 << 20),
    ("snapshots", "at most ten seconds", attempt.CLOSING_S, 10.0),
    ("snapshots", "After five seconds", SnapshotOptions().halt_alignment_s, 5.0),
    ("state", "Above {:,} keys", tables.SHARD_ABOVE, 131_072),
    ("state", "it is {} of them", access.SHARDS, 256),
    ("state", "about {:,} in all", timer_order.HEAD_TIMERS, 16_384),
    ("state", "all but the newest {}", SnapshotOptions().log_slots, 64),
    ("state", "the newest thousand epochs", epoch_history.MOST_RECORDS, 1000),
    ("state", "a hundred epochs in a file", epoch_history.CHUNK, 100),
    ("state", "in doubt for a minute", lookout.LONG_S, 60.0),
    ("processes", "for fifteen seconds", LEASE_S, 15.0),
]


@pytest.mark.parametrize(("page", "phrase", "is_now", "said"), SAID, ids=[each[1] for each in SAID])
def test_a_number_on_a_page_is_that_of_the_code(
    page: str, phrase: str, is_now: float, said: float
) -> None:
    text = " ".join((ROOT / "docs" / "architecture" / f"{page}.md").read_text().split())
    assert phrase.format(said) in text
    assert is_now == said


def rows_in(text: str) -> list[list[str]]:
    """The rows of the tables in a text, without their heads."""
    lines = [line.strip() for line in text.splitlines()]
    is_body, found = False, []
    for line in lines:
        if not line.startswith("|"):
            is_body = False
        elif set(line) <= set("|-: "):
            is_body = True
        elif is_body:
            found.append([cell.strip() for cell in line.strip("|").split("|")])
    return found


def test_what_backends_cost_is_what_was_measured() -> None:
    page = (ROOT / "docs" / "backends.md").read_text()
    section = page.partition("## What they cost")[2]
    said = rows_in(section)
    report = rows_in((ROOT / "benchmarks" / "results" / "external.md").read_text())
    assert said
    for row in said:
        assert any(set(row) <= set(measured) for measured in report), row
