"""Operator state: a list per subtask, whose elements (units) a rescale may move.

The snapshot copies the list in its synchronous part, so its cost there is the list's length.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from mainstay.errors import StateTypeError
from mainstay.schema.ipc import from_ipc, to_ipc
from mainstay.schema.sizes import TooLargeError
from mainstay.snapshot.manifest import OperatorUnits
from mainstay.state.info import StateInfo
from mainstay.state.keyed import frozen_elements

COMPRESSED_BYTES = 1 << 16


class OperatorList:
    """The handle that takes the place of an ``OperatorListState`` declaration.

    What it keeps is the subtask's own, and all that a snapshot writes. What a restore showed it of
    others (``union``) is only looked at, until the list is replaced.
    """

    __slots__ = ("_after", "_before", "_kept", "_restored", "_thaw", "info")

    def __init__(self, info: StateInfo) -> None:
        self.info = info
        self._thaw = info.value.thaw
        self._keep([])

    def _keep(self, kept: list[Any]) -> None:
        self._kept = kept
        self._before: list[Any] = []
        self._after: list[Any] = []
        self._restored = 0
        """How many of its own were restored; they stand between what others have."""

    def get(self) -> list[Any]:
        restored = self._restored
        seen = [*self._before, *self._kept[:restored], *self._after, *self._kept[restored:]]
        thaw = self._thaw
        return seen if thaw is None else [thaw(kept) for kept in seen]

    def add(self, value: Any) -> None:
        self._kept.extend(frozen_elements(self.info, (value,)))

    def extend(self, values: Iterable[Any]) -> None:
        self._kept.extend(frozen_elements(self.info, values))

    def update(self, values: Iterable[Any] | None) -> None:
        self._keep(frozen_elements(self.info, () if values is None else values))

    def clear(self) -> None:
        self._keep([])

    def copy_units(self) -> list[Any]:
        """What the snapshot keeps: a copy, so that later changes do not show."""
        return list(self._kept)

    def encode(self, kept: list[Any]) -> OperatorUnits:
        assert self.info.redistribute is not None
        try:
            data = encode_units(self.info.value.to_array(kept))
        except (TooLargeError, pa.ArrowCapacityError):
            raise StateTypeError(
                f"state {self.info.name!r}: the {len(kept)} elements of a subtask take more than "
                "2 GiB, which is the most that can be stored. Operator state is for short lists: "
                "keep what is large in keyed state."
            ) from None
        return OperatorUnits(self.info.redistribute, len(kept), data)

    def restore(self, units: OperatorUnits) -> None:
        seen = self.info.value.from_array(decode_units(units.data))
        first, count = (0, len(seen)) if units.own is None else units.own
        self._keep(seen[first : first + count])
        self._before, self._after = seen[:first], seen[first + count :]
        self._restored = count


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
    # Many units are much alike, and go with every epoch. Readers of all versions take either.
    compression = "zstd" if column.nbytes > COMPRESSED_BYTES else None
    return to_ipc([batch], batch.schema, compression=compression)


def decode_units(data: bytes) -> pa.Array:
    return from_ipc(data).column("unit").combine_chunks()
