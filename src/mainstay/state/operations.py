"""Operations: what a row of a segment or base file says, for each way of storing keyed state.

Every row has a key and an operation. The codes are part of the durable format. A state with a
namespace has a column more, after the key; wherever a rule speaks of the key, it is the pair.

========== ============================= ===========================================
stored as  columns                       operations
========== ============================= ===========================================
value      key, op, value                put, delete; append, of accumulators
list       key, op, value (a list)       put (replaces), append, delete
map        key, op, map_key, value       entry-put, entry-remove, delete (clears)
========== ============================= ===========================================

Which kind is stored how says ``StateKind.stored_as``. Rows are applied in order. Two rules say when
a later row makes an earlier one useless, and compaction needs no others: put and delete make every
earlier row of their key useless, entry-put and entry-remove every earlier row of their key and
map_key. To append a row of accumulators is to put all of its fields but those that are lists, which
are appended to what is there: what ``count_distinct`` keeps grows so. Compaction joins such rows of
a key. What a segment drops (see ``mainstay.snapshot.drops``) comes before all of its rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from mainstay.state.info import StateInfo
from mainstay.state.stored_key import StoredKey
from mainstay.state.values import ValueType

PUT, DELETE, APPEND, ENTRY_PUT, ENTRY_REMOVE = range(5)


def columns_of(info: StateInfo, key: ValueType) -> pa.Schema:
    """The schema of the rows that a state's segments hold."""
    fields = [*StoredKey.of(key, info.namespace).fields(), ("op", pa.int8())]
    stored_as = info.kind.stored_as
    if stored_as == "map":
        assert info.map_key is not None
        fields.append(("map_key", info.map_key.arrow))
    value = pa.list_(info.value.arrow) if stored_as == "list" else info.value.arrow
    return pa.schema([*fields, ("value", value)])


def may_append(row: pa.DataType, grow: Sequence[bool]) -> bool:
    """Whether rows of accumulators may be appended: where all fields that are lists only grow."""
    fields = zip(row, grow, strict=True)
    return any(grow) and all(grows or not pa.types.is_list(field.type) for field, grows in fields)
