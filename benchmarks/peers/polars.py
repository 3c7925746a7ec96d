"""Polars: how fast prebuilt columns can be grouped, as a bound for W2 and W6."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from benchmarks.peers import answer, columns, side_by_side


class Grouping(columns.Grouping):
    """Polars takes the number of its threads from the environment, when it is imported."""

    def __init__(self, workload: str, process: int, threads: int) -> None:
        super().__init__(workload, process, threads)
        os.environ["POLARS_MAX_THREADS"] = str(threads)
        import polars as pl

        if pl.thread_pool_size() != threads:
            raise SystemExit(f"Polars has {pl.thread_pool_size()} threads instead of {threads}")
        self.frame: Any = pl.from_arrow(self.columns())
        self.pl = pl

    def group(self) -> Any:
        pl = self.pl
        if self.workload == "W6":
            words = self.frame.lazy().select(pl.col("line").str.split(" ").explode().alias("key"))
            return words.group_by("key").agg(pl.len().alias("n")).collect()
        orders = self.frame.lazy().group_by("key")
        return orders.agg(pl.col("amount").sum(), pl.len().alias("n")).collect()

    def pairs(self) -> dict[Any, int]:
        first, second = self.grouped.columns[:2]
        return dict(zip(self.grouped[first], self.grouped[second], strict=True))


def main() -> None:
    asked = answer.request(columns.SETTINGS, answer.parser(columns.SETTINGS).parse_args())
    threads = columns.threads_of(asked)
    build = partial(_built, asked.workload, threads)
    side_by_side.run("polars", asked, build, columns.note(asked), columns.processes_of(asked))


def _built(workload: str, threads: int, process: int) -> Grouping:
    return Grouping(workload, process, threads)


if __name__ == "__main__":
    main()
