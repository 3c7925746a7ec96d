"""What the states of the frozen job must be once it has read all its rows, wherever it began."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

from mainstay.runtime.spec import JobSpec
from mainstay.snapshot.storage import Storage
from mainstay.testing.inspect import committed_state
from tests.golden.job import ROWS


def check_states(storage: Storage, job: JobSpec) -> None:
    amounts = {c: [a for k, _, a in ROWS if k == c] for c, _, _ in ROWS}
    read = {
        name: committed_state(storage, job, "all", name)
        for name in ("amounts", "total", "average", "by_region", "last", "anything")
    }
    assert {c: sorted(seen) for c, seen in read["amounts"].items()} == amounts
    assert read["total"] == {c: sum(a) for c, a in amounts.items()}
    assert read["average"] == {c: sum(a) / len(a) for c, a in amounts.items()}
    for customer, entries in read["by_region"].items():
        assert set(entries) == {r for c, r, _ in ROWS if c == customer}
        assert all(isinstance(value, Decimal) for value in entries.values())
    for customer, last in read["last"].items():
        assert last.amounts == [last.amounts[0], last.amounts[0] + 1]
        assert read["anything"][customer] == {"seen": {last.amounts[0]}}
    assert committed_state(storage, job, "pairs", "count") == Counter((c, r) for c, r, _ in ROWS)
    seen = [n for units in committed_state(storage, job, "seen", "seen") for n in units]
    assert sorted(seen) == [a for _, _, a in ROWS if a % 10 == 0]
