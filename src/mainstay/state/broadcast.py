"""Broadcast state: a map that every subtask of an operator holds in full.

Rows of a broadcast input change it, the same way in every subtask, and all other rows read it. It
is operator state whose units are its entries: the snapshot copies them in its synchronous part,
and a rescale gives each new subtask a whole copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa

from mainstay.errors import MainstayError, StateTypeError
from mainstay.schema.sizes import TooLargeError
from mainstay.schema.transpose import shown
from mainstay.snapshot.manifest import OperatorUnits, StateSchema
from mainstay.state.collection_handles import MapHandle
from mainstay.state.info import StateInfo
from mainstay.state.keyed import ABSENT, KeyContext
from mainstay.state.looking import Look
from mainstay.state.operator import decode_units, encode_units
from mainstay.state.ttl import type_named

MAP_KEY, VALUE = "map_key", "value"
Entry = tuple[Any, Any]


class OneMap:
    """The entries of one map, as a table of maps has them: there is no key to tell maps apart."""

    __slots__ = ("entries", "may_change", "name", "read")

    def __init__(self, name: str) -> None:
        self.name = name
        self.entries: dict[Any, Any] = {}
        self.may_change = False
        self.read: Callable[[Any], dict[Any, Any]] = lambda key: self.entries

    def bring(self, keys: Sequence[Any]) -> None:
        """It is all here."""

    def entry(self, key: Any, map_key: Any) -> Any:
        return self.entries.get(map_key, ABSENT)

    def has_entry(self, key: Any, map_key: Any) -> bool:
        return map_key in self.entries

    def put_entry(self, key: Any, map_key: Any, kept: Any) -> None:
        self._check_change()
        self.entries[map_key] = kept

    def remove_entry(self, key: Any, map_key: Any) -> None:
        self._check_change()
        self.entries.pop(map_key, None)

    def delete(self, key: Any) -> None:
        self._check_change()
        self.entries.clear()

    def _check_change(self) -> None:
        if not self.may_change:
            raise MainstayError(
                f"state {self.name!r} is broadcast state, and was to be changed where no row of a "
                "broadcast input is processed: other subtasks would not know. Change it in the "
                "method of the broadcast input, and only read it elsewhere."
            )


class BroadcastMap(MapHandle):
    """The handle that takes the place of a ``BroadcastMapState`` declaration."""

    __slots__ = ("_map",)

    def __init__(self, info: StateInfo) -> None:
        self._map = OneMap(info.name)
        super().__init__(info, self._map, KeyContext())

    @property
    def may_change(self) -> bool:
        """Whether the row that is processed goes to every subtask."""
        return self._map.may_change

    @may_change.setter
    def may_change(self, may_change: bool) -> None:
        self._map.may_change = may_change

    def _absent(self, key: Any) -> KeyError:
        return KeyError(
            f"state {self.info.name!r} has no entry {shown(key)}. Ask with get(), which gives None "
            "or a default."
        )

    def look(self, limit: int) -> Look:
        """So many entries as they are just now, or all where it is 0."""
        return Look(dict(islice(self._map.entries.items(), limit or None)))

    # ------------------------------------------------------------ snapshots

    def copy_units(self) -> list[Entry]:
        """What the snapshot keeps: a copy, so that later changes do not show."""
        return list(self._map.entries.items())

    def encode(self, kept: list[Entry]) -> OperatorUnits:
        info = self.info
        assert info.map_key is not None
        assert info.redistribute is not None
        try:
            keys = info.map_key.to_array([key for key, _ in kept])
            units = joined(keys, info.value.to_array([value for _, value in kept]))
            data = encode_units(units)
        except (TooLargeError, pa.ArrowCapacityError):
            raise StateTypeError(
                f"state {info.name!r}: its {len(kept)} entries take more than 2 GiB, which is the "
                "most that can be stored. Every subtask holds all of broadcast state: keep what is "
                "large in keyed state."
            ) from None
        return OperatorUnits(info.redistribute, len(kept), data)

    def restore(self, units: OperatorUnits) -> None:
        assert self.info.map_key is not None
        keys, values = parts(decode_units(units.data))
        found = zip(
            self.info.map_key.from_array(keys), self.info.value.from_array(values), strict=True
        )
        self._map.entries = dict(found)


def joined(keys: pa.Array, values: pa.Array) -> pa.StructArray:
    """Entries as units, from their two columns."""
    fields = [pa.field(MAP_KEY, keys.type), pa.field(VALUE, values.type)]
    return pa.StructArray.from_arrays([keys, values], fields=fields)


def parts(units: pa.StructArray) -> tuple[pa.Array, pa.Array]:
    """The two columns of entries that are units."""
    keys, values = units.flatten()
    return keys, values


def unit_type(state: StateSchema) -> pa.DataType:
    """The type of the units of an operator state: of broadcast state, of its entries."""
    value = type_named(state.value_type).arrow
    if state.map_key_type is None:
        return value
    key = type_named(state.map_key_type).arrow
    return joined(pa.array([], key), pa.array([], value)).type


def entries_in(info: StateInfo, units: OperatorUnits) -> dict[Any, Any]:
    """What the units of a snapshot hold, as a dictionary."""
    restored = BroadcastMap(info)
    restored.restore(units)
    return dict(restored.items())
