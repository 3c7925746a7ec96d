"""Combiners: partial results before a shuffle, where that sends fewer rows.

Each sender of an aggregation has one in its chain. Where one subtask sends to one subtask there is
no shuffle to save, and rows are folded as they are; so are those of an aggregate whose partial
results cannot be merged. Where late rows of windows are read, rows are sent as they are, too,
because they cannot be had back from a partial result. A combiner has no state, so a job that is
restored or rescaled to another parallelism may have one or not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

from mainstay.plan import nodes
from mainstay.plan.logical import Input, LogicalGraph, LogicalOperator
from mainstay.runtime.operators.aggregate import OTHER_FORM
from mainstay.runtime.side_names import LATE
from mainstay.runtime.spec import Forward, HashByKey, InputSpec

Combined = nodes.Aggregate | nodes.WindowAggregate

COMBINE = "combine"
"""The name of these operators, and what their uids begin with."""


def combined(graph: LogicalGraph) -> LogicalGraph:
    """The graph with its combiners, at the parallelism that it has."""
    return _Combining(graph).graph()


class _Combining:
    """Copies a graph operator by operator; what is added moves those behind it."""

    def __init__(self, graph: LogicalGraph) -> None:
        self._given = graph
        self._operators: list[LogicalOperator] = []
        self._moved: dict[int, int] = {}
        self._uids = self._free_uids()

    def graph(self) -> LogicalGraph:
        for operator in self._given.operators:
            if isinstance(operator.node, nodes.Aggregate | nodes.WindowAggregate):
                self._add_aggregate(operator, operator.node)
            else:
                self._add(operator, self._inputs(operator))
        return replace(self._given, operators=tuple(self._operators))

    def _add(self, operator: LogicalOperator, inputs: tuple[Input, ...]) -> LogicalOperator:
        added = replace(operator, id=len(self._operators), inputs=inputs)
        self._operators.append(added)
        self._moved[operator.id] = added.id
        return added

    def _inputs(self, operator: LogicalOperator) -> tuple[Input, ...]:
        return tuple(
            replace(given, upstream=self._moved[given.upstream]) for given in operator.inputs
        )

    def _add_aggregate(self, operator: LogicalOperator, node: Combined) -> None:
        inputs = self._inputs(operator)
        can_merge = node.aggregation.can_merge and not self._late_are_read(operator)
        is_combined = can_merge and self._is_shuffled(operator, inputs)
        key, other_key = node.key, node.partial_key
        other_schema = node.partial_schema
        if is_combined:
            key, other_key, other_schema = other_key, key, node.carried
            inputs = tuple(
                Input(self._combiner(operator.uid, node, given), HashByKey(key)) for given in inputs
            )
        self._add(
            replace(
                operator,
                node=replace(node, is_combined=is_combined),
                key=key,
                # A snapshot may hold what was sent where there was a combiner, or was none.
                other_forms=(InputSpec("", OTHER_FORM, HashByKey(other_key), other_schema),),
            ),
            inputs,
        )

    def _is_shuffled(self, operator: LogicalOperator, inputs: tuple[Input, ...]) -> bool:
        senders = (self._operators[given.upstream].parallelism for given in inputs)
        return operator.parallelism > 1 or any(sender > 1 for sender in senders)

    def _late_are_read(self, operator: LogicalOperator) -> bool:
        inputs = (given for other in self._given.operators for given in other.inputs)
        return any((given.upstream, given.side) == (operator.id, LATE) for given in inputs)

    def _combiner(self, uid: str, node: Combined, given: Input) -> int:
        sender = self._operators[given.upstream]
        combiner = LogicalOperator(
            id=len(self._operators),
            uid=next(self._uids),
            has_own_uid=False,
            name=COMBINE,
            node=_combining(node, uid),
            schema=node.partial_schema,
            parallelism=sender.parallelism,
            inputs=(Input(given.upstream, Forward(), side=given.side),),
            follows_job=sender.follows_job,
            max_parallelism=sender.max_parallelism,
        )
        self._operators.append(combiner)
        return combiner.id

    def _free_uids(self) -> Iterator[str]:
        taken = {operator.uid for operator in self._given.operators}
        return (uid for uid in (f"{COMBINE}-{n}" for n in count(1)) if uid not in taken)


def _combining(node: Combined, uid: str) -> nodes.Combiner:
    if isinstance(node, nodes.Aggregate):
        return nodes.Combine(node.aggregation, node.key, uid)
    return nodes.SliceCombine(node.aggregation, node.windows, node.times, node.key, uid)
