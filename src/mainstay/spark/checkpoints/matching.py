"""Which operator of a program takes the state of which operator of a checkpoint."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from mainstay.errors import GraphError, RestoreError
from mainstay.plan import nodes
from mainstay.plan.logical import LogicalGraph, LogicalOperator
from mainstay.runtime.own_states import HELD_BY_KEY
from mainstay.spark.checkpoints.stored import StoredOperator, StoredVariable
from mainstay.spark.processors.processor import ProcessorFunction
from mainstay.spark.processors.time_modes import DOMAINS
from mainstay.spelling import did_you_mean
from mainstay.state.info import StateInfo


@dataclass(frozen=True, slots=True)
class Match:
    """An operator of the program, and the one whose state it takes."""

    operator: LogicalOperator
    stored: StoredOperator

    @property
    def uid(self) -> str:
        return self.operator.uid

    @property
    def node(self) -> nodes.KeyedGroups:
        assert isinstance(self.operator.node, nodes.KeyedGroups)
        return self.operator.node

    def state(self, name: str) -> StateInfo | None:
        """A state that the operator declares."""
        return next((info for info in self.operator.states if info.name == name), None)

    def taken(self, allow_dropped: Collection[str]) -> list[StoredVariable]:
        """The variables that become states; a ``RestoreError`` where one has no place."""
        found = [
            each
            for each in self.stored.variables
            if each.name not in self.node.given_up and self.named(each) not in allow_dropped
        ]
        for variable in found:
            self._check(variable)
        return found

    def named(self, variable: StoredVariable) -> str:
        """A variable as it is named where it may be left behind."""
        return f"{self.stored.id}.{variable.name}"

    def _check(self, variable: StoredVariable) -> None:
        info = self.state(variable.name)
        if info is None:
            raise RestoreError(
                f"the checkpoint has the {variable.kind} state {variable.name!r}, which operator "
                f"{self.uid!r} does not declare; it declares {self._declared()}. Declare it in "
                f"init(), delete it there with handle.deleteIfExists({variable.name!r}), or leave "
                f"it behind with allow_dropped=[{self.named(variable)!r}]."
            )
        if info.kind.name != variable.kind:
            raise RestoreError(
                f"state {variable.name!r} of operator {self.uid!r} is a {info.kind.name} state, "
                f"and a {variable.kind} state in the checkpoint. Declare it as it was."
            )

    def _declared(self) -> str:
        names = [info.name for info in self.operator.states if info.timer is None and info.is_keyed]
        return ", ".join(map(repr, names)) or "none"


def matches_of(
    graph: LogicalGraph,
    stored: Collection[StoredOperator],
    given: Mapping[str, int] | None,
    allow_dropped: Collection[str],
) -> list[Match]:
    """The operators that take state, as they are ``given``, or the one there is on each side."""
    targets = {
        each.uid: each for each in graph.operators if isinstance(each.node, nodes.KeyedGroups)
    }
    by_id = {each.id: each for each in stored if str(each.id) not in allow_dropped}
    pairs = _only_pair(targets, by_id) if given is None else _checked(given, targets, by_id)
    left = [each for id, each in by_id.items() if id not in pairs.values()]
    if left:
        raise RestoreError(
            f"the checkpoint has state of operator {left[0]}, and no operator of the program takes "
            f"it. Say which one does, as in operators={{'counts': {left[0].id}}}, or leave it "
            f"behind with allow_dropped=['{left[0].id}']."
        )
    found = [Match(targets[uid], by_id[id]) for uid, id in pairs.items()]
    for match in found:
        _check_match(match)
    return found


def beginning_empty(graph: LogicalGraph, matches: Collection[Match]) -> list[str]:
    """The operators that could take state, and take none."""
    taking = {match.uid for match in matches}
    could = (each.uid for each in graph.operators if isinstance(each.node, nodes.KeyedGroups))
    return [uid for uid in could if uid not in taking]


def _only_pair(
    targets: Mapping[str, LogicalOperator], stored: Mapping[int, StoredOperator]
) -> dict[str, int]:
    known = [each.id for each in stored.values() if each.is_known]
    if not known:
        raise RestoreError(
            "the checkpoint has no state of a StatefulProcessor or of applyInPandasWithState; its "
            f"stateful operators are {_listed(stored)}. The state of others is not taken over: "
            "start the job afresh."
        )
    if not targets:
        raise GraphError(
            "the program has no operator that could take the state: call transform_with_state(...) "
            "or apply_in_pandas_with_state(...) on one of its keyed streams."
        )
    if len(targets) > 1 or len(known) > 1:
        raise GraphError(
            f"the program has the operators {sorted(targets)}, and the checkpoint "
            f"{_listed(stored)}. Say which takes which state, as in "
            f"operators={{{sorted(targets)[0]!r}: {known[0]}}}."
        )
    return {next(iter(targets)): known[0]}


def _checked(
    given: Mapping[str, Any],
    targets: Mapping[str, LogicalOperator],
    stored: Mapping[int, StoredOperator],
) -> dict[str, int]:
    for uid, id in given.items():
        if uid not in targets:
            raise GraphError(
                f"operators={dict(given)!r}: the program has no operator {uid!r} that runs a "
                f"function of PySpark; there are {sorted(targets)}.{did_you_mean(uid, targets)}"
            )
        if id not in stored:
            raise GraphError(
                f"operators={dict(given)!r}: the checkpoint has no stateful operator {id!r}; there "
                f"are {_listed(stored)}."
            )
    if len(set(given.values())) < len(given):
        raise GraphError(f"operators={dict(given)!r}: two operators cannot take the same state.")
    return dict(given)


def _listed(stored: Mapping[int, StoredOperator]) -> str:
    return ", ".join(map(str, stored.values())) or "none"


def _check_match(match: Match) -> None:
    stored, uid = match.stored, match.uid
    if HELD_BY_KEY in match.operator.states:
        raise GraphError(
            f"operator {uid!r} has an initial_state, which the query has taken in before its first "
            "batch: it would be taken in once more. Leave initial_state= out."
        )
    is_processor = isinstance(match.node.function, ProcessorFunction)
    if not stored.is_known or is_processor != stored.is_processor:
        raise RestoreError(
            f"operator {uid!r} is {match.operator.name}, and cannot take the state of operator "
            f"{stored} of the checkpoint."
        )
    domain = DOMAINS.get(stored.time_mode or "")
    if domain is not None and domain != match.node.times.domain:
        raise RestoreError(
            f"the query's processor had the time mode {stored.time_mode!r}, and its timers go by "
            f"it; that of operator {uid!r} is another one. Say time_mode={stored.time_mode!r}."
        )
