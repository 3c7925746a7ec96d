"""The kinds of state that there are. To add one is to add it here.

A kind of a new shape needs a table of that shape in each backend as well: ``heap/backend``,
``cached/shapes`` and, for backends that only keep something for a key, ``plain``.
"""

from __future__ import annotations

from mainstay.errors import RestoreError
from mainstay.state.collection_handles import ListHandle, MapHandle
from mainstay.state.columns import ColumnsHandle
from mainstay.state.keyed import AggregatingHandle, ReducingHandle, ValueHandle
from mainstay.state.kind import StateKind
from mainstay.state.operator import OperatorList
from mainstay.state.peeking import given_list, given_map, given_result, given_value
from mainstay.state.ttl_tables import TtlLists, TtlMaps, TtlValues

ONE_VALUE = "one value"
"""The family of kinds that keep one value: what differs is how a function changes it."""

VALUE = StateKind("value", "value", ValueHandle, given_value, TtlValues, ONE_VALUE)
REDUCING = StateKind("reducing", "value", ReducingHandle, given_value, TtlValues, ONE_VALUE)
AGGREGATING = StateKind(
    "aggregating", "value", AggregatingHandle, given_result, TtlValues, ONE_VALUE
)
LIST = StateKind("list", "list", ListHandle, given_list, TtlLists)
MAP = StateKind("map", "map", MapHandle, given_map, TtlMaps)
COLUMNS = StateKind("columns", "columns", ColumnsHandle, given_value, has_fixed_type=True)
OPERATOR_LIST = StateKind("operator-list", "units", OperatorList, given_list)

KINDS = {
    kind.name: kind for kind in (VALUE, REDUCING, AGGREGATING, LIST, MAP, COLUMNS, OPERATOR_LIST)
}


def kind_named(name: str) -> StateKind:
    """The kind of a state that a manifest names."""
    found = KINDS.get(name)
    if found is None:
        raise RestoreError(
            f"the snapshot has a state of the kind {name!r}; this version of Mainstay knows "
            f"{', '.join(KINDS)}. Restore it with a version that wrote it or a newer one."
        )
    return found
