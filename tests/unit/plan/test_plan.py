"""From the logical graph to chains, tasks and channels, and how they are printed."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain as joined
from textwrap import dedent
from typing import Any

import pytest

import mainstay as ms
from mainstay.errors import GraphError
from mainstay.plan.chained import chain
from mainstay.plan.check import check_graph
from mainstay.plan.planning import plan_of
from mainstay.runtime.spec import Broadcast, Forward, HashByKey, JobSpec, Rebalance
from mainstay.testing import rows

SCHEMA = "k string, n long"


class Sum(ms.KeyedProcess):
    total = ms.ReducingState("long", lambda a, b: a + b)

    def process(self, row: Any, ctx: Any) -> Any:
        self.total.add(row.n)
        return ctx.key, self.total.get()


class Join(ms.CoKeyedProcess):
    def process_left(self, row: Any, ctx: Any) -> Any:
        return row

    def process_right(self, row: Any, ctx: Any) -> Any:
        return row


def environment(**settings: Any) -> ms.Environment:
    return ms.Environment(**{"parallelism": 2, "max_parallelism": 8, **settings})


def source(env: ms.Environment, uid: str = "in", **more: Any) -> ms.Stream:
    return env.source(rows(SCHEMA, [("a", 1)]), uid=uid, **more)


def chains(env: ms.Environment) -> list[list[str]]:
    return [[operator.uid for operator in c.operators] for c in chain(env.graph()).chains]


def out(stream: ms.Stream, uid: str = "out", **more: Any) -> None:
    stream.sink(ms.connectors.Memory(), uid=uid, **more)


def same(row: Any) -> Any:
    return row


# ---------------------------------------------------------------- chains


def test_forward_edges_of_equal_parallelism_are_fused() -> None:
    env = environment()
    out(source(env).map(same, SCHEMA, uid="a").filter(same, uid="b"))
    assert chains(env) == [["in", "a", "b", "out"]]


def test_a_key_a_rebalance_and_a_broadcast_begin_a_chain() -> None:
    env = environment()
    stream = source(env).rebalance().map(same, SCHEMA, uid="dealt")
    stream = stream.key_by("k").process(Sum(), SCHEMA, uid="keyed")
    out(stream.broadcast().map(same, SCHEMA, uid="everywhere"))
    assert chains(env) == [["in"], ["dealt"], ["keyed"], ["everywhere", "out"]]


def test_another_parallelism_begins_a_chain() -> None:
    env = environment()
    out(source(env).map(same, SCHEMA, uid="one", parallelism=1).map(same, SCHEMA, uid="two"))
    assert chains(env) == [["in"], ["one"], ["two", "out"]]


def test_several_inputs_begin_a_chain() -> None:
    env = environment()
    out(source(env, "left").union(source(env, "right")).map(same, SCHEMA, uid="both"))
    assert chains(env) == [["left"], ["right"], ["both", "out"]]


def test_a_chain_branches_and_each_branch_knows_what_it_reads() -> None:
    env = environment()
    stream = source(env).map(same, SCHEMA, uid="trunk")
    out(stream.filter(same, uid="left"), "left-out")
    out(stream.filter(same, uid="right"), "right-out")
    assert chains(env) == [["in", "trunk", "left", "left-out", "right", "right-out"]]
    assert chain(env.graph()).chains[0].upstream == (None, 0, 1, 2, 1, 4)


def test_a_key_function_stays_in_the_chain_of_what_it_reads() -> None:
    env = environment()
    keyed = source(env, parallelism=1).key_by(lambda row: row.n, "long")
    out(keyed.process(Sum(), "k long, n long", uid="keyed"))
    assert chains(env) == [["in", "key_by-1"], ["keyed", "out"]]


def test_a_chain_ends_in_several_channels_where_a_branch_leaves_it() -> None:
    env = environment()
    stream = source(env).map(same, SCHEMA, uid="trunk")
    out(stream.key_by("k").process(Sum(), SCHEMA, uid="keyed"))
    out(stream, "direct")
    job = env.plan()
    trunk = job.tasks[0]
    assert [operator.uid for operator in trunk.operators] == ["in", "trunk", "direct"]
    assert [(edge.sender_operator, edge.receiver) for edge in trunk.outputs] == [(1, "keyed")]


# ---------------------------------------------------------------- physical


def wide() -> ms.Environment:
    """A graph with every kind of edge and several parallelisms."""
    env = environment(parallelism=3)
    left = source(env, "left", parallelism=2)
    right = source(env, "right")
    both = left.union(right).map(same, SCHEMA, uid="both")
    keyed = both.key_by("k").process(Sum(), SCHEMA, uid="keyed", parallelism=2)
    told = keyed.connect(right.broadcast()).process(Join(), SCHEMA, uid="told")
    out(told.rebalance(), parallelism=1)
    return env


def test_every_channel_has_a_number_of_its_own_and_both_ends_agree_on_it() -> None:
    job = wide().plan()
    edges = [edge for task in job.tasks for edge in task.inputs]
    sent = [
        (channel, sender, receiver)
        for edge in edges
        for sender in range(edge.sender_parallelism)
        for channel, receiver in edge.outgoing(sender)
    ]
    received = [
        (channel, sender, receiver)
        for edge in edges
        for receiver in range(edge.receiver_parallelism)
        for channel, sender in edge.incoming(receiver)
    ]
    assert sorted(sent) == sorted(received)
    numbers = [channel for channel, _, _ in sent]
    assert sorted(numbers) == list(range(sum(edge.channels for edge in edges)))


def test_every_edge_is_an_output_of_its_sender_and_an_input_of_its_receiver() -> None:
    job = wide().plan()
    outputs = list(joined.from_iterable(task.outputs for task in job.tasks))
    inputs = list(joined.from_iterable(task.inputs for task in job.tasks))
    assert sorted(outputs, key=lambda edge: edge.first_channel) == inputs
    assert all(edge.sender != edge.receiver for edge in inputs)


def test_tasks_come_after_those_they_read_from() -> None:
    job = wide().plan()
    order = [task.id for task in job.tasks]
    assert all(
        order.index(edge.sender) < order.index(task.id)
        for task in job.tasks
        for edge in task.inputs
    )


def edge(job: JobSpec, sender: str, receiver: str) -> Any:
    edges = [edge for task in job.tasks for edge in task.outputs]
    (found,) = [e for e in edges if (e.sender, e.receiver) == (sender, receiver)]
    return found


def test_forward_between_unequals_becomes_a_rebalance() -> None:
    job = wide().plan()
    assert edge(job, "left", "both").partitioning == Rebalance()
    assert edge(job, "right", "both").partitioning == Forward()
    assert isinstance(edge(job, "both", "keyed").partitioning, HashByKey)
    assert edge(job, "right", "told").partitioning == Broadcast()
    assert (edge(job, "keyed", "told").port, edge(job, "right", "told").port) == (0, 1)


def test_there_are_as_many_workers_as_the_widest_task_has_subtasks() -> None:
    assert wide().plan().workers == 3


# ---------------------------------------------------------------- checks of a graph


def test_a_graph_made_by_hand_is_checked_like_one_made_by_streams() -> None:
    env = environment()
    out(source(env))
    graph = env.graph()
    check_graph(graph)
    first, last = graph.operators
    with pytest.raises(GraphError, match=r"uid 'in' is used by 2 operators \(source, sink\)"):
        check_graph(replace(graph, operators=(first, replace(last, uid="in"))))
    with pytest.raises(GraphError, match=r"operator 'out' has parallelism=9.*max_parallelism=8"):
        check_graph(replace(graph, operators=(first, replace(last, parallelism=9))))
    with pytest.raises(GraphError, match=r"mode='sometimes'.*exactly_once, at_least_once"):
        check_graph(replace(graph, mode="sometimes"))
    with pytest.raises(GraphError, match="max_parallelism=0"):
        check_graph(replace(graph, max_parallelism=0))


def test_expanding_a_graph_leaves_the_operators_in_order() -> None:
    env = wide()
    job = plan_of(env.graph())
    assert [operator.uid for _, operator in job.operators()] == [
        operator.uid for operator in env.graph().operators
    ]


# ---------------------------------------------------------------- explain


def test_explain_prints_the_three_graphs() -> None:
    env = environment()
    rules = source(env, "rules", parallelism=1)
    keyed = source(env).filter(same, uid="kept").key_by("k")
    told = keyed.connect(rules.broadcast()).process(Join(), SCHEMA, uid="told")
    out(told.key_by("k", "n").process(Sum(), SCHEMA, uid="sum"), parallelism=1)
    assert env.explain() == dedent(
        """\
        Logical graph (exactly_once, max_parallelism 8)
          rules: source -> k string, n long
              state splits: operator-list(string, split)
          in: source -> k string, n long
              state splits: operator-list(string, split)
          kept: filter -> k string, n long
              reads in by forward
          told: connect -> k string, n long
              reads kept by hash(k) as left
              reads rules by broadcast as right
          sum: process -> k string, n long
              state total: reducing(long)
              reads told by hash(k, n)
          out: sink
              state handles: operator-list(struct<epoch:long,handle:binary>, split)
              reads sum by forward

        Chained graph
          [rules] x 1
          [in -> kept] x 2
          [told] x 2
          [sum] x 2
          [out] x 1

        Physical graph (2 workers)
          rules[0] on worker 0
              2 channels by broadcast to told
          in[0] on worker 0
          in[1] on worker 1
              4 channels by hash(k) to told
          told[0] on worker 0, key-groups 0-3
          told[1] on worker 1, key-groups 4-7
              4 channels by hash(k, n) to sum
          sum[0] on worker 0, key-groups 0-3
          sum[1] on worker 1, key-groups 4-7
              2 channels by rebalance to out
          out[0] on worker 0"""
    )


def test_explain_says_that_a_key_comes_from_a_function() -> None:
    env = environment()
    out(source(env).key_by(lambda row: row.n, "long"))
    text = env.explain()
    assert "reads key_by-1 by hash(key function)" in text
    assert "drop_key-1: drop_key -> k string, n long" in text


def test_a_graph_without_an_end_can_be_explained_but_not_planned() -> None:
    env = environment()
    source(env)
    assert "in[1] on worker 1" in env.explain()
    with pytest.raises(GraphError, match=r"nothing reads what operator 'in'.*sink"):
        env.plan()


def test_an_empty_job_is_neither_explained_nor_planned() -> None:
    for method in (environment().explain, environment().plan):
        with pytest.raises(GraphError, match="the job is empty"):
            method()
