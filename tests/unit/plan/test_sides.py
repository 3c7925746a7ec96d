"""Side outputs in the plan: who reads them, what they are called, and how they are shown."""

from __future__ import annotations

from typing import Any

import pytest

import mainstay as ms
from mainstay.errors import GraphError
from mainstay.plan.chained import chain
from mainstay.plan.check import check_graph
from mainstay.plan.planning import plan_of
from mainstay.plan.wiring import wiring_of
from mainstay.runtime.edge_names import EdgeName, edge_name
from mainstay.runtime.shape import shape_of
from mainstay.runtime.spec import EdgeSpec, JobSpec
from mainstay.testing import rows

SCHEMA = "k string, n long"
OTHER = "why string"


class Sides(ms.KeyedProcess):
    same = ms.SideOutput(SCHEMA)
    errors = ms.SideOutput(OTHER)

    def process(self, row: Any, ctx: Any) -> Any:
        return row


def built(**settings: Any) -> tuple[ms.Environment, ms.Stream]:
    env = ms.Environment(**{"parallelism": 2, "max_parallelism": 8, **settings})
    source = env.source(rows(SCHEMA, [("a", 1)]), uid="in")
    return env, source.key_by("k").process(Sides(), SCHEMA, uid="f")


def end(stream: ms.Stream, uid: str = "out", **more: Any) -> None:
    stream.sink(ms.connectors.Memory(), uid=uid, **more)


def planned(env: ms.Environment) -> JobSpec:
    return plan_of(env.graph())


def edges(job: JobSpec) -> list[EdgeSpec]:
    return [edge for task in job.tasks for edge in task.outputs]


def same(row: Any) -> Any:
    return row


# ---------------------------------------------------------------- streams


def test_a_side_output_is_a_stream_of_its_own_schema() -> None:
    _, stream = built()
    assert repr(stream.side("errors")) == "Stream('why string')"
    assert repr(stream.side("same")) == "Stream('k string, n long')"


def test_a_name_that_is_unknown_is_refused_with_those_there_are() -> None:
    _, stream = built()
    with pytest.raises(GraphError) as raised:
        stream.side("error")
    expected = "operator 'f' has no side output 'error'; it has 'same', 'errors'."
    assert str(raised.value) == f"{expected} Did you mean 'errors'?"


def test_an_operator_without_side_outputs_says_so() -> None:
    env = ms.Environment()
    source = env.source(rows(SCHEMA, []), uid="in")
    with pytest.raises(GraphError, match="'in' has no side output 'late'; it has none"):
        source.side("late")


def test_the_side_outputs_of_several_operators_or_of_a_key_are_refused() -> None:
    _, stream = built()
    for other in (stream.union(stream.side("same")), stream.key_by("k"), stream.side("same")):
        with pytest.raises(GraphError, match="side outputs are those of one operator"):
            other.side("errors")


def test_a_side_goes_along_through_routing_keys_and_unions() -> None:
    env, stream = built()
    aside = stream.side("same")
    end(aside.rebalance().union(stream).map(same, SCHEMA, uid="map"), "a")
    end(aside.broadcast().map(same, SCHEMA, uid="all"), "b")
    end(aside.key_by("k").process(Sides(), SCHEMA, uid="g"), "c")
    end(aside.key_by(lambda row: row.n, "long").process(Sides(), SCHEMA, uid="h"), "d")
    job = planned(env)
    into = {
        task.id: [(e.side, type(e.partitioning).__name__) for e in task.inputs]
        for task in job.tasks
    }
    assert into["map"] == [("same", "Rebalance"), ("", "Forward")]
    assert into["all"] == [("same", "Broadcast")]
    assert into["g"] == [("same", "HashByKey")]
    added = next(op for _, op in job.operators() if op.name == "key_by")
    assert (added.side, into["h"]) == ("same", [("", "HashByKey")])


def test_errors_name_the_side_that_a_stream_comes_from() -> None:
    _, stream = built()
    with pytest.raises(GraphError, match=r"map\(\) after operator 'f' \(side output 'errors'\)"):
        stream.side("errors").map(same)


# ---------------------------------------------------------------- declarations


def test_side_outputs_are_inherited_and_may_be_replaced() -> None:
    class More(Sides):
        errors = None
        more = ms.SideOutput("n long")

    env = ms.Environment()
    stream = env.source(rows(SCHEMA, []), uid="in").key_by("k").process(More(), SCHEMA, uid="f")
    assert [side.name for side in env.graph().operator(1).sides] == ["same", "more"]
    assert repr(stream.side("more")) == "Stream('n long')"


def test_a_side_output_made_by_an_instance_is_refused() -> None:
    class Late(ms.KeyedProcess):
        def __init__(self) -> None:
            self.errors = ms.SideOutput(OTHER)

        def process(self, row: Any, ctx: Any) -> Any:
            return row

    source = ms.Environment().source(rows(SCHEMA, []), uid="in")
    with pytest.raises(GraphError, match=r"class Late: errors = SideOutput\('why string'\)"):
        source.key_by("k").process(Late(), SCHEMA)


def test_a_side_output_in_the_place_of_a_method_is_refused() -> None:
    class Closing(ms.KeyedProcess):
        close = ms.SideOutput(OTHER)  # type: ignore[assignment]

        def process(self, row: Any, ctx: Any) -> Any:
            return row

    source = ms.Environment().source(rows(SCHEMA, []), uid="in")
    with pytest.raises(GraphError, match="close"):
        source.key_by("k").process(Closing(), SCHEMA)


def test_a_plain_function_cannot_have_side_outputs() -> None:
    class Callable:
        errors = ms.SideOutput(OTHER)

        def __call__(self, row: Any) -> Any:
            return row

    source = ms.Environment().source(rows(SCHEMA, []), uid="in")
    with pytest.raises(GraphError, match="Callable declares side outputs"):
        source.map(Callable(), SCHEMA)


def test_a_schema_that_cannot_be_read_is_refused_where_it_stands() -> None:
    with pytest.raises(GraphError, match="SideOutput: "):
        ms.SideOutput("line sting")


def test_a_declaration_is_neither_assigned_nor_used_outside_a_job() -> None:
    function = Sides()
    with pytest.raises(ms.errors.MainstayError, match="cannot be assigned"):
        function.errors = []  # type: ignore[assignment]
    for emit in (function.errors.emit, function.errors.emit_many, function.errors.emit_batch):
        with pytest.raises(ms.errors.MainstayError, match="outside a running job"):
            emit(("a",))


# ---------------------------------------------------------------- chains and edges


def test_what_reads_a_side_joins_the_chain_as_what_reads_the_main_output_does() -> None:
    env, stream = built()
    end(stream)
    end(stream.side("errors").map(same, OTHER, uid="map"), "errors")
    end(stream.side("errors"), "one", parallelism=1)
    found = [[op.uid for op in each.operators] for each in chain(env.graph()).chains]
    assert found == [["in"], ["f", "out", "map", "errors"], ["one"]]
    sides = {op.uid: op.side for _, op in planned(env).operators()}
    assert (sides["out"], sides["map"], sides["errors"]) == ("", "errors", "")


def test_an_operator_whose_main_output_nobody_reads_may_have_a_side_that_is_read() -> None:
    env, stream = built()
    end(stream.side("errors"))
    check_graph(env.graph())
    assert [op.uid for op in planned(env).tasks[1].operators] == ["f", "out"]


def test_an_operator_of_which_nothing_is_read_is_refused() -> None:
    env, _ = built()
    with pytest.raises(GraphError, match="nothing reads what operator 'f'"):
        check_graph(env.graph())


def test_edges_between_two_operators_have_names_of_their_own() -> None:
    env, stream = built()
    end(stream.union(stream.side("same")).key_by("k").process(Sides(), SCHEMA, uid="g"))
    main, aside = [edge.name for edge in edges(planned(env)) if edge.receiver == "g"]
    assert main.text == '["f", "HashByKey", "g", 0, null, 0]'
    assert aside.text == '["f", "HashByKey", "g", 0, null, 0, "same"]'
    assert [edge_name(name.text) for name in (main, aside)] == [main, aside]
    assert "operator 'f' (side output 'same') to operator 'g'" in str(aside)


def test_a_name_of_an_older_version_is_that_of_the_main_output() -> None:
    assert edge_name('["f", "HashByKey", "g", 0, null, 3]') == EdgeName(
        "f", "HashByKey", "g", 0, subtask=3
    )
    assert edge_name('["chain", 2, "b", 1]').side == ""


def test_a_combiner_reads_the_side_that_its_aggregate_reads() -> None:
    env, stream = built()
    both = stream.union(stream.side("same"))
    end(both.key_by("k").aggregate(total=ms.sum("n"), uid="totals"))
    operators = {op.uid: op for _, op in planned(env).operators()}
    assert [operators[f"combine-{n}"].side for n in (1, 2)] == ["", "same"]
    assert [operators[f"combine-{n}"].inputs[0].sender for n in (1, 2)] == ["f", "f"]


def test_the_wiring_tells_a_side_from_the_main_output() -> None:
    def wiring(read: Any) -> str:
        env, stream = built()
        read(stream).map(same, SCHEMA).sink(ms.connectors.Memory())
        return wiring_of(env.graph())

    assert wiring(lambda s: s) != wiring(lambda s: s.side("same"))


# ---------------------------------------------------------------- what is shown


def test_explain_says_what_there_is_and_which_is_read() -> None:
    env, stream = built()
    end(stream)
    end(stream.side("errors").rebalance(), "errors")
    text = env.explain()
    assert "      side output errors -> why string\n" in text
    assert "      reads f (errors) by rebalance\n" in text
    assert "      4 channels by rebalance (errors) to errors" in text


def test_the_drawn_graph_says_which_output_an_edge_reads() -> None:
    env, stream = built()
    end(stream)
    end(stream.side("errors").map(same, OTHER, uid="map"), "errors", parallelism=1)
    found = {(e.sender, e.receiver): e.side for e in shape_of(planned(env)).edges}
    assert (found["f", "out"], found["f", "map"], found["map", "errors"]) == ("", "errors", "")
