"""Keys that are not a number are one key, whatever their bits, as for a function per row."""

from __future__ import annotations

from typing import Any

import pytest

import mainstay as ms
from mainstay.testing import rows, run

NAN = float("nan")
OTHER_NAN = -NAN
"""As 0/0 gives it in numpy: the same number with other bits."""


class CountBatches(ms.KeyedBatchProcess):
    n = ms.ValueState("long")

    def process(self, batch: Any, ctx: Any) -> Any:
        before = self.n.get_many(batch.keys, 0)
        self.n.put_many(batch.keys, [a + int(b) for a, b in zip(before, batch.counts, strict=True)])


def counted(given: Any, key: str, operator: Any, state: str, parallelism: int) -> list[Any]:
    def build(env: ms.Environment) -> None:
        keyed = env.source(given, uid="in").key_by(*key.split(","))
        operator(keyed).sink(ms.connectors.Memory(), uid="out")

    return list(run(build, parallelism=parallelism, crashes=1).state("counts", state).values())


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("key", ["a", "a,b"])
def test_an_aggregate_counts_every_nan_under_one_key(parallelism: int, key: str) -> None:
    given = rows("a double, b float", [(NAN, NAN), (OTHER_NAN, OTHER_NAN), (1.5, 1.0)] * 100)
    found = counted(
        given, key, lambda k: k.aggregate(n=ms.count(), uid="counts"), "aggregates", parallelism
    )
    assert sorted(row.n for row in found) == [100, 200]


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_function_of_batches_gets_every_nan_under_one_key(parallelism: int) -> None:
    given = rows("a double", [(NAN,), (OTHER_NAN,), (1.5,)] * 100)
    found = counted(
        given,
        "a",
        lambda k: k.process_batches(CountBatches(), "n long", uid="counts"),
        "n",
        parallelism,
    )
    assert sorted(found) == [100, 200]
