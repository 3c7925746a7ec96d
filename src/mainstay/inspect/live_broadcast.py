"""Live broadcast state: one subtask is asked, because all of them hold the same map."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from mainstay.inspect.columns import StateColumns
from mainstay.inspect.key_values import ALL_KEYS, check_limit, wanted_keys
from mainstay.runtime.coordinator.queries import Live, Question
from mainstay.runtime.coordinator.recovery import key_names_of, key_type_of
from mainstay.runtime.spec import OperatorSpec
from mainstay.state.info import StateInfo
from mainstay.state.upgrade import schema_of


class LiveBroadcast:
    """One broadcast state of a running job."""

    def __init__(self, operator: OperatorSpec, info: StateInfo) -> None:
        self._operator, self._info = operator, info
        self.columns = StateColumns(
            operator.uid, schema_of(info), key_type_of(operator), key_names_of(operator)
        )

    def question(
        self, key: Any = ALL_KEYS, keys: Iterable[Any] | None = None, limit: int | None = None
    ) -> Question:
        """What a subtask is asked: for all entries, or for so many."""
        if key is not ALL_KEYS or keys is not None:
            wanted_keys(self.columns, key, keys, limit)  # refuses it: there is one map, and no key
        check_limit(limit)
        uid, name = self._operator.uid, self._info.name
        return Question(uid, (name,), None, limit or 0, of_one=True)

    def table(self, question: Question, said: Live) -> pa.Table:
        """The entries, as a subtask has said them."""
        schema = pa.schema(self.columns.fields())
        look = next((looks[self._info.name] for looks in said.looks if looks), None)
        if look is None:
            return schema.empty_table()
        assert self._info.map_key is not None
        entries = dict(look.changes)
        keys = self._info.map_key.to_array(list(entries))
        values = self._info.value.to_array(list(entries.values()))
        return pa.Table.from_arrays([keys, values], schema=schema)
