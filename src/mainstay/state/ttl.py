"""Time to live: how long an element of keyed state counts after it was last written or read.

::

    visits = ListState("string", ttl="7 days")
    session = ValueState("string", ttl=Ttl("30 min", update="read"))

An element is a value, an element of a list or an entry of a map. It is kept together with a
*stamp*, the wall clock of the worker in microseconds since 1970 (UTC) when it was last touched; so
a state with a time to live is stored as a state of another type, and a backend need not know. Time
is processing time: it passes while a job is stopped, too.

What a backend must offer for it is one method, ``survey`` (see ``HeapTable``); all else is done by
``ttl_tables`` over its ordinary tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mainstay.errors import GraphError
from mainstay.own_frames import made_with_own_frames
from mainstay.quantities import seconds
from mainstay.spelling import did_you_mean
from mainstay.state.values import PICKLED, ValueType

if TYPE_CHECKING:
    from mainstay.state.info import StateInfo

STAMP, VALUE = "at", "value"
UPDATES = ("write", "read")


@made_with_own_frames
@dataclass(frozen=True, slots=True)
class Ttl:
    """How long something is kept, and whether a read counts as well as a write."""

    duration: str | float
    update: str = "write"

    def __post_init__(self) -> None:
        if self.lifetime_us < 1:
            raise GraphError(f"ttl={self.duration!r} must be at least a microsecond.")
        if self.update not in UPDATES:
            raise GraphError(
                f"Ttl(update={self.update!r}) is unknown: what is kept may live on from each "
                f'"write", or from each "read" and write.{did_you_mean(self.update, UPDATES)}'
            )

    @property
    def lifetime_us(self) -> int:
        return round(seconds(self.duration, "ttl", positive=True) * 1_000_000)

    @property
    def is_read(self) -> bool:
        """Whether a read prolongs it."""
        return self.update == "read"

    @staticmethod
    def of(given: Any) -> Ttl | None:
        """A time to live as it is declared: none, a duration, or a ``Ttl``."""
        return given if given is None or isinstance(given, Ttl) else Ttl(given)


@dataclass(frozen=True, slots=True, eq=False)
class StampedType(ValueType):
    """The type of an element and its stamp. What is kept is a pair: the stamp and the element."""

    inner: ValueType

    def __reduce__(self) -> tuple[Any, ...]:
        return stamped, (self.inner,)

    def to_array(self, kept: Sequence[Any]) -> pa.Array:
        stamps = pa.array([None if pair is None else pair[0] for pair in kept], pa.int64())
        values = self.inner.to_array([None if pair is None else pair[1] for pair in kept])
        return join_stamps(stamps, values)

    def from_array(self, column: pa.Array | pa.ChunkedArray) -> list[Any]:
        if isinstance(column, pa.ChunkedArray):
            # Not combined: together they may be more than one array can hold.
            return [kept for chunk in column.chunks for kept in self.from_array(chunk)]
        stamps, values = column.flatten()
        pairs = zip(stamps.to_pylist(), self.inner.from_array(values), strict=True)
        return [None if pair[0] is None else pair for pair in pairs]


def stamped(inner: ValueType) -> StampedType:
    """The type that a state with a time to live is stored as."""
    arrow = pa.struct([(STAMP, pa.int64()), (VALUE, inner.arrow)])
    return StampedType(arrow, f"ttl<{inner.ddl}>", _as_it_is, None, inner)


@lru_cache(maxsize=1024)
def type_named(ddl: str) -> ValueType:
    """The value type of a name that ``ValueType.ddl`` gave."""
    if ddl.startswith("ttl<"):
        return stamped(type_named(ddl[len("ttl<") : -1]))
    return ValueType.of(None if ddl == PICKLED else ddl)


def stored_info(info: StateInfo) -> StateInfo:
    """The state that is stored for a declared one, which has no time to live of its own."""
    if info.ttl is None:
        return info
    return replace(info, value=stamped(info.value), function=None, ttl=None)


def join_stamps(stamps: pa.Array, values: pa.Array) -> pa.Array:
    """A column of stamped elements; null where there is no stamp."""
    fields = [pa.field(STAMP, pa.int64()), pa.field(VALUE, values.type)]
    return pa.StructArray.from_arrays([stamps, values], fields=fields, mask=stamps.is_null())


def _as_it_is(kept: Any) -> Any:
    return kept
