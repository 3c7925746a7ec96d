"""Programs run under a seed: rows, batches and routes, and what a run gives."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import mainstay as ms
from mainstay.connectors import Memory, Polled, Source, Split, SplitReader
from mainstay.errors import GraphError, JobFailedError, SchemaError, UserFunctionError
from mainstay.schema import rows_to_batch, to_schema
from mainstay.testing import rows, run
from tests.unit.testing.programs import (
    RUNS,
    SCHEMA,
    SUMS,
    VALUES,
    Build,
    Sum,
    finals,
    gives,
    running_sums,
    runs,
    source,
)

pytestmark = pytest.mark.usefixtures("epochs_and_crashes_come_early")

# ---------------------------------------------------------------- rows and batches


def test_map_gives_a_row_for_a_row() -> None:
    gives(
        lambda s: s.map(lambda row: (row.k.upper(), row.n + 1), SCHEMA, uid="m"),
        [(k.upper(), n + 1) for k, n in VALUES],
    )


@pytest.mark.parametrize("shape", ["generator", "list", "row"])
def test_flat_map_takes_a_generator_a_list_a_row_and_none(shape: str) -> None:
    def several(row: Any) -> Iterator[Any]:
        for _ in range(row.n % 3):
            yield row

    functions: dict[str, Callable[[Any], Any]] = {
        "generator": several,
        "list": lambda row: [tuple(row)] * (row.n % 3),
        "row": lambda row: row if row.n % 2 else None,
    }
    expected = [row for row in VALUES for _ in range(row[1] % (2 if shape == "row" else 3))]
    gives(lambda s: s.flat_map(functions[shape], SCHEMA, uid="m"), expected)


def test_filter_keeps_what_is_true() -> None:
    gives(lambda s: s.filter(lambda row: row.n % 2, uid="f"), [v for v in VALUES if v[1] % 2])


def test_map_batches_takes_and_gives_batches_or_none() -> None:
    def doubled(batch: pa.RecordBatch) -> pa.RecordBatch | None:
        kept = batch.filter(pc.field("n") >= 60)
        if not kept.num_rows:
            return None
        return pa.RecordBatch.from_arrays(
            [kept.column("k"), pc.multiply(kept.column("n"), 2)], names=["k", "n"]
        )

    gives(
        lambda s: s.map_batches(doubled, SCHEMA, uid="m"),
        [(k, n * 2) for k, n in VALUES if n >= 60],
    )


def test_process_keeps_operator_state_that_survives() -> None:
    class Numbered(ms.Process):
        seen = ms.OperatorListState("long", redistribute="split")

        def process(self, row: Any, ctx: Any) -> Any:
            self.seen.add(row.n)
            return row

    for result in runs(lambda s: s.process(Numbered(), SCHEMA, uid="p")):
        assert Counter(result.output("out")) == Counter(VALUES)
        kept = [n for units in result.state("p", "seen") for n in units]
        assert sorted(kept) == [n for _, n in VALUES]


# ---------------------------------------------------------------- routing


def test_union_gives_the_rows_of_all_its_streams() -> None:
    def describe(s: ms.Stream) -> ms.Stream:
        odd = s.filter(lambda row: row.n % 2, uid="odd")
        return s.union(odd, s).map(lambda row: row, SCHEMA, uid="all")

    gives(describe, VALUES * 2 + [v for v in VALUES if v[1] % 2])


def test_a_union_can_be_keyed_and_ended_directly() -> None:
    def describe(s: ms.Stream) -> ms.Stream:
        return s.union(s).key_by("k").process(Sum(), SCHEMA, uid="sum")

    for result in runs(describe):
        assert result.state("sum", "total") == {k: 2 * n for k, n in SUMS.items()}
    gives(lambda s: s.union(s), VALUES * 2)


def test_rebalance_deals_rows_out_to_all_subtasks() -> None:
    class Where(ms.Process):
        def process(self, row: Any, ctx: Any) -> Any:
            return row.n, ctx.subtask, ctx.parallelism

    def build(env: ms.Environment) -> None:
        dealt = source(env, parallelism=1).rebalance()
        dealt.process(Where(), "n long, subtask int, of int", uid="p").sink(Memory(), uid="out")

    for seed in (1, 2):
        output = run(build, parallelism=3, seed=seed, crashes=1).output("out")
        assert sorted(n for n, _, _ in output) == list(range(300))
        assert {(subtask, of) for _, subtask, of in output} == {(0, 3), (1, 3), (2, 3)}


def test_broadcast_gives_every_row_to_every_subtask() -> None:
    for parallelism, result in zip([1, 2, 3, 4], runs(lambda s: s.broadcast()), strict=True):
        assert Counter(result.output("out")) == Counter(VALUES * parallelism)


def test_operators_may_have_a_parallelism_of_their_own() -> None:
    def describe(s: ms.Stream) -> ms.Stream:
        one = s.map(lambda row: row, SCHEMA, uid="one", parallelism=1)
        three = one.filter(lambda row: True, uid="three", parallelism=3)
        return three.key_by("k").process(Sum(), SCHEMA, uid="sum", parallelism=2)

    for result in runs(describe):
        assert result.state("sum", "total") == SUMS
        assert finals(result.output("out")) == SUMS


# ---------------------------------------------------------------- guarantees


def test_at_least_once_loses_nothing() -> None:
    def describe(s: ms.Stream) -> ms.Stream:
        return s.key_by("k").process(Sum(), SCHEMA, uid="sum").union(s)

    for result in runs(lambda s: s.map(lambda row: row, SCHEMA, uid="m"), mode="at_least_once"):
        assert set(result.output("out")) == set(VALUES)
    for result in runs(describe, mode="at_least_once"):
        assert all(n >= SUMS[k] for k, n in result.state("sum", "total").items())


def test_runs_of_this_size_do_crash_and_are_restored_from_epochs() -> None:
    def build(env: ms.Environment) -> None:
        keyed = source(env).key_by("k")
        keyed.process(Sum(), SCHEMA, uid="sum").sink(Memory(), uid="out")

    crashed = restored = 0
    for seed in range(16):
        result = run(build, parallelism=2, seed=seed, crashes=2)
        assert result.state("sum", "total") == SUMS
        crashed += len(result.attempts) > 1
        restored += any(record.restored_from is not None for record in result.attempts)
    assert crashed >= 6
    assert restored >= 2


class Generous(Source):
    """Gives many rows at a poll, however few are asked for: one poll goes out in many pieces."""

    schema = to_schema("k string, n long")

    def plan(self, seen: frozenset[str]) -> list[Split]:
        return [Split("all")]

    def read(self, split: Split, offset: Any) -> SplitReader:
        return _GenerousReader(offset or 0)


class _GenerousReader(SplitReader):
    def __init__(self, position: int) -> None:
        self._position = position

    def poll(self, max_rows: int) -> Polled:
        taken = VALUES[self._position : self._position + 150]
        self._position += len(taken)
        batch = rows_to_batch(taken, Generous.schema, "a poll")
        return Polled(batch, self._position, finished=self._position >= len(VALUES))


def test_a_source_is_restored_in_the_middle_of_a_poll() -> None:
    def build(env: ms.Environment) -> None:
        generous = env.source(Generous(), uid="in", parallelism=1)
        generous.key_by("k").process(Sum(), SCHEMA, uid="sum").sink(Memory(), uid="out")

    restored = 0
    for seed in range(16):
        result = run(build, parallelism=2, seed=seed, crashes=4)
        assert Counter(result.output("out")) == Counter(running_sums())
        restored += any(record.restored_from is not None for record in result.attempts)
    assert restored > 0


# ---------------------------------------------------------------- errors


def fails(describe: Build, message: str) -> None:
    """Every seed ends in failure with this message, on account of a schema."""

    def build(env: ms.Environment) -> None:
        describe(source(env)).sink(Memory(), uid="out")

    for parallelism, seed, _ in RUNS:
        with pytest.raises(JobFailedError, match=message) as caught:
            run(build, parallelism=parallelism, seed=seed)
        assert isinstance(caught.value.original, SchemaError)


def divide(row: Any) -> Any:
    return row.k, 1 // (row.n - 50)


@pytest.mark.parametrize("method", ["map", "process", "keyed"])
def test_an_exception_of_a_function_names_operator_subtask_and_the_users_own_lines(
    method: str,
) -> None:
    class Divide(ms.Process):
        def process(self, row: Any, ctx: Any) -> Any:
            return divide(row)

    class KeyedDivide(ms.KeyedProcess):
        def process(self, row: Any, ctx: Any) -> Any:
            return divide(row)

    add: dict[str, Build] = {
        "map": lambda s: s.map(divide, SCHEMA, uid="bad"),
        "process": lambda s: s.process(Divide(), SCHEMA, uid="bad"),
        "keyed": lambda s: s.key_by("k").process(KeyedDivide(), SCHEMA, uid="bad"),
    }
    with pytest.raises(UserFunctionError) as caught:
        list(runs(add[method]))
    error = caught.value
    assert (error.uid, error.subtask) == ("bad", 0)
    assert error.summary.startswith("ZeroDivisionError")
    assert "return row.k, 1 // (row.n - 50)" in error.user_traceback
    assert "mainstay/runtime" not in error.user_traceback
    assert error.user_traceback.count("File ") == (1 if method == "map" else 2)
    assert "operator 'bad', subtask 0" in str(error)


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (("a", "many"), r"column 'n'.*'many'"),
        (("a",), r"a row has 1 value but the schema has 2 columns \(k, n\)"),
        ({"k": "a", "m": 1}, "lacks n and has m"),
        (7, "7 is not a row"),
        (("a", 1 << 70), "column 'n'"),
    ],
)
def test_a_row_that_does_not_fit_names_the_operator_and_the_column(
    returned: Any, said: str
) -> None:
    class Give(ms.KeyedProcess):
        def process(self, row: Any, ctx: Any) -> Any:
            return returned

    message = rf"operator 'bad'.*{said}"
    fails(lambda s: s.map(lambda row: returned, SCHEMA, uid="bad"), message)
    fails(lambda s: s.key_by("k").process(Give(), SCHEMA, uid="bad"), message)


def test_a_batch_that_does_not_fit_names_the_operator_and_both_schemas() -> None:
    def renamed(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.rename_columns(["k", "m"])

    misnamed = r"operator 'bad'.*\['k', 'm'\].*k string, n long"
    fails(lambda s: s.map_batches(renamed, SCHEMA, uid="bad"), misnamed)
    no_batch = r"operator 'bad'.*RecordBatch.*not list"
    fails(lambda s: s.map_batches(lambda batch: [1], SCHEMA, uid="bad"), no_batch)


def test_a_key_that_does_not_fit_names_the_operator() -> None:
    fails(
        lambda s: s.key_by(lambda row: row.k, "long", uid="bad").filter(bool),
        r"operator 'bad'.*key function.*'[a-e]'",
    )


# ---------------------------------------------------------------- inputs and results


def totals(env: ms.Environment) -> None:
    keyed = source(env).key_by("k")
    keyed.process(Sum(), SCHEMA, uid="totals").sink(Memory(), uid="out")


def test_inputs_replace_sources_by_uid() -> None:
    result = run(totals, inputs={"in": rows(SCHEMA, [("x", 5), ("x", 6)])})
    assert result.output("out") == [("x", 5), ("x", 11)]
    assert result.state("totals", "total") == {"x": 11}


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"orders": rows(SCHEMA, [])}, r"'orders'.*\['in'\]"),
        ({"totals": rows(SCHEMA, [])}, "'totals', which is no source"),
        ({"in": rows("k string", [])}, "'in'.*'k string'.*'k string, n long'"),
    ],
)
def test_inputs_that_fit_no_source_are_refused(inputs: dict[str, Any], said: str) -> None:
    with pytest.raises(GraphError, match=said):
        run(totals, inputs=inputs)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"rescales": [0]}, r"rescale\(0\): parallelism=0 must be a whole number of at least 1"),
        ({"rescales": [2, "3"]}, r"rescale\('3'\): parallelism='3' must be a whole number"),
        ({"rescales": [None]}, r"rescale\(None\): parallelism=None must be a whole number"),
        ({"rescales": [500]}, r"parallelism=500 is more than max_parallelism=128\. Lower it"),
        ({"rescales": 3}, r"rescales=3 must be a list of parallelisms, as in rescales=\[3, 1\]"),
        ({"crashes": -1}, "run: crashes=-1 must be a whole number of at least 0"),
        ({"crashes": 1.5}, "run: crashes=1.5 must be a whole number of at least 0"),
        ({"crashes": True}, "run: crashes=True must be a whole number of at least 0"),
        ({"storage_faults": -1}, "run: storage_faults=-1 must be a whole number of at least 0"),
        ({"seed": 0.5}, "run: seed=0.5 must be a whole number of at least 0"),
        ({"parallelism": 0}, "parallelism=0 must be a whole number of at least 1"),
        ({"max_parallelism": 0}, "max_parallelism=0 must be a whole number of at least 1"),
        ({"parallelism": 200}, "parallelism=200 is more than max_parallelism=128"),
    ],
)
def test_wrong_numbers_are_refused_before_anything_runs(
    settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(GraphError, match=said):
        run(totals, **settings)


def test_the_sinks_of_the_program_are_left_alone() -> None:
    own = Memory()

    def build(env: ms.Environment) -> None:
        source(env).sink(own, uid="out")

    assert len(run(build).output("out")) == len(VALUES)
    assert own.rows() == []


def test_a_result_has_outputs_states_and_snapshots() -> None:
    result = run(totals, parallelism=2, seed=3)
    complete = [record for record in result.snapshots if record.status == "complete"]
    assert complete
    assert [record.epoch for record in complete] == sorted(record.epoch for record in complete)
    with pytest.raises(KeyError, match=r"no sink 'elsewhere'.*\['out'\]"):
        result.output("elsewhere")


def test_a_job_without_rows_ends_with_nothing() -> None:
    result = run(totals, inputs={"in": rows(SCHEMA, [])}, parallelism=3, seed=1)
    assert result.output("out") == []
    assert result.state("totals", "total") == {}


# ---------------------------------------------------------------- determinism


def test_the_same_seed_gives_the_same_run_and_another_seed_another() -> None:
    def traced(seed: int) -> tuple[list[str], list[Any]]:
        result = run(totals, parallelism=3, seed=seed, crashes=2)
        return result.simulation.trace, result.output("out")

    assert traced(5) == traced(5)
    assert traced(5)[0] != traced(6)[0]


PROGRAM = """
import mainstay as ms
from mainstay.testing import rows, run

class Sum(ms.KeyedProcess):
    total = ms.ReducingState("long", lambda a, b: a + b)
    by_number = ms.MapState("string", "long")

    def process(self, row, ctx):
        self.total.add(row.n)
        self.by_number.put(str(row.n), row.n)
        yield ctx.key, self.total.get()

def build(env):
    values = [("abcde"[n % 5], n) for n in range(400)]
    source = env.source(rows("k string, n long", values, splits=3), uid="in")
    keyed = source.key_by("k").process(Sum(), "k string, n long", uid="sum")
    keyed.union(source).sink(ms.connectors.Memory(), uid="out")

for seed in (1, 2, 3, 4):
    result = run(build, parallelism=2, seed=seed, crashes=6, storage_faults=3)
    print("\\n".join(result.simulation.trace))
    print(result.output("out"))
"""


def test_the_same_seed_gives_the_same_run_in_another_process() -> None:
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for hash_seed in ("1", "2")
    ]
    first, second = (process.communicate()[0] for process in running)
    assert [process.returncode for process in running] == [0, 0]
    assert "launch attempt 2" in first
    assert first == second


def test_a_job_is_rescaled_while_it_runs() -> None:
    def build(env: ms.Environment) -> None:
        totals = source(env).key_by("k").process(Sum(), "k string, total long", uid="sum")
        totals.sink(Memory(), uid="out")

    results = [run(build, seed=seed, rescales=[3]) for seed in range(5)]
    assert all(result.state("sum", "total") == SUMS for result in results)
    assert all(finals(result.output("out")) == SUMS for result in results)
    # One that comes when the input has ended finds nothing to rescale.
    reasons = [[attempt.reason for attempt in result.attempts] for result in results]
    assert ["rescaled", ""] in reasons
