"""The committed state of a job, by its snapshot directory: the same for both views."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.inspect.answer_streams import columns_document
from mainstay.inspect.answers import Answer
from mainstay.inspect.exact_values import decoded
from mainstay.inspect.json_values import keys_of
from mainstay.inspect.reading import LATEST, Origin
from mainstay.inspect.stored_connection import StoredConnection
from mainstay.inspect.survey_state import OperatorSurvey, Spread, survey_epoch
from mainstay.serve.documents import (
    KeyGroupDocument,
    KeyGroupsDocument,
    StateDocument,
)
from mainstay.serve.requests import QueryRequest, SqlRequest
from mainstay.snapshot.object_storage import open_existing
from mainstay.state.keygroups import subtask_of

SURVEYS = 16


class CommittedState:
    """Answers from complete epochs. The directory may come into being later than this."""

    def __init__(self, place: str, hidden: frozenset[str] = frozenset()) -> None:
        self._place = place
        self._hidden = hidden
        self._connection: StoredConnection | None = None
        self._surveys: OrderedDict[tuple[int, str], KeyGroupsDocument] = OrderedDict()
        self._lock = threading.Lock()

    def _connected(self) -> StoredConnection:
        with self._lock:
            if self._connection is None:
                self._connection = StoredConnection(self._place, hidden=self._hidden)
            return self._connection

    def states(self, epoch: int | str = LATEST) -> list[StateDocument]:
        return [
            StateDocument(
                name=name,
                kind=columns.schema.kind,
                key_type=columns.key_type,
                value_type=columns.schema.value_type,
                key_names=columns.key_columns() if columns.is_keyed else [],
                columns=columns_document(columns),
            )
            for name, columns in self._connected().states(epoch).items()
        ]

    # ------------------------------------------------------------ queries

    def query(self, request: QueryRequest, most: int) -> dict[str, Answer]:
        """Rows of states at one epoch, of each at most ``most`` and one."""
        job, timeout_s = self._connected(), request.timeout_s
        after = request.after
        if after is not None and after.sources is not None and after.epoch:
            job.query_states((), after=after.epoch, timeout=timeout_s)
        written = None if after is None else after.sources or after.epoch
        when: dict[str, Any] = {"epoch": request.epoch, "after": written, "timeout": timeout_s}
        if request.keys is None:
            return job.query_states(request.states, limit=most + 1, **when)
        if request.exact_keys:
            exact = [decoded(key) for key in request.keys]
            return job.query_states(request.states, keys=exact, **when)
        return self._looked_up(request.states, request.keys, when)

    def _looked_up(
        self, states: Sequence[str], keys: Sequence[Any], when: dict[str, Any]
    ) -> dict[str, Answer]:
        """By keys as JSON has them, which are read as the key of each state."""
        job, found = self._connected(), {}
        for state in states:
            wanted = keys_of(job.states(when["epoch"]).get(state), keys)
            found[state] = job.query(state, keys=wanted, **when)
            # All of them at one epoch, whatever is complete meanwhile.
            when = {**when, "epoch": found[state].epoch, "after": None}
        return found

    def sql(self, request: SqlRequest, most: int) -> pa.Table:
        """The rows of a statement; a few more than ``most`` where there are more."""
        asked: dict[str, Any] = {"epoch": request.epoch, "timeout": request.timeout_s}
        return self._connected().sql(request.statement, most=most, **asked)

    # ------------------------------------------------------------ key-groups

    def key_groups(self, uid: str) -> KeyGroupsDocument:
        """Counted from the footers of the latest epoch's files, once for each epoch."""
        origin = Origin.open(self._place)
        key = (origin.manifest.epoch, uid)
        with self._lock:
            found = self._surveys.get(key)
        if found is None:
            found = _key_groups(origin, uid)
            with self._lock:
                self._surveys[key] = found
                while len(self._surveys) > SURVEYS:
                    self._surveys.popitem(last=False)
        return found


def _key_groups(origin: Origin, uid: str) -> KeyGroupsDocument:
    stored, manifest = origin.operator(uid), origin.manifest
    alone = replace(manifest, operators={uid: stored})
    survey = survey_epoch(open_existing(origin.place), alone)[0]
    most = manifest.key_groups(uid)
    groups = most if stored.key_type is not None else 0
    rows, sizes = _spread(survey, groups)
    return KeyGroupsDocument(
        operator=uid,
        epoch=manifest.epoch,
        skew=Spread(tuple(rows)).skew,
        checkpoint_bytes=survey.checkpoint_bytes,
        groups=[
            KeyGroupDocument(
                group=group,
                subtask=subtask_of(group, stored.parallelism, most),
                rows=rows[group],
                size_bytes=sizes[group],
            )
            for group in range(groups)
        ],
    )


def _spread(survey: OperatorSurvey, groups: int) -> tuple[list[int], list[int]]:
    """Rows by key-group over all states, and the share of each in the bytes of its state."""
    rows, sizes = np.zeros(groups, np.int64), np.zeros(groups, np.float64)
    for state in survey.states:
        if state.by_group is not None and state.rows:
            counts = np.array(state.by_group.rows, np.int64)
            rows += counts
            sizes += counts * (state.size_bytes / state.rows)
    return rows.tolist(), np.rint(sizes).astype(np.int64).tolist()
