"""Side outputs of every kind of function, through crashes, rescales and unaligned epochs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import mainstay as ms
from mainstay.connectors import Memory
from mainstay.errors import MainstayError
from mainstay.testing import rows, run

SCHEMA = "k string, n long"
DATA = [(f"k{n % 7}", n) for n in range(120)]
ODD = [row for row in DATA if row[1] % 2]
EVEN = [row for row in DATA if row[1] % 2 == 0]


class Rows(ms.Process):
    odd = ms.SideOutput(SCHEMA)

    def process(self, row: Any, ctx: Any) -> Any:
        if row.n % 2:
            return self.odd.emit(row)
        return tuple(row)


class Keyed(ms.KeyedProcess):
    seen = ms.ValueState("long")
    odd = ms.SideOutput(SCHEMA)

    def process(self, row: Any, ctx: Any) -> Any:
        self.seen.update((self.seen.get() or 0) + 1)
        if row.n % 2:
            self.odd.emit((ctx.key, row.n))
        else:
            yield ctx.key, row.n


class Batches(ms.KeyedBatchProcess):
    odd = ms.SideOutput(SCHEMA)

    def process(self, batch: Any, ctx: Any) -> Any:
        is_odd = [n % 2 == 1 for n in batch.batch.column("n").to_pylist()]
        self.odd.emit_batch(batch.batch.filter(pa.array(is_odd)))
        return batch.batch.filter(pa.array([not odd for odd in is_odd]))


class Both(ms.CoKeyedProcess):
    odd = ms.SideOutput(SCHEMA)

    def process_left(self, row: Any, ctx: Any) -> Any:
        if row.n % 2 == 0:
            yield tuple(row)

    def process_right(self, row: Any, ctx: Any) -> Any:
        self.odd.emit_many([tuple(row)] if row.n % 2 else [])


def of_rows(stream: Any) -> Any:
    return stream.process(Rows(), SCHEMA, uid="f")


def keyed(stream: Any) -> Any:
    return stream.key_by("k").process(Keyed(), SCHEMA, uid="f")


def batches(stream: Any) -> Any:
    return stream.key_by("k").process_batches(Batches(), SCHEMA, uid="f")


def connected(stream: Any) -> Any:
    both = stream.key_by("k").connect(stream.key_by("k"))
    return both.process(Both(), SCHEMA, uid="f")


KINDS = [of_rows, keyed, batches, connected]


def played(build: Callable[[Any], None], **settings: Any) -> Any:
    def program(env: Any) -> None:
        build(env.source(rows(SCHEMA, []), uid="in"))

    return run(program, {"in": rows(SCHEMA, DATA, splits=3)}, **settings)


def end(stream: ms.Stream, uid: str, **more: Any) -> None:
    stream.sink(Memory(), uid=uid, **more)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_function_has_them(kind: Any) -> None:
    def build(stream: Any) -> None:
        out = kind(stream)
        end(out, "even")
        end(out.side("odd"), "odd")

    result = played(build)
    assert sorted(result.output("even")) == sorted(EVEN)
    assert sorted(result.output("odd")) == sorted(ODD)


@pytest.mark.parametrize("mode", ["exactly_once", "unaligned"])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_count_once_whatever_happens(kind: Any, mode: str) -> None:
    def build(stream: Any) -> None:
        out = kind(stream)
        end(out.union(out.side("odd")), "all")
        end(out.side("odd").key_by("k").aggregate(n=ms.count(), uid="counts"), "counts-out")
        end(out.side("odd").map(tuple, SCHEMA, uid="chained"), "odd")

    for seed in range(2):
        result = played(build, mode=mode, seed=seed, crashes=3, rescales=[3, 1])
        assert sorted(result.output("all")) == sorted(DATA)
        assert sorted(result.output("odd")) == sorted(result.side("f", "odd")) == sorted(ODD)
        counted = {key: row.n for key, row in result.state("counts", "aggregates").items()}
        assert counted == {k: sum(row[0] == k for row in ODD) for k, _ in ODD}


def test_the_rows_of_one_call_keep_their_order() -> None:
    class Mixed(ms.KeyedBatchProcess):
        all = ms.SideOutput("n long")

        def process(self, batch: Any, ctx: Any) -> Any:
            numbers = batch.batch.column("n").to_pylist()
            self.all.emit((numbers[0],))
            self.all.emit_batch(pa.record_batch({"n": pa.array(numbers[1:2], pa.int32())}))
            self.all.emit_many((n,) for n in numbers[2:])

    data = [("a", n) for n in range(30)]

    def program(env: Any) -> None:
        keyed = env.source(rows(SCHEMA, data), uid="in").key_by("k")
        end(keyed.process_batches(Mixed(), SCHEMA, uid="f"), "out")

    assert run(program, parallelism=1).side("f", "all") == [(n,) for n in range(30)]


def test_what_nobody_reads_is_counted_and_can_be_read_by_a_test() -> None:
    result = played(lambda stream: end(keyed(stream), "even"))
    assert sorted(result.side("f", "odd")) == sorted(ODD)
    with pytest.raises(KeyError, match=r"no side output f\.old; the job has \['f\.odd'\]"):
        result.side("f", "old")


def test_a_loop_may_be_closed_and_left_by_a_side_output() -> None:
    class Halve(ms.Process):
        back = ms.SideOutput(SCHEMA)
        done = ms.SideOutput(SCHEMA)

        def process(self, row: Any, ctx: Any) -> Any:
            (self.back if row.n > 1 else self.done).emit((row.k, row.n // 2))

    def build(stream: Any) -> None:
        def body(head: Any) -> Any:
            halved = head.process(Halve(), SCHEMA, uid="halve")
            return halved.side("back"), halved.side("done")

        end(stream.iterate(body, uid="loop"), "out")

    result = played(build, crashes=2, seed=3)
    assert sorted(result.output("out")) == sorted((k, 0) for k, _ in DATA)


# ---------------------------------------------------------------- what is refused


def failing(function: ms.Process) -> Exception:
    def build(stream: Any) -> None:
        end(stream.process(function, SCHEMA, uid="f"), "out")

    with pytest.raises(MainstayError) as raised:
        played(build)
    return raised.value


class Quiet(ms.Process):
    errors = ms.SideOutput("why string NOT NULL")

    def process(self, row: Any, ctx: Any) -> Any:
        return row


def test_emitting_when_a_function_opens_is_refused() -> None:
    class Opening(Quiet):
        def open(self, ctx: Any) -> None:
            self.errors.emit(("opened",))

    error = failing(Opening())
    assert "operator 'f', side output 'errors': rows can be emitted only while" in str(error)
    assert ", in open\n" in str(error)


def test_emitting_after_an_epoch_is_refused() -> None:
    class Notified(Quiet):
        def on_snapshot_complete(self, epoch: int) -> None:
            self.errors.emit(("complete",))

    assert "only while process() is called" in str(failing(Notified()))


def test_emitting_from_another_thread_is_refused_even_during_a_call() -> None:
    class Threaded(Quiet):
        def process(self, row: Any, ctx: Any) -> Any:
            refused: list[Exception] = []

            def emit() -> None:
                try:
                    self.errors.emit(("other thread",))
                except MainstayError as error:
                    refused.append(error)

            thread = threading.Thread(target=emit)
            thread.start()
            thread.join()
            raise refused[0]

    assert "by the thread that calls it" in str(failing(Threaded()))


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (("a", "b"), "operator 'f', side output 'errors'"),
        ((5,), "operator 'f', side output 'errors', column 'why'"),
        ((None,), "operator 'f', side output 'errors', column 'why'"),
    ],
)
def test_a_row_that_does_not_fit_names_operator_and_side_output(row: Any, expected: str) -> None:
    class Misfit(Quiet):
        def process(self, given: Any, ctx: Any) -> Any:
            self.errors.emit(row)
            return given

    error = failing(Misfit())
    assert "failed: SchemaError: " in str(error)
    assert expected in str(error)
    assert "test_sides.py" in str(error), "the place of the function is said"


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        ([("a",)], "needs a pyarrow.RecordBatch, not list"),
        (pa.record_batch({"what": ["a"]}), "a batch has the columns ['what']"),
        (
            pa.record_batch({"why": pa.array([None], pa.string())}),
            "'why' is NOT NULL but has nulls",
        ),
        (pa.record_batch({"why": [[1]]}), "but 'why string NOT NULL' is declared"),
    ],
)
def test_a_batch_that_does_not_fit_names_operator_and_side_output(
    batch: Any, expected: str
) -> None:
    class Misfit(Quiet):
        def process(self, given: Any, ctx: Any) -> Any:
            self.errors.emit_batch(batch)

    error = failing(Misfit())
    assert "operator 'f', side output 'errors'" in str(error)
    assert expected in str(error)
