"""Which operator takes the state of which, and what is said where none fits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import mainstay as ms
from mainstay.errors import GraphError, RestoreError
from mainstay.spark.checkpoints.matching import Match, beginning_empty, matches_of
from mainstay.spark.checkpoints.stored import GROUP_STATE, StoredOperator, StoredVariable
from mainstay.testing import rows


class Counts(StatefulProcessor):
    def init(self, handle: Any) -> None:
        self.count = handle.getValueState("count", "n long")
        handle.deleteIfExists("gone")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        return iter(())


COUNT = StoredVariable("count", "value", has_ttl=False)


def stored(*variables: StoredVariable, id: int = 0, time_mode: str = "NoTime") -> StoredOperator:
    return StoredOperator(id, "transformWithStateInPySparkExec", time_mode, variables or (COUNT,))


def program(*uids: str, **options: Any) -> Any:
    env = ms.Environment(spark="embedded")
    for uid in uids:
        keyed = env.source(rows("k string, n long", []), uid=f"{uid}-in").key_by("k")
        made = keyed.transform_with_state(Counts(), "k string, n long", uid=uid, **options)
        made.sink(ms.connectors.Memory(), uid=f"{uid}-out")
    return env.graph()


def matched(
    graph: Any, *found: StoredOperator, given: Any = None, allow_dropped: tuple[str, ...] = ()
) -> list[Match]:
    return matches_of(graph, found, given, allow_dropped)


def test_the_only_operator_takes_the_only_state() -> None:
    (match,) = matched(program("counts"), stored())
    assert match.uid == "counts"
    assert match.taken(()) == [COUNT]


def test_a_state_that_init_deletes_is_left_behind() -> None:
    gone = StoredVariable("gone", "map", has_ttl=False)
    (match,) = matched(program("counts"), stored(COUNT, gone))
    assert match.taken(()) == [COUNT]


def test_a_state_that_is_not_declared_is_refused_unless_it_may_go() -> None:
    (match,) = matched(program("counts"), stored(COUNT, StoredVariable("more", "list", False)))
    with pytest.raises(RestoreError, match=r"list state 'more'.*declares 'count'.*'0\.more'"):
        match.taken(())
    assert match.taken(("0.more",)) == [COUNT]


def test_a_state_of_another_kind_is_refused() -> None:
    (match,) = matched(program("counts"), stored(StoredVariable("count", "map", False)))
    with pytest.raises(RestoreError, match="is a value state, and a map state in the checkpoint"):
        match.taken(())


@pytest.mark.parametrize(
    ("time_mode", "options"),
    [("ProcessingTime", {}), ("EventTime", {"time_mode": "ProcessingTime"})],
)
def test_timers_of_another_clock_are_refused(time_mode: str, options: dict[str, Any]) -> None:
    with pytest.raises(RestoreError, match=f"Say time_mode='{time_mode}'"):
        matched(program("counts", **options), stored(time_mode=time_mode))


def test_several_operators_are_named() -> None:
    graph, both = program("a", "b"), (stored(), stored(id=1))
    with pytest.raises(GraphError, match=r"operators \['a', 'b'\].*operators=\{'a': 0\}"):
        matched(graph, *both)
    found = matched(graph, *both, given={"a": 1, "b": 0})
    assert [(each.uid, each.stored.id) for each in found] == [("a", 1), ("b", 0)]


def test_an_operator_that_takes_no_state_is_told() -> None:
    graph = program("a", "b")
    assert beginning_empty(graph, matched(graph, stored(), given={"b": 0})) == ["a"]


def test_state_that_nobody_takes_is_refused_unless_it_may_go() -> None:
    dedup = StoredOperator(1, "dedupe")
    with pytest.raises(RestoreError, match=r"operator 1 \(dedupe\).*allow_dropped=\['1'\]"):
        matched(program("counts"), stored(), dedup)
    assert len(matched(program("counts"), stored(), dedup, allow_dropped=("1",))) == 1


def test_a_query_without_such_state_is_refused() -> None:
    with pytest.raises(RestoreError, match=r"no state of a Stateful.*0 \(stateStoreSave\)"):
        matched(program("counts"), StoredOperator(0, "stateStoreSave"))


def test_the_state_of_another_function_is_refused() -> None:
    with pytest.raises(RestoreError, match="is transform_with_state, and cannot take the state"):
        matched(program("counts"), StoredOperator(0, GROUP_STATE))


def test_a_program_without_such_an_operator_is_refused() -> None:
    with pytest.raises(GraphError, match="no operator that could take the state"):
        matched(program(), stored())


def test_an_initial_state_would_be_taken_in_twice() -> None:
    initial = ms.connectors.Rows("k string, n long", [("a", 1)])
    with pytest.raises(GraphError, match="Leave initial_state= out"):
        matched(program("counts", initial_state=initial), stored())


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"count": 0}, "no operator 'count'.*Did you mean 'counts'"),
        ({"counts": 5}, "no stateful operator 5"),
    ],
)
def test_what_is_not_there_cannot_be_named(given: dict[str, int], said: str) -> None:
    with pytest.raises(GraphError, match=said):
        matched(program("counts"), stored(), given=given)
