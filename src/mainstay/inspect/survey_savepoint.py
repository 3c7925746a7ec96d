"""What a savepoint holds: rows and bytes of each state, and how keyed state is spread.

Most of it is said by ``savepoint.json``. How many rows each key-group has is in the first column of
the Parquet files, and of them nothing but that column is read.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mainstay.errors import MainstayError
from mainstay.inspect.survey import Flaw
from mainstay.inspect.survey_state import Counts, OperatorSurvey, StateSurvey, spread_of
from mainstay.snapshot.manifest import FileRef
from mainstay.snapshot.positioned import Positioned
from mainstay.snapshot.savepoint import Savepoint, SavepointOperator, SavepointState
from mainstay.snapshot.savepoint_files import GROUP_COLUMN
from mainstay.snapshot.storage import Storage


def survey_savepoint(storage: Storage, savepoint: Savepoint) -> tuple[OperatorSurvey, ...]:
    """What each operator holds, by ``savepoint.json`` and the key-groups in its Parquet files."""
    return tuple(
        _saved_operator(storage, operator, savepoint.key_groups(operator.uid))
        for operator in savepoint.operators.values()
    )


def _saved_operator(storage: Storage, saved: SavepointOperator, groups: int) -> OperatorSurvey:
    flaws: list[Flaw] = []
    states = tuple(_saved_state(storage, state, groups, flaws) for state in saved.states)
    return OperatorSurvey(
        saved.uid,
        saved.parallelism,
        saved.key_type,
        (),
        sum(len(state.files) for state in saved.states),
        sum(state.size_bytes for state in states),
        0,
        states,
        tuple(flaws),
    )


def _saved_state(
    storage: Storage, state: SavepointState, groups: int, flaws: list[Flaw]
) -> StateSurvey:
    rows = sum(item.rows for item in state.files)
    size_bytes = sum(item.file.size_bytes for item in state.files)
    if state.schema.redistribute is not None:
        return StateSurvey(state.schema, rows, size_bytes, None, None)
    counts = np.zeros(groups, np.int64)
    for item in state.files:
        try:
            np.add.at(counts, _groups_in(storage, item.file), 1)
        except (MainstayError, pa.ArrowException, OSError, KeyError, IndexError) as error:
            flaws.append(Flaw(item.file.path, f"its key-groups cannot be read: {error}"))
    return StateSurvey(state.schema, rows, size_bytes, spread_of(counts), None)


def _groups_in(storage: Storage, ref: FileRef) -> Counts:
    source = pa.PythonFile(_Stored(storage, ref), mode="r")
    with pq.ParquetFile(source, pre_buffer=False, page_checksum_verification=True) as file:
        groups: Counts = file.read([GROUP_COLUMN], use_threads=False)[GROUP_COLUMN].to_numpy()
        return groups


class _Stored(Positioned):
    """A stored file, read by position; only what is asked for is fetched."""

    def __init__(self, storage: Storage, ref: FileRef) -> None:
        super().__init__(ref.size_bytes)
        self._storage = storage
        self._ref = ref

    def bytes_at(self, start: int, after: int) -> bytes:
        return self._storage.read(self._ref.path, start, after - start)
