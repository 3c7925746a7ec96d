"""Settings of operators: the same for every method that adds one, and what they come to."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import mainstay as ms
from mainstay.api.connect import ConnectedStreams
from mainstay.api.connected_inputs import ConnectedInputs
from mainstay.api.keyed_stream import KeyedStream
from mainstay.api.settings import Settings
from mainstay.api.stream import Stream
from mainstay.api.windowed_stream import WindowedStream
from mainstay.connectors import Memory, Rows
from mainstay.errors import GraphError, KeywordError
from mainstay.runtime.spec import JobSpec
from mainstay.testing import run

CLASSES = [Stream, KeyedStream, WindowedStream, ConnectedStreams, ConnectedInputs]
WITHOUT_AN_OPERATOR = {"key_by"}
SETTINGS = set(Settings.__annotations__)


def methods() -> list[tuple[type, str]]:
    return [
        (cls, name)
        for cls in CLASSES
        for name, method in inspect.getmembers(cls, inspect.isfunction)
        if not name.startswith("_") and "uid" in inspect.signature(method).parameters
    ]


def environment(**more: Any) -> tuple[ms.Environment, Stream]:
    env = ms.Environment(parallelism=2, **more)
    return env, env.source(Rows("k string, n long", [("a", 1)]), uid="in")


def tasks(job: JobSpec) -> list[list[str]]:
    return [[operator.uid for operator in task.operators] for task in job.tasks]


def test_every_method_that_adds_an_operator_takes_all_of_them() -> None:
    found = methods()
    assert len(found) > 30
    for cls, name in found:
        if name in WITHOUT_AN_OPERATOR:
            continue
        parameters = inspect.signature(getattr(cls, name)).parameters
        assert set(parameters) >= SETTINGS, f"{cls.__name__}.{name}"
        assert all(parameters[each].default is None for each in SETTINGS)


def test_one_that_does_not_exist_is_refused_with_what_was_meant() -> None:
    _, stream = environment()
    with pytest.raises(KeywordError) as refused:
        stream.map(tuple, "k string, n long", paralelism=2)  # type: ignore[call-arg]
    assert str(refused.value).startswith(
        "Stream.map() has no argument 'paralelism'. Did you mean 'parallelism'? It takes function, "
    )


def test_a_missing_argument_is_still_what_python_says() -> None:
    _, stream = environment()
    with pytest.raises(TypeError, match="missing a required argument: 'function'"):
        stream.map(uid="doubled")  # type: ignore[call-arg]


# ---------------------------------------------------------------- chain


def chained(**settings: Any) -> list[list[str]]:
    env, stream = environment()
    doubled = stream.map(tuple, "k string, n long", uid="map", **settings)
    doubled.sink(Memory(), uid="out")
    return tasks(env.plan())


def test_an_operator_that_is_not_to_be_chained_is_a_task_of_its_own() -> None:
    assert chained() == chained(chain=True) == [["in", "map", "out"]]
    assert chained(chain=False) == [["in"], ["map", "out"]]


def test_it_is_what_unchained_comes_to() -> None:
    env, stream = environment()
    stream.unchained().map(tuple, "k string, n long", uid="map").sink(Memory(), uid="out")
    assert tasks(env.plan()) == chained(chain=False)


def test_a_sink_and_columns_may_be_unchained_too() -> None:
    env, stream = environment()
    stream.select("k", uid="k", chain=False).sink(Memory(), uid="out", chain=False)
    assert tasks(env.plan()) == [["in"], ["k"], ["out"]]


def test_another_value_is_refused() -> None:
    _, stream = environment()
    with pytest.raises(GraphError, match=r"operator 'more' \(with_columns\): chain='n' must be"):
        stream.with_columns(chain="n", uid="more")  # type: ignore[arg-type]


# ---------------------------------------------------------------- max_parallelism


def counted(parallelism: int = 2, **settings: Any) -> ms.Environment:
    env = ms.Environment(parallelism=parallelism, max_parallelism=16)
    stream = env.source(Rows("k string, n long", [("a", 1)]), uid="in", parallelism=2)
    counts = stream.key_by("k").aggregate(n=ms.count(), uid="counts", **settings)
    counts.sink(Memory(), uid="out", parallelism=2)
    return env


def test_an_operator_has_the_key_groups_that_it_says_and_others_those_of_the_job() -> None:
    job = counted(max_parallelism=40).plan()
    found = {operator.uid: job.key_groups(operator) for _, operator in job.operators()}
    assert found == {"in": 16, "combine-1": 16, "counts": 40, "out": 16}


def test_a_plan_shows_them() -> None:
    plan = counted(max_parallelism=40).explain()
    assert "counts: aggregate -> k string, n long (max_parallelism 40)" in plan
    assert "counts[1] on worker 1, key-groups 20-39" in plan


def test_it_may_be_higher_than_that_of_the_job() -> None:
    job = counted(parallelism=16, max_parallelism=40).plan()
    assert job.workers == 16


def test_a_parallelism_above_it_is_refused() -> None:
    with pytest.raises(GraphError) as refused:
        counted(parallelism=5, max_parallelism=4)
    assert str(refused.value) == (
        "operator 'counts' (aggregate): parallelism=5 is more than max_parallelism=4. Lower it, or "
        "set a higher max_parallelism before the job has state."
    )


@pytest.mark.parametrize(
    ("most", "why"),
    [
        (0, "max_parallelism=0 "),
        (True, "max_parallelism=True "),
        (40_000, "max_parallelism=40000 is more than 32768"),
    ],
)
def test_a_number_that_cannot_be_is_refused(most: Any, why: str) -> None:
    with pytest.raises(GraphError, match=why):
        counted(max_parallelism=most)


def test_a_rescale_above_it_is_refused_by_the_name_of_the_operator() -> None:
    env = counted(max_parallelism=4)
    env._builder.check_rescale(4)
    with pytest.raises(GraphError) as refused:
        env._builder.check_rescale(5)
    assert str(refused.value) == (
        "rescale(5), operator 'counts' (aggregate): parallelism=5 is more than max_parallelism=4. "
        "Lower it, or set a higher max_parallelism before the job has state."
    )


def test_an_operator_with_a_parallelism_of_its_own_is_no_bound_for_a_rescale() -> None:
    env, stream = environment()
    counts = stream.key_by("k").aggregate(n=ms.count(), parallelism=3, max_parallelism=4)
    counts.sink(Memory(), uid="out")
    env._builder.check_rescale(5)


def test_a_key_that_a_function_made_is_dropped_in_the_same_key_groups() -> None:
    env, stream = environment()
    keyed = stream.key_by(lambda row: row.k, "string")
    keyed.map(tuple, "k string, n long", uid="map", max_parallelism=7).sink(Memory(), uid="out")
    job = env.plan()
    dropped = next(operator for _, operator in job.operators() if operator.name == "drop_key")
    assert job.key_groups(dropped) == 7


class Aside(ms.KeyedProcess):
    seen = ms.SideOutput("k string")

    def process(self, row: Any, ctx: Any) -> Any:
        self.seen.emit((ctx.key,))
        return ctx.key, row.n


def test_what_reads_aside_in_a_test_has_room_for_the_subtasks_that_it_reads() -> None:
    def build(env: ms.Environment) -> None:
        stream = env.source(Rows("k string, n long", [("a", 1), ("b", 2)]), uid="in").key_by("k")
        more = {"parallelism": 6, "max_parallelism": 8}
        stream.process(Aside(), "k string, n long", uid="aside", **more).sink(Memory(), uid="out")

    result = run(build, max_parallelism=4)
    assert sorted(result.side("aside", "seen")) == [("a",), ("b",)]
