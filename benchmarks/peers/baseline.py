"""What two processes do without any engine: no shuffle, no snapshot, no result kept.

An upper bound for the language and the library, not a competitor: W1 and W6 are a dictionary in a
loop over prebuilt lists, W2 is pyarrow's ``group_by`` over batches of a million rows.
"""

from __future__ import annotations

import pyarrow as pa

from benchmarks import workloads
from benchmarks.peers import answer, side_by_side

SETTINGS = {"W1": ["dict loop"], "W2": ["pyarrow group_by"], "W6": ["dict loop"]}
LIST_RECORDS = 1_000_000
GROUPED_ROWS = 1_000_000
LINES = 25_000


class DictLoop:
    """W1's function without an engine; every round goes over the same lists."""

    def __init__(self, process: int) -> None:
        self.first = process * LIST_RECORDS
        keys, amounts = workloads.columns(self.first, LIST_RECORDS)
        self.keys, self.amounts = keys.tolist(), amounts.tolist()
        self.state: dict[int, int] = {}

    def round(self) -> int:
        state = self.state
        out = []
        for key, amount in zip(self.keys, self.amounts, strict=True):
            total = state[key] = state.get(key, 0) + amount
            out.append((key, total))
        return len(out)

    def is_right(self, rounds: int) -> bool:
        expected = workloads.sums(LIST_RECORDS, self.first)
        return self.state == {key: total * rounds for key, total in expected.items()}


class GroupBy:
    """W2's query without an engine: every round groups one batch."""

    def __init__(self, process: int) -> None:
        self.first = process * GROUPED_ROWS
        self.table = pa.Table.from_batches([workloads.orders(self.first, GROUPED_ROWS)])

    def round(self) -> int:
        self.grouped = self.table.group_by("key", use_threads=False).aggregate(
            [("amount", "sum"), ("amount", "count")]
        )
        return self.table.num_rows

    def is_right(self, rounds: int) -> bool:
        keys, totals = self.grouped["key"].to_pylist(), self.grouped["amount_sum"].to_pylist()
        return dict(zip(keys, totals, strict=True)) == workloads.sums(GROUPED_ROWS, self.first)


class WordLoop:
    """W6's function without an engine: lines are split, and every count is given out."""

    def __init__(self, process: int) -> None:
        self.lines = workloads.lines(0, LINES).to_pylist()
        self.state: dict[str, int] = {}

    def round(self) -> int:
        state = self.state
        out = []
        for line in self.lines:
            for word in line.split():
                count = state[word] = state.get(word, 0) + 1
                out.append((word, count))
        return len(out)

    def is_right(self, rounds: int) -> bool:
        return self.state == {word: n * rounds for word, n in workloads.word_counts(LINES).items()}


LOOPS = {"W1": DictLoop, "W2": GroupBy, "W6": WordLoop}


def main() -> None:
    asked = answer.request(SETTINGS, answer.parser(SETTINGS).parse_args())
    note = "two processes side by side; no shuffle, no snapshot"
    side_by_side.run("no engine", asked, LOOPS[asked.workload], note)


if __name__ == "__main__":
    main()
