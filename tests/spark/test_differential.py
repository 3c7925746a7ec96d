"""Random processors in Spark itself and on Mainstay, over the same rows: what they emit and what
they keep is the same, although workers crash and the parallelism changes on Mainstay.

One query runs many processors: the first column of its key says which. Its files are micro-batches
of Spark. The last row is far ahead in time, so that all timers fire behind it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

import mainstay as ms
from mainstay.spark.processors.states import BoundList, BoundMap, BoundValue
from mainstay.testing import run
from tests.processors import processors, random_programs, slices
from tests.processors.random_programs import (
    LAST_MS,
    OPERATIONS,
    OUTPUT,
    SCHEMAS,
    Programs,
    drawn,
)
from tests.processors.slices import START, START_MS, VARIANTS, InRows, variant

pytestmark = pytest.mark.spark

SCHEMA = "p long, k string, n long, at timestamp"
DELAY_S = 3600
NOBODY = "nobody"
"""The key of the row that is far ahead."""
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PROGRAMS, SOAK_PROGRAMS = 6, 40
SEED = 42630
"""One whose programs have every operation, and states of every type."""


class Trial:
    """Some programs and the rows for them, in files."""

    def __init__(self, seed: int, how: type, programs: int = PROGRAMS) -> None:
        chance = Random(seed)
        self.how = how
        self.processor = variant(Programs, how)(
            tuple(drawn(chance) for _ in range(programs)), "EventTime"
        )
        keys = [(p, f"k{k}") for p in range(programs) for k in range(3)]
        rows = [(*chance.choice(keys), n, _at(n)) for n in range(1, programs * 16)]
        beyond = (LAST_MS - START_MS) // 1000 + 2 * DELAY_S
        half = len(rows) // 2
        self.files = [rows[:half], [*rows[half:], (0, NOBODY, 0, _at(beyond))]]

    # ------------------------------------------------------------ in Spark

    def in_spark(self, spark: SparkSession, folder: Path) -> list[Any]:
        """What the query has emitted at its end."""
        self._write(folder / "in")
        found: list[Any] = []
        with settings(spark):
            rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
            grouped = (
                rows.json(str(folder / "in"))
                .withWatermark("at", f"{DELAY_S} seconds")
                .groupBy("p", "k")
            )
            method = (
                grouped.transformWithStateInPandas
                if self.how.in_pandas
                else grouped.transformWithState
            )
            query = (
                method(self.processor, OUTPUT, "Update", "EventTime")
                .writeStream.foreachBatch(lambda batch, _: found.extend(batch.collect()))
                .outputMode("update")
                .option("checkpointLocation", str(folder / "checkpoint"))
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
        return _of_keys(map(tuple, found))

    def _write(self, folder: Path) -> None:
        folder.mkdir()
        for number, rows in enumerate(self.files):
            path = folder / f"{number}.json"
            names = ("p", "k", "n", "at")
            lines = [json.dumps(dict(zip(names, row, strict=True)), default=str) for row in rows]
            path.write_text("\n".join(lines))
            os.utime(path, (START_MS / 1000 + number,) * 2)  # Spark reads the oldest first

    # ------------------------------------------------------------ on Mainstay

    def here(self, seed: int) -> list[Any]:
        """What a simulated job with faults has emitted at its end."""
        rows = [row for some in self.files for row in some]
        watermark = ms.Watermark("at", delay=DELAY_S)

        def build(env: Any) -> None:
            source = env.source(ms.connectors.Rows(SCHEMA, rows), uid="in", watermark=watermark)
            out = source.key_by("p", "k").transform_with_state(
                self.processor,
                OUTPUT,
                time_mode="EventTime",
                in_pandas=self.how.in_pandas,
                uid="f",
            )
            out.sink(ms.connectors.Memory(), uid="out")

        result = run(build, seed=seed, crashes=1 + seed % 3, rescales=[3, 1][: seed % 3])
        return _of_keys(result.output("out"))


def _at(second: int) -> Any:
    return START + timedelta(seconds=second)


def _of_keys(rows: Any) -> list[Any]:
    return sorted(tuple(row) for row in rows if row[1] != NOBODY)


@contextmanager
def settings(spark: SparkSession) -> Iterator[None]:
    """A session as processors in Spark need it; afterwards it is as it was."""
    wanted = {
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
    }
    before = {name: spark.conf.get(name, None) for name in wanted}
    modules = (random_programs, slices, processors)
    for name, value in wanted.items():
        spark.conf.set(name, value)
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)
        for name, value in before.items():
            spark.conf.unset(name) if value is None else spark.conf.set(name, value)


@pytest.fixture(scope="module")
def trial(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Trial, list[Any]]:
    """Programs, and what Spark makes of them; a query takes seconds, so the soak has the others."""
    made = Trial(SEED, InRows)
    return made, made.in_spark(spark, tmp_path_factory.mktemp("query"))


def test_the_programs_have_every_operation() -> None:
    programs = Trial(SEED, InRows).processor.programs
    found = set().union(*(random_programs.operations(program.for_rows) for program in programs))
    assert found == {(kind, name) for kind, names in OPERATIONS.items() for name in names}
    assert {state.value for program in programs for state in program.states} == set(SCHEMAS)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (1, 2))]
)
def test_random_processors_do_what_they_do_in_spark(
    trial: tuple[Trial, list[Any]], seed: int
) -> None:
    made, expected = trial
    assert sum("all" in row[3] for row in expected) > PROGRAMS, "all that is kept was told"
    assert made.here(seed) == expected


PLANTED = [
    (BoundMap, "removeKey", lambda self, key: None),
    (BoundList, "exists", lambda self: True),
    (BoundValue, "exists", lambda self: True),
    (Programs, "handleExpiredTimer", lambda self, **_: iter([])),
]


@pytest.mark.mutation
@pytest.mark.parametrize(("owner", "name", "bug"), PLANTED)
def test_a_planted_difference_is_noticed(
    trial: tuple[Trial, list[Any]],
    owner: type,
    name: str,
    bug: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, expected = trial
    monkeypatch.setattr(owner, name, bug)
    assert made.here(0) != expected


@pytest.mark.soak
@pytest.mark.parametrize("how", VARIANTS)
@pytest.mark.parametrize("seed", range(100, 130))
def test_more_processors(spark: SparkSession, how: type, seed: int, tmp_path: Path) -> None:
    made = Trial(seed, how, SOAK_PROGRAMS)
    assert made.here(seed) == made.in_spark(spark, tmp_path)
