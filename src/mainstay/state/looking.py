"""What a state holds just now, for a query from outside.

The subtask that owns the keys takes what is kept as it is (``Look``), which costs its loop little.
The process that has asked makes rows of it, as a segment would store them: so the code that reads
stored state reads these as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from mainstay.snapshot.statefile import StateTable
from mainstay.state.backends.changes import Changes, encoded
from mainstay.state.elements import without_expired
from mainstay.state.info import StateInfo
from mainstay.state.operations import columns_of
from mainstay.state.stored_key import StoredKey, groups_in
from mainstay.state.ttl import stored_info
from mainstay.state.values import ValueType

MOST_ROWS = 65_536

_WHOLE: Mapping[str, Callable[[Any], Any]] = {
    "value": lambda kept: kept,
    "list": lambda kept: (True, list(kept)),
    "map": lambda kept: (False, dict(kept)),
}
"""The change that stands for all that is kept for a key, by how it is stored."""


@dataclass(frozen=True, slots=True)
class Look:
    """What is kept for some keys, in the forms that a table keeps.

    What was last touched at ``horizon_us`` or before counts no more; None without a time to live.
    """

    changes: Changes
    horizon_us: int | None = None

    @staticmethod
    def at(info: StateInfo, kept: Iterable[tuple[Any, Any]], horizon_us: int | None = None) -> Look:
        """Lists and maps are copied: their owner goes on with them."""
        whole = _WHOLE[info.kind.stored_as]
        changes = {key: whole(value) for key, value in kept if value is not None}
        return Look(changes, horizon_us)

    def rows(self, info: StateInfo, key: ValueType, max_parallelism: int) -> StateTable:
        """The rows of a state, which is given as it is declared."""
        stored, of = stored_info(info), StoredKey.of(key, info.namespace)
        schema = columns_of(stored, key)
        slices = encoded([self.changes], MOST_ROWS, stored, of.type)
        table = pa.Table.from_batches([of.batch(some, schema) for some in slices], schema)
        rows = StateTable(info.name, table, groups_in(table, max_parallelism))
        if self.horizon_us is None:
            return rows
        return without_expired(rows, info.kind.stored_as, self.horizon_us)
