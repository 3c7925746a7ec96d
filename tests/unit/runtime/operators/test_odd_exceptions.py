"""Exceptions that Python takes for more than an error end no slice and no thread in silence.

StopIteration ends whatever iterates, GeneratorExit and SystemExit are no ``Exception``, nor need
one of the author's own be: code of the
job's author that raises them fails like any other, and the error names the operator.
"""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import mainstay as ms
from mainstay.connectors import (
    Memory,
    Polled,
    Sink,
    SinkContext,
    SinkWriter,
    Source,
    Split,
    SplitReader,
)
from mainstay.errors import JobFailedError, MainstayError, UserFunctionError
from mainstay.schema import to_schema
from mainstay.testing import rows, run

SCHEMA = "k string, n long"
VALUES = [(f"k{n % 3}", n) for n in range(40)]


class Halt(BaseException):
    """An exception of the author's own that is no ``Exception``."""


ODD = [StopIteration, GeneratorExit, SystemExit, Halt]


def broken(row: Any) -> Any:
    if row.n == 25:
        raise KIND("odd")
    return row


KIND: type[BaseException] = StopIteration


def reducing(total: int, n: int) -> int:
    if n == 25:
        raise KIND("odd")
    return total + n


class Rowwise(ms.Process):
    def process(self, row: Any, context: Any) -> Any:
        return broken(row)


class Generating(ms.Process):
    def process(self, row: Any, context: Any) -> Iterator[Any]:
        yield broken(row)


class Keyed(ms.KeyedProcess):
    def process(self, row: Any, context: Any) -> Any:
        return broken(row)


class KeyedGenerating(ms.KeyedProcess):
    def process(self, row: Any, context: Any) -> Iterator[Any]:
        yield broken(row)


class Reducing(ms.KeyedProcess):
    total = ms.ReducingState("long", reducing)

    def process(self, row: Any, context: Any) -> Any:
        self.total.add(row.n)
        return row


class Summing:
    def create(self) -> int:
        return 0

    def add(self, accumulator: int, value: int) -> int:
        return reducing(accumulator, value)

    def result(self, accumulator: int) -> int:
        return accumulator


class Aggregating(ms.KeyedProcess):
    total = ms.AggregatingState(Summing(), "long")

    def process(self, row: Any, context: Any) -> Any:
        self.total.add(row.n)
        return row


class Batchwise(ms.KeyedBatchProcess):
    def process(self, batch: Any, context: Any) -> Any:
        if 25 in batch.batch.column("n").to_pylist():
            raise KIND("odd")
        return batch.batch


class Pair(ms.CoKeyedProcess):
    def process_left(self, row: Any, context: Any) -> Any:
        return broken(row)

    def process_right(self, row: Any, context: Any) -> Any:
        return None


class Opening(ms.Process):
    def open(self, context: Any) -> None:
        raise KIND("odd")

    def process(self, row: Any, context: Any) -> Any:
        return row


class Closing(ms.Process):
    def close(self) -> None:
        raise KIND("odd")

    def process(self, row: Any, context: Any) -> Any:
        return row


def of_batch(batch: pa.RecordBatch) -> Any:
    if 25 in batch.column("n").to_pylist():
        raise KIND("odd")
    return batch


Describe = Callable[[ms.Stream], ms.Stream]
FUNCTIONS: dict[str, Describe] = {
    "map": lambda s: s.map(broken, schema=SCHEMA, uid="odd"),
    "flat_map": lambda s: s.flat_map(lambda row: [broken(row)], schema=SCHEMA, uid="odd"),
    "filter": lambda s: s.filter(lambda row: bool(broken(row)), uid="odd"),
    "map_batches": lambda s: s.map_batches(of_batch, schema=SCHEMA, uid="odd"),
    "filter_batches": lambda s: s.filter_batches(
        lambda b: pa.array([True] * of_batch(b).num_rows), uid="odd"
    ),
    "process": lambda s: s.process(Rowwise(), schema=SCHEMA, uid="odd"),
    "generator": lambda s: s.process(Generating(), schema=SCHEMA, uid="odd"),
    "key_by": lambda s: s.key_by(lambda row: broken(row).k, "string", uid="odd").process(
        Keyed(), schema=SCHEMA, uid="after"
    ),
    "keyed": lambda s: s.key_by("k").process(Keyed(), schema=SCHEMA, uid="odd"),
    "keyed generator": lambda s: s.key_by("k").process(KeyedGenerating(), schema=SCHEMA, uid="odd"),
    "reducing state": lambda s: s.key_by("k").process(Reducing(), schema=SCHEMA, uid="odd"),
    "aggregating state": lambda s: s.key_by("k").process(Aggregating(), schema=SCHEMA, uid="odd"),
    "reduce": lambda s: s.key_by("k").reduce(lambda a, b: (a.k, reducing(a.n, b.n)), uid="odd"),
    "process_batches": lambda s: s.key_by("k").process_batches(
        Batchwise(), schema=SCHEMA, uid="odd"
    ),
    "connected": lambda s: (
        s.key_by("k").connect(s.key_by("k")).process(Pair(), schema=SCHEMA, uid="odd")
    ),
    "open": lambda s: s.process(Opening(), schema=SCHEMA, uid="odd"),
}


def cause_of(error: BaseException) -> BaseException:
    while isinstance(error, JobFailedError) and error.__cause__ is not None:
        error = error.__cause__
    return error


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_that_raises_it_fails_the_job_and_is_named(
    name: str, kind: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "KIND", kind)

    def build(env: ms.Environment) -> None:
        stream = env.source(rows(SCHEMA, VALUES), uid="in")
        FUNCTIONS[name](stream).sink(Memory(), uid="out")

    with pytest.raises(MainstayError) as raised:
        run(build, parallelism=1)
    error = cause_of(raised.value)
    assert isinstance(error, UserFunctionError)
    assert error.uid == "odd"
    assert kind.__name__ in error.summary


def embedded(tmp_path: Path) -> ms.Environment:
    return ms.Environment(
        spark="embedded",
        parallelism=1,
        snapshots=ms.Snapshots(tmp_path, every="50ms"),
        restart=ms.Restart(max_failures=0),
    )


@pytest.mark.parametrize("kind", [*ODD, KeyboardInterrupt, asyncio.CancelledError])
def test_a_function_that_raises_it_fails_the_job_in_this_process(
    kind: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "KIND", kind)
    env = embedded(tmp_path)
    env.source(rows(SCHEMA, VALUES), uid="in").map(broken, schema=SCHEMA, uid="odd").sink(
        Memory(), uid="out"
    )
    with pytest.raises(MainstayError, match=kind.__name__):
        env.start("odd").wait(30)


class Leaving(Source):
    """A source that leaves while it is polled, in the background or not."""

    def __init__(self, may_block: bool) -> None:
        self.schema = to_schema("n long")
        self.may_block = may_block

    def plan(self, seen: frozenset[str]) -> Sequence[Split]:
        return [Split("all", None)]

    def read(self, split: Split, offset: Any) -> SplitReader:
        raise SystemExit("odd")

    def poll(self, max_rows: int) -> Polled:
        raise NotImplementedError


@pytest.mark.parametrize("may_block", [True, False])
def test_a_source_that_leaves_fails_the_job_and_is_named(may_block: bool, tmp_path: Path) -> None:
    env = embedded(tmp_path)
    env.source(Leaving(may_block), uid="odd").sink(Memory(), uid="out")
    with pytest.raises(MainstayError, match=r"source 'odd'.*SystemExit"):
        env.start("odd").wait(30)


class Refusing(Sink):
    """A sink that leaves when it is opened, written, or prepared."""

    def __init__(self, when: str) -> None:
        self.when = when

    def open(self, context: SinkContext) -> SinkWriter:
        if self.when == "opened":
            raise SystemExit("odd")
        return _RefusingWriter(self.when)


class _RefusingWriter(SinkWriter):
    def __init__(self, when: str) -> None:
        self._when = when

    def write(self, batch: pa.RecordBatch) -> None:
        if self._when == "written":
            raise SystemExit("odd")

    def prepare(self, epoch: int) -> bytes | None:
        if self._when == "prepared":
            raise SystemExit("odd")
        return None


@pytest.mark.parametrize("when", ["opened", "written", "prepared"])
def test_a_sink_that_leaves_fails_the_job_and_is_named(when: str, tmp_path: Path) -> None:
    env = embedded(tmp_path)
    env.source(rows(SCHEMA, VALUES), uid="in").sink(Refusing(when), uid="odd")
    with pytest.raises(MainstayError, match=rf"sink 'odd'.*{when}.*SystemExit"):
        env.start("odd").wait(30)


def test_reducing_with_a_known_function_is_not_concerned() -> None:
    def build(env: ms.Environment) -> None:
        stream = env.source(rows(SCHEMA, VALUES), uid="in")
        stream.key_by("k").reduce(operator.add, uid="sum").sink(Memory(), uid="out")

    assert len(run(build, parallelism=1).output("out")) >= 3
