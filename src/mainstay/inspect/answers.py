"""What a query is answered with: rows, and of which moment they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Literal

import pyarrow as pa

from mainstay.errors import GraphError
from mainstay.inspect.columns import MAP_KEY, StateColumns
from mainstay.schema.transpose import shown
from mainstay.spelling import counted
from mainstay.state.stored_key import NAMESPACE


@dataclass(frozen=True, slots=True)
class Moment:
    """Which moment of a job an answer tells of.

    A ``committed`` one is that of a complete epoch, and ``position`` says how far each split of
    each source had been read by then, for splits that were under way. A ``live`` one is later than
    the epoch, which is the last complete one, and belongs to an attempt that may still be taken
    back.
    """

    job: str
    epoch: int
    attempt: int
    committed_at: datetime
    position: Mapping[str, Any] = field(repr=False)
    level: Literal["live", "committed"] = "committed"


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """Rows of one state at one moment.

    ``table`` has the columns that ``read_state`` shows. ``age_s`` is how long ago the moment was,
    and ``took_s`` what the answer took.
    """

    columns: StateColumns
    table: pa.Table
    moment: Moment
    age_s: float
    took_s: float

    @property
    def epoch(self) -> int:
        return self.moment.epoch

    def rows(self) -> list[dict[str, Any]]:
        """The rows as dictionaries."""
        found: list[dict[str, Any]] = self.table.to_pylist()
        return found

    @property
    def value(self) -> Any:
        """What is kept for the one key that was asked for; None where nothing is.

        Of a map, its entries as a dictionary; broadcast state is one map, without a key.
        """
        if self.columns.is_broadcast:
            names, kept = (self._column(field.name) for field in self.columns.fields())
            return dict(zip(map(_hashable, names), kept, strict=True))
        values = self.values()
        if len(values) > 1:
            raise GraphError(
                f"the answer has the values of {counted(len(values), 'key')}. Use values(), which "
                "gives them by key, or table."
            )
        return next(iter(values.values()), None)

    def values(self) -> dict[Any, Any]:
        """What is kept, by key: of several columns as tuples, and with the namespace at its end."""
        if not self.columns.is_keyed:
            raise GraphError(f"{self.columns.label} has no key. Use rows() or table.")
        keys = self._keys()
        kept = self._column(-3 if self.columns.has_ttl else -2)
        if self.columns.stored_as != "map":
            return dict(zip(keys, kept, strict=True))
        entries: dict[Any, dict[Any, Any]] = {}
        for key, name, value in zip(keys, self._column(MAP_KEY), kept, strict=True):
            entries.setdefault(key, {})[_hashable(name)] = value
        return entries

    def _keys(self) -> list[Any]:
        names = self.columns.key_columns()
        if self.columns.has_namespace:
            names = [*names, NAMESPACE]
        columns = [list(map(_hashable, self._column(name))) for name in names]
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))

    def _column(self, name: str | int) -> list[Any]:
        values: list[Any] = self.table.column(
            name if isinstance(name, str) else self.table.num_columns + name
        ).to_pylist()
        return values

    def __repr__(self) -> str:
        of = f"{self.columns.operator}.{self.columns.schema.name}"
        what = counted(self.table.num_rows, "row")
        if self.columns.is_keyed and self.table.num_rows == 1 and self.columns.stored_as != "map":
            what = shown(self.value)
        if self.moment.level == "live":
            return f"<{of}, live after epoch {self.epoch}: {what}>"
        return f"<{of} at epoch {self.epoch}, {self.age_s:.1f} s ago: {what}>"


def _hashable(value: Any) -> Any:
    """A value as it can be the key of a dictionary."""
    if isinstance(value, dict):
        return tuple(map(_hashable, value.values()))
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


def in_utc(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, timezone.utc)
