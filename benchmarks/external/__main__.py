"""``python -m benchmarks.external [recovery | protocols | hits | growth]``: state in PostgreSQL.

Each has a section of ``benchmarks/results/external.md``, which is replaced; all are meant when
none is named. ``--divide 4`` measures a quarter of everything; ``--quick`` measures a tenth, and
keeps nothing.
"""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path

from benchmarks.external import growth, hits, recovery
from benchmarks.report import QUICK, Size, Table, machine
from mainstay.drive.process import settle_process

PARTS = {
    "recovery": recovery.measure,
    "protocols": recovery.measure_protocols,
    "hits": hits.measure,
    "growth": growth.measure,
}
RESULT = Path(__file__).parents[1] / "results" / "external.md"
REPEATS = 3
HEAD = "# Measurements of state in PostgreSQL"
NOTE = (
    "The server runs on the same machine, with `fsync` off and 1 GB of buffers. *logged*, "
    "*versioned* and *prepared* are `ms.Postgres(dsn, protocol)`. Compare within a table only: the "
    "machine has other work."
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.external")
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join(PARTS))
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    parser.add_argument("--divide", type=int, default=1, metavar="N", help="an N-th of everything")
    chosen = parser.parse_args()
    if unknown := [part for part in chosen.parts if part not in PARTS]:
        parser.error(f"{unknown[0]!r} is none of {', '.join(PARTS)}")
    settle_process()
    size = QUICK if chosen.quick else Size("full", chosen.divide, REPEATS)
    for part in chosen.parts or PARTS:
        for table in PARTS[part](size):
            text = table.to_markdown()
            print(text, flush=True)
            if not chosen.quick:
                keep(RESULT, table)


def keep(path: Path, table: Table) -> None:
    """Put a table into the report, in the place of the one with its title."""
    known = path.read_text(encoding="utf-8") if path.exists() else ""
    sections = {each.partition("\n")[0]: each for each in re.split(r"^## ", known, flags=re.M)[1:]}
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    said = f"\n\nLoad of the machine at the end (1, 5, 15 minutes): {load}.\n"
    sections[table.title] = table.to_markdown().removeprefix("## ") + said
    parts = [f"{HEAD}\n\n{machine()} {NOTE}\n", *(f"## {each}" for each in sections.values())]
    path.write_text("\n".join(part.rstrip("\n") + "\n" for part in parts), encoding="utf-8")


if __name__ == "__main__":
    main()
