"""Operator state: a list per subtask, whose elements (units) a rescale may move.

The snapshot copies the list in its synchronous part, so its cost there is the list's length.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from mainstay.schema.ipc import from_ipc, to_ipc
from mainstay.snapshot.manifest import OperatorUnits
from mainstay.state.declaration import StateInfo
from mainstay.state.keyed import frozen_elements


class OperatorList:
    """The handle that takes the place of an ``OperatorListState`` declaration."""

    __slots__ = ("_kept", "_thaw", "info")

    def __init__(self, info: StateInfo) -> None:
        self.info = info
        self._thaw = info.value.thaw
        self._kept: list[Any] = []

    def get(self) -> list[Any]:
        thaw = self._thaw
        return list(self._kept) if thaw is None else [thaw(kept) for kept in self._kept]

    def add(self, value: Any) -> None:
        self._kept.extend(frozen_elements(self.info, (value,)))

    def extend(self, values: Iterable[Any]) -> None:
        self._kept.extend(frozen_elements(self.info, values))

    def update(self, values: Iterable[Any] | None) -> None:
        self._kept = frozen_elements(self.info, () if values is None else values)

    def clear(self) -> None:
        self._kept = []

    def copy_units(self) -> list[Any]:
        """What the snapshot keeps: a copy, so that later changes do not show."""
        return list(self._kept)

    def encode(self, kept: list[Any]) -> OperatorUnits:
        assert self.info.redistribute is not None
        data = encode_units(self.info.value.to_array(kept))
        return OperatorUnits(self.info.redistribute, len(kept), data)

    def restore(self, units: OperatorUnits) -> None:
        self._kept = self.info.value.from_array(decode_units(units.data))


def values_in(info: StateInfo, units: OperatorUnits) -> list[Any]:
    """What the units of a snapshot hold, as ``get`` would give it."""
    restored = OperatorList(info)
    restored.restore(units)
    return restored.get()


def to_units(info: StateInfo, values: Iterable[Any]) -> OperatorUnits:
    """Values as the units of a snapshot."""
    return OperatorList(info).encode(frozen_elements(info, values))


def encode_units(column: pa.Array) -> bytes:
    batch = pa.record_batch([column], names=["unit"])
    return to_ipc([batch], batch.schema)


def decode_units(data: bytes) -> pa.Array:
    return from_ipc(data).column("unit").combine_chunks()
