"""Spark's own tests with an initial state, each micro-batch as a slice, and jobs whose initial
state comes while there are rows already."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

import mainstay as ms
from mainstay.errors import GraphError
from mainstay.testing import run
from tests.processors import processors as p
from tests.processors.slices import VARIANTS, InRows, Slices, variant

INITIAL = "id string, initVal int"


def slices(
    processor: type,
    how: type,
    *,
    initial: str = INITIAL,
    schema: str = p.INPUT,
    key: Any = "id",
    **options: Any,
) -> Slices:
    made = variant(processor, how)()

    def build(keyed: Any, first: Any) -> Any:
        return keyed.transform_with_state(
            made, made.output, in_pandas=made.in_pandas, uid="f", initial_state=first, **options
        )

    def source(env: Any) -> Any:
        return env.source(ms.connectors.Rows(initial, []), uid="initial")

    return Slices(schema, key, build, initial=source)


@pytest.mark.parametrize("how", VARIANTS)
def test_7_keys_stand_elsewhere_in_the_initial_state(how: type) -> None:
    run = slices(
        p.NonContiguous,
        how,
        initial="initVal int, id1 string, id2 string",
        schema="id1 string, temperature int, id2 string",
        key=("id1", "id2"),
    )
    run.take((789, "0", "1"), (987, "3", "2"), port=1)
    run.end_port(1)
    rows = [("0", 123, "1"), ("0", 46, "1"), ("1", 146, "2"), ("1", 346, "2")]
    assert sorted(run.take(*rows)) == [("0", "1", "958"), ("1", "2", "492")]


@pytest.mark.parametrize("how", VARIANTS)
def test_10_30_initial_state_comes_first(how: type) -> None:
    run = slices(p.SumWithInitial, how)
    assert run.take(*p.R1) == [], "rows wait for the initial state"
    run.take(("0", 789), ("3", 987), port=1)
    assert sorted(run.end_port(1)) == [("0", "958"), ("1", "492")]
    assert sorted(run.take(("0", 67), ("3", 12))) == [("0", "1025"), ("3", "999")]


@pytest.mark.parametrize("how", VARIANTS)
def test_32_timers_of_the_initial_state(how: type) -> None:
    run = slices(p.SumWithTimer, how, time_mode="ProcessingTime")
    run.take(*p.R1)
    assert run.take(("0", 789), ("3", 987), port=1) == [], (
        "no timer fires before all of it is there"
    )
    assert sorted(run.end_port(1)) == [
        ("0", "0-expired"),
        ("0", "958"),
        ("1", "492"),
        ("3", "3-expired"),
    ]
    assert sorted(run.take(("0", 67), ("3", 12))) == [("0", "1025"), ("3", "999")]


class Appending(p.Base):
    """A list that begins with all rows of the initial state."""

    output = "id string, values string"

    def init(self, handle: Any) -> None:
        self.list = handle.getListState("list_state", "value int")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        list(rows)
        yield self.out(id=key[0], values=",".join(str(each[0]) for each in self.list.get()))

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        for value in self.initial(initialState, "initVal"):
            self.list.appendValue((value,))


@pytest.mark.parametrize("how", VARIANTS)
def test_37_several_rows_of_a_key(how: type) -> None:
    run = slices(Appending, how)
    run.take(*[(key, n) for n in (20, 20, 111, 120, 120) for key in ("0", "1")], port=1)
    run.end_port(1)
    expected = [(key, "20,20,111,120,120") for key in ("0", "1")]
    assert sorted(run.take(("0", 1), ("1", 2))) == expected


@pytest.mark.parametrize("how", VARIANTS)
def test_31_another_operator_follows(how: type) -> None:
    """Rows become JSON behind the processor; no column of the initial state is lost by it."""

    def build(env: Any) -> None:
        made = variant(p.SumWithInitial, how)()
        keyed = env.source(ms.connectors.Rows(p.INPUT, p.R1), uid="in").key_by("id")
        summed = keyed.transform_with_state(
            made,
            made.output,
            in_pandas=how.in_pandas,
            initial_state=ms.connectors.Rows(INITIAL, [("0", 789), ("3", 987)]),
            group="epoch",
            uid="f",
        )
        shown = summed.map(
            lambda row: (row.id, json.dumps({"value": row.value})), "key string, value string"
        )
        shown.sink(ms.connectors.Memory(), uid="out")

    found = dict(sorted(run(build).output("out")))
    assert found == {"0": '{"value": "958"}', "1": '{"value": "492"}'}


# ------------------------------------------------------------ jobs

ROWS = [(str(n % 7), n) for n in range(150)]
FIRST = [(str(n), 1000 * n) for n in range(10)]


def job(env: Any) -> None:
    source = env.source(ms.connectors.Rows(p.INPUT, ROWS), uid="in")
    summed = source.key_by("id").transform_with_state(
        variant(p.SumWithInitial, InRows)(),
        p.SumWithInitial.output,
        initial_state=ms.connectors.Rows(INITIAL, FIRST, splits=3),
        uid="f",
    )
    summed.sink(ms.connectors.Memory(), uid="out")


def expected() -> dict[str, int]:
    sums = Counter(dict(FIRST))
    for key, value in ROWS:
        sums[key] += value
    return dict(sums)


@pytest.mark.parametrize("seed", range(4))
def test_a_job_begins_with_its_initial_state_once_whatever_fails(seed: int) -> None:
    result = run(job, seed=seed, crashes=2, rescales=[3, 1][: seed % 3], parallelism=2)
    found = {key: row.value for key, row in result.state("f", "value_state").items()}
    assert found == expected()


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(4, 200))
def test_more_seeds(seed: int) -> None:
    mode = "unaligned" if seed % 2 else "exactly_once"
    result = run(job, seed=seed, crashes=3, rescales=[3, 1, 2][: seed % 4], mode=mode)
    found = {key: row.value for key, row in result.state("f", "value_state").items()}
    assert found == expected()


# ------------------------------------------------------------ refusals


def refused(first: Any) -> str:
    env = ms.Environment(spark="embedded")
    keyed = env.source(ms.connectors.Rows(p.INPUT, []), uid="in").key_by("id")
    with pytest.raises(GraphError) as error:
        keyed.transform_with_state(
            variant(p.SumWithInitial, InRows)(), "id string", initial_state=first(env), uid="f"
        )
    return str(error.value)


def test_what_is_no_bounded_stream_with_the_key_is_refused() -> None:
    rows = ms.connectors.Rows
    assert "is no stream" in refused(lambda env: [("a", 1)])
    assert "another environment" in refused(
        lambda env: ms.Environment(spark="embedded").source(rows(INITIAL, []), uid="x")
    )
    assert "has not the columns of the key" in refused(lambda env: rows("name string", []))
    assert "Key both by the same types" in refused(
        lambda env: env.source(rows("id int", []), uid="x").key_by("id")
    )
    endless = ms.connectors.Sequence()
    assert "has no end" in refused(
        lambda env: env.source(endless, uid="x").map(lambda row: ("a",), "id string")
    )
