"""Live state of a running job: from what a caller asks to a question, and from looks to an answer.

The columns are those of the same state once it is committed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from mainstay.errors import GraphError, QueryError
from mainstay.inspect.columns import StateColumns
from mainstay.inspect.hidden import hidden_states, refuse_hidden
from mainstay.inspect.key_values import ALL_KEYS, wanted_keys
from mainstay.inspect.live_broadcast import LiveBroadcast
from mainstay.runtime.coordinator.queries import Live, Question
from mainstay.runtime.coordinator.recovery import key_names_of, key_type_of
from mainstay.runtime.spec import JobSpec, KeySpec, OperatorSpec
from mainstay.spelling import did_you_mean
from mainstay.state.hashing import key_groups
from mainstay.state.info import StateInfo
from mainstay.state.kinds import BROADCAST_MAP
from mainstay.state.upgrade import schema_of
from mainstay.state.whole import to_whole

MOST_ROWS = 10_000
"""How many keys a look around may give: it is taken between two slices."""


class LiveState:
    """One keyed state of a running job."""

    def __init__(self, job: JobSpec, key: KeySpec, operator: OperatorSpec, info: StateInfo) -> None:
        self._key, self._operator, self._info = key, operator, info
        self._key_groups = job.key_groups(operator)
        self.columns = StateColumns(
            operator.uid, schema_of(info), key_type_of(operator), key_names_of(operator)
        )

    @staticmethod
    def named(job: JobSpec, state: str) -> LiveState | LiveBroadcast:
        """The state that is named ``operator.state``."""
        refuse_hidden(state, hidden_states(job))
        known = live_states(job)
        if state in _operator_states(job):
            raise QueryError(
                f"{state!r} is operator state, which is not asked for while it changes. Ask for it "
                "with at='committed'."
            )
        if state not in known:
            raise QueryError(
                f"there is no live state {state!r} in this job. Name it by operator and state; "
                f"there are {', '.join(sorted(known)) or 'none'}.{did_you_mean(str(state), known)}"
            )
        found = known[state]
        if found.columns.has_namespace:
            raise QueryError(
                f"{found.columns.label} is kept by more than its key. Ask for it with "
                "at='committed'."
            )
        return found

    def question(
        self, key: Any = ALL_KEYS, keys: Iterable[Any] | None = None, limit: int | None = None
    ) -> Question:
        """What its owners are asked."""
        whose = (self._operator.uid, (self._info.name,))
        if key is ALL_KEYS and keys is None:
            return Question(*whose, None, check_around(limit))
        wanted = wanted_keys(self.columns, key, keys, limit)
        column = self.columns.joined_key(self.columns.key_arrays(wanted))
        groups = key_groups([column], self._key_groups).tolist()
        kept = self._key.type.from_array(column)
        return Question(*whose, list(zip(groups, kept, strict=True)))

    def table(self, question: Question, said: Live) -> pa.Table:
        """The rows of what its owners have said."""
        tables = [pa.schema(self.columns.fields()).empty_table()]
        for looks in said.looks:
            if (look := looks.get(self._info.name)) is None:
                continue  # a worker without a subtask of the operator
            rows = look.rows(self._info, self._key.type, self._key_groups)
            whole = to_whole([rows], self.columns.stored_as)
            if whole is not None:
                tables.append(self.columns.shown(whole))
        table = pa.concat_tables(tables)
        return table.slice(0, question.limit) if question.keys is None else table


def live_states(job: JobSpec) -> dict[str, LiveState | LiveBroadcast]:
    """The keyed and broadcast states of a job, each by the name ``operator.state``."""
    return {**_keyed_states(job), **_broadcast_states(job)}


def _broadcast_states(job: JobSpec) -> dict[str, LiveBroadcast]:
    return {
        f"{operator.uid}.{info.name}": LiveBroadcast(operator, info)
        for _, operator in job.operators()
        for info in operator.states
        if info.kind == BROADCAST_MAP and info.queryable
    }


def _keyed_states(job: JobSpec) -> dict[str, LiveState]:
    return {
        f"{operator.uid}.{info.name}": LiveState(job, operator.key, operator, info)
        for _, operator in job.operators()
        if operator.key is not None
        for info in operator.states
        if info.is_keyed and info.queryable
    }


def _operator_states(job: JobSpec) -> set[str]:
    """The states of a job that differ by subtask, each by the name ``operator.state``."""
    return {
        f"{operator.uid}.{info.name}"
        for _, operator in job.operators()
        for info in operator.states
        if not info.is_keyed and info.kind != BROADCAST_MAP
    }


def check_around(limit: int | None) -> int:
    """How many keys a look around gives, refused where that is none or too many."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 0 < limit <= MOST_ROWS:
        raise GraphError(
            f"limit={limit!r}: a look around live state gives between 1 and {MOST_ROWS:,} keys. "
            "For more ask with at='committed'."
        )
    return limit
