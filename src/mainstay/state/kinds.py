"""The kinds of state that there are. To add one is to add it here.

A kind of a new shape needs a table of that shape in each backend as well: ``heap/backend``,
``cached/shapes`` and, for backends that only keep something for a key, ``plain``.
"""

from __future__ import annotations

from mainstay.errors import RestoreError
from mainstay.state.broadcast import BroadcastMap
from mainstay.state.collection_handles import ListHandle, MapHandle
from mainstay.state.columns import columns_handle
from mainstay.state.keyed import AggregatingHandle, ReducingHandle, ValueHandle
from mainstay.state.kind import StateKind
from mainstay.state.operator import OperatorList
from mainstay.state.peeking import given_list, given_map, given_result, given_value
from mainstay.state.rows import RowsHandle
from mainstay.state.spans import SpansHandle
from mainstay.state.timer_handles import TimerHandle, TimersHandle
from mainstay.state.ttl_tables import TtlLists, TtlMaps, TtlValues
from mainstay.state.value_columns import column_handle

ONE_VALUE = "one value"
"""The family of kinds that keep one value: what differs is how a function changes it."""

VALUE = StateKind("value", "value", ValueHandle, given_value, TtlValues, ONE_VALUE)
VALUE_COLUMN = StateKind(VALUE.name, "column", column_handle, given_value, family=ONE_VALUE)
"""A value state, for an operator that works on columns. Nobody else can tell the two apart."""
REDUCING = StateKind("reducing", "value", ReducingHandle, given_value, TtlValues, ONE_VALUE)
AGGREGATING = StateKind(
    "aggregating", "value", AggregatingHandle, given_result, TtlValues, ONE_VALUE
)
REDUCING_COLUMN = StateKind(REDUCING.name, "column", column_handle, given_value, family=ONE_VALUE)
AGGREGATING_COLUMN = StateKind(
    AGGREGATING.name, "column", column_handle, given_result, family=ONE_VALUE
)
LIST = StateKind("list", "list", ListHandle, given_list, TtlLists)
MAP = StateKind("map", "map", MapHandle, given_map, TtlMaps)
COLUMNS = StateKind("columns", "columns", columns_handle, given_value, has_fixed_type=True)
TIMER = StateKind("timer", "value", TimerHandle, given_value, family=ONE_VALUE)
TIMERS = StateKind("timers", "value", TimersHandle, given_value)
ROWS = StateKind("rows", "rows", RowsHandle, given_list)
SPANS = StateKind("spans", "spans", SpansHandle, given_value, has_fixed_type=True)
OPERATOR_LIST = StateKind("operator-list", "units", OperatorList, given_list)
BROADCAST_MAP = StateKind("broadcast-map", "units", BroadcastMap, given_map)

BY_COLUMN = {kind.name: kind for kind in (VALUE_COLUMN, REDUCING_COLUMN, AGGREGATING_COLUMN)}
"""The kinds of one value that an operator may read and write by the column, by their names."""

_OF_VALUES = (VALUE, REDUCING, AGGREGATING, LIST, MAP, COLUMNS, TIMER, TIMERS)
KINDS = {kind.name: kind for kind in (*_OF_VALUES, ROWS, SPANS, OPERATOR_LIST, BROADCAST_MAP)}


def kind_named(name: str) -> StateKind:
    """The kind of a state that a manifest names."""
    found = KINDS.get(name)
    if found is None:
        raise RestoreError(
            f"the snapshot has a state of the kind {name!r}; this version of Mainstay knows "
            f"{', '.join(KINDS)}. Restore it with a version that wrote it or a newer one."
        )
    return found
