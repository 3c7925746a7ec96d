"""DuckDB: how fast prebuilt columns can be grouped, as a bound for W2 and W6."""

from __future__ import annotations

from functools import partial
from typing import Any

import duckdb

from benchmarks.peers import answer, columns, side_by_side

QUERIES = {
    "W2": "SELECT key, sum(amount)::BIGINT AS total, count(*) AS n FROM given GROUP BY key",
    "W6": "SELECT key, count(*) AS n FROM "
    "(SELECT unnest(string_split(line, ' ')) AS key FROM given) GROUP BY key",
}


class Grouping(columns.Grouping):
    """The columns are a table of DuckDB's own, which is quicker for it than reading Arrow."""

    def __init__(self, workload: str, process: int, threads: int) -> None:
        super().__init__(workload, process, threads)
        self.database = duckdb.connect(":memory:", config={"threads": threads})
        self.database.execute("SET enable_progress_bar = false")
        self.database.register("columns", self.columns())
        self.database.execute("CREATE TABLE given AS SELECT * FROM columns")
        self.database.unregister("columns")

    def group(self) -> Any:
        return self.database.sql(QUERIES[self.workload]).to_arrow_table()

    def pairs(self) -> dict[Any, int]:
        keys, values = self.grouped.columns[:2]
        return dict(zip(keys.to_pylist(), values.to_pylist(), strict=True))


def main() -> None:
    asked = answer.request(columns.SETTINGS, answer.parser(columns.SETTINGS).parse_args())
    threads = columns.threads_of(asked)
    build = partial(_built, asked.workload, threads)
    side_by_side.run("duckdb", asked, build, columns.note(asked), columns.processes_of(asked))


def _built(workload: str, threads: int, process: int) -> Grouping:
    return Grouping(workload, process, threads)


if __name__ == "__main__":
    main()
