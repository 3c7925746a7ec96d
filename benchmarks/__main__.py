"""``python -m benchmarks [--quick]``: measure, print, and write ``benchmarks/results/core.md``."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks import record_path, snapshot_cost, state_access
from benchmarks.report import FULL, QUICK, TINY, Table, document
from mainstay.drive.process import settle_process

MODULES = {
    "state_access": state_access,
    "record_path": record_path,
    "snapshot_cost": snapshot_cost,
}
SIZES = {size.name: size for size in (FULL, QUICK, TINY)}
RESULTS = Path(__file__).parent / "results"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    parser.add_argument("--size", choices=SIZES, help="how much is measured")
    parser.add_argument("--only", choices=MODULES, action="append", help="measure only this")
    parser.add_argument("--output", type=Path, help="where the report goes")
    chosen = parser.parse_args(arguments)
    size = SIZES[chosen.size or ("quick" if chosen.quick else "full")]
    # As a worker's process does: what is measured is the core, not the collector's defaults.
    settle_process()
    tables: list[Table] = []
    for name in chosen.only or MODULES:
        for table in MODULES[name].measure(size):
            print(table.to_markdown(), end="\n\n", flush=True)
            tables.append(table)
    # Only a full run is worth keeping, unless the caller says where.
    default = RESULTS / "core.md" if size is FULL and not chosen.only else None
    output = chosen.output or default
    if output is not None:
        output.write_text(document(tables, size), encoding="utf-8")


if __name__ == "__main__":
    main()
