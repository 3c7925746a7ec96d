"""``python -m benchmarks [core | rocksdb | savepoints | queries | modes | age | page | …]``.

``core`` is meant when nothing is said: what the core costs, in this process. ``compiled`` are
compiled functions beside the same as ordinary Python, ``rocksdb`` is state
in RocksDB beside the heap, ``savepoints`` are savepoints beside plain Parquet, ``recovery`` is
state from an object store with copies on the host and without, ``queries`` are live
queries beside a job at full speed, ``modes`` are epochs under backpressure, ``age`` is a job after
very many epochs, ``page`` is the page in a browser, ``windows`` are windows beside a running
aggregation and what they leave in segments, ``timers`` are timers beside a dictionary, ``joins``
are joins beside DuckDB, ``breadth`` is what grows with the parallelism, ``little`` is what a job
costs that has little to do. ``paper`` compares ways to take a snapshot. ``peers`` measures whole
jobs, ours beside those of other systems, and ``nexmark`` the queries of Nexmark beside Flink SQL.
``check`` compares two commits of ours, and says which figures changed beyond the noise.
Reports go to ``benchmarks/results``.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks import (
    age,
    aggregate_path,
    breadth,
    compiled,
    distinct_path,
    interval_join,
    little_work,
    local_recovery,
    modes,
    page,
    pane_segments,
    patterns,
    processor_latency,
    processors_beside_spark,
    queries,
    record_path,
    rocksdb_state,
    savepoints,
    sessions,
    snapshot_cost,
    state_access,
    stateful_processor,
    timers,
    windows,
)
from benchmarks.check import command as check
from benchmarks.harness import command
from benchmarks.picture import NoPlotError
from benchmarks.report import FULL, QUICK, TINY, Table, document
from mainstay.drive.process import settle_process

MODULES = {
    "state_access": state_access,
    "record_path": record_path,
    "snapshot_cost": snapshot_cost,
    "aggregate_path": aggregate_path,
    "distinct_path": distinct_path,
    "sessions": sessions,
}
REPORTS = {
    "core": MODULES,
    "compiled": {"compiled": compiled},
    "rocksdb": {"rocksdb_state": rocksdb_state},
    "savepoints": {"savepoints": savepoints},
    "recovery": {"local_recovery": local_recovery},
    "queries": {"queries": queries},
    "joins": {"interval_join": interval_join},
    "modes": {"modes": modes},
    "age": {"age": age},
    "page": {"page": page},
    "windows": {"windows": windows, "pane_segments": pane_segments},
    "patterns": {"patterns": patterns},
    "timers": {"timers": timers},
    "breadth": {"breadth": breadth},
    "little": {"little_work": little_work},
    "processors": {
        "stateful_processor": stateful_processor,
        "processors_beside_spark": processors_beside_spark,
        "processor_latency": processor_latency,
    },
}
"""What is measured for each report, which is a file of its own."""
TITLES = {
    "core": "the core",
    "compiled": "compiled functions",
    "rocksdb": "state in RocksDB",
    "savepoints": "savepoints",
    "recovery": "recovery",
    "queries": "live queries",
    "joins": "joins",
    "modes": "the modes",
    "age": "age",
    "page": "the page",
    "windows": "windows",
    "patterns": "patterns",
    "timers": "timers",
    "breadth": "breadth",
    "little": "little work",
    "processors": "PySpark's own functions",
}
SIZES = {size.name: size for size in (FULL, QUICK, TINY)}
RESULTS = Path(__file__).parent / "results"


def main(arguments: list[str] | None = None) -> None:
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["peers"]:
        command.main(given[1:])
    elif given[:1] == ["check"]:
        sys.exit(check.main(given[1:]))
    elif given[:1] == ["nexmark"]:
        # It needs DuckDB, and the other reports do not.
        from benchmarks.nexmark import command as nexmark

        nexmark.main(given[1:])
    elif given[:1] == ["paper"]:
        # It needs psutil.
        from benchmarks.paper import command as paper

        paper.main(given[1:])
    elif given[:1] and given[0] in REPORTS:
        measure(given[0], given[1:])
    else:
        measure("core", given)


def measure(report: str, arguments: list[str]) -> None:
    modules = REPORTS[report]
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks {report}")
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    parser.add_argument("--size", choices=SIZES, help="how much is measured")
    parser.add_argument("--only", choices=modules, action="append", help="measure only this")
    parser.add_argument("--output", type=Path, help="where the report goes")
    chosen = parser.parse_args(arguments)
    size = SIZES[chosen.size or ("quick" if chosen.quick else "full")]
    # As a worker's process does: what is measured is the core, not the collector's defaults.
    settle_process()
    tables: list[Table] = []
    for name in chosen.only or modules:
        for table in modules[name].measure(size):
            print(table.to_markdown(), end="\n\n", flush=True)
            tables.append(table)
    # Only a full run is worth keeping, unless the caller says where.
    default = RESULTS / f"{report}.md" if size is FULL and not chosen.only else None
    output = chosen.output or default
    if output is not None:
        output.write_text(document(tables, size, TITLES[report]), encoding="utf-8")
        if report == "modes":
            _draw(tables, output.with_suffix(".svg"))


def _draw(tables: list[Table], path: Path) -> None:
    try:
        modes.draw(tables, path)
    except NoPlotError as error:
        print(error, file=sys.stderr)


if __name__ == "__main__":
    main()
