"""The books: what a plain loop over the same orders says, compared with what the job committed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

Output = Sequence[tuple[int, str, int]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was compared, and every difference that was found."""

    orders: int
    customers: int
    revenue: int
    differences: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return not self.differences


def judge(
    batches: Iterable[pa.RecordBatch],
    totals: Mapping[str, int],
    counts: Mapping[str, int],
    output: Output,
) -> Verdict:
    """Compare state and committed output with a plain loop over the orders."""
    expected_totals: Counter[str] = Counter()
    expected_counts: Counter[str] = Counter()
    amounts: dict[int, int] = {}
    for batch in batches:
        columns = batch.to_pydict()
        for number, customer, amount in zip(*columns.values(), strict=True):
            expected_totals[customer] += amount
            expected_counts[customer] += 1
            amounts[number] = amount
    differences = [
        *_state_differences("total", expected_totals, totals),
        *_state_differences("count", expected_counts, counts),
        *_output_differences(amounts, output),
    ]
    revenue = sum(expected_totals.values())
    return Verdict(len(amounts), len(expected_totals), revenue, differences)


def _state_differences(
    name: str, expected: Mapping[str, int], found: Mapping[str, int]
) -> list[str]:
    keys = sorted(expected.keys() | found.keys())
    wrong = [key for key in keys if expected.get(key) != found.get(key)]
    if not wrong:
        return []
    first = wrong[0]
    return [
        f"state {name!r} is wrong for {len(wrong)} customers, for example {first}: "
        f"{found.get(first)} instead of {expected.get(first)}"
    ]


def _output_differences(amounts: Mapping[int, int], output: Output) -> list[str]:
    seen = Counter(number for number, _, _ in output)
    lost = len(amounts.keys() - seen.keys())
    repeated = sum(times > 1 for times in seen.values())
    invented = len(seen.keys() - amounts.keys())
    counted = {"lost": lost, "repeated": repeated, "invented": invented}
    found = [f"{number} orders are {what} in the output" for what, number in counted.items()]
    differences = [text for text, number in zip(found, counted.values(), strict=True) if number]
    if not differences and not _adds_up(amounts, output):
        differences.append("a running total is not the one before it plus the order's amount")
    return differences


def _adds_up(amounts: Mapping[int, int], output: Output) -> bool:
    """Whether each running total of a customer is the one before it plus the amount."""
    last: dict[str, int] = {}
    # Amounts are positive, so totals tell the order in which a customer's orders were added.
    for number, customer, total in sorted(output, key=lambda row: (row[1], row[2])):
        if total != last.get(customer, 0) + amounts[number]:
            return False
        last[customer] = total
    return True
