"""Upgrades: from a state as a snapshot holds it to the state as the job declares it now.

The plan is made before a worker starts, from types alone: a state is the same, is converted
(``evolution``), is migrated by a function of the job's author (``migration``), or is refused. The
work is done on columns by the workers as they read, beside their loops; everything that was read
is then stored again, so that no chain ever mixes types.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.errors import RestoreError
from mainstay.schema.transpose import shown
from mainstay.snapshot.manifest import StateSchema
from mainstay.snapshot.statefile import StateTable
from mainstay.state.broadcast import joined, parts
from mainstay.state.elements import Elements, Mask, not_expired
from mainstay.state.evolution import Comparison, compare, compare_keys, convert
from mainstay.state.info import StateInfo
from mainstay.state.kinds import BROADCAST_MAP, kind_named
from mainstay.state.migration import migration_failed
from mainstay.state.stored_key import NAMESPACE
from mainstay.state.ttl import join_stamps, type_named
from mainstay.state.values import PICKLED, ValueType


def schema_of(info: StateInfo) -> StateSchema:
    """How a manifest describes a declared state."""
    return StateSchema(
        info.name,
        info.kind.name,
        info.value.ddl,
        info.map_key.ddl if info.map_key is not None else None,
        info.redistribute,
        info.ttl.lifetime_us if info.ttl is not None else None,
        info.namespace.ddl if info.namespace is not None else None,
    )


@dataclass(frozen=True, slots=True)
class StateUpgrade:
    """What becomes of one stored state. ``changes`` are for people; nothing is done without."""

    name: str
    """With its operator."""
    stored: StateSchema
    info: StateInfo
    changes: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    is_migrated: bool = False

    @property
    def is_needed(self) -> bool:
        return bool(self.changes or self.dropped)

    def line(self, name: str) -> str:
        """A line of the restore's report."""
        if not self.is_needed:
            return f"matched state {name!r}: {described(self.stored)}"
        lost = [f"dropped field {path}" for path in self.dropped]
        word = "migrated" if self.is_migrated else "converted"
        return f"{word} state {name!r}: {', '.join([*self.changes, *lost])}"

    # ------------------------------------------------------------ columns

    def rows(self, rows: StateTable, now_us: int) -> StateTable:
        """Stored rows as the declared state holds them."""
        if not self.is_needed:
            return rows
        elements = Elements.of(rows, kind_named(self.stored.kind).stored_as)
        flat, keep = elements.flat, elements.everything()
        stamps = pa.array(np.full(len(flat), now_us, np.int64))
        if self.stored.ttl_us is not None:
            keep &= not_expired(flat, now_us - self.stored.ttl_us)
            stamps, flat = flat.flatten()
        flat, is_there = self.values(flat)
        if self.info.ttl is not None:
            flat = join_stamps(stamps, flat)
        changed = elements.with_values(flat, keep & is_there)
        for name, declared in (("map_key", self.info.map_key), (NAMESPACE, self.info.namespace)):
            if declared is not None:
                changed = _with_column(changed, name, declared)
        return changed

    def values(self, flat: pa.Array) -> tuple[pa.Array, Mask]:
        """Stored values as declared ones, and which of them are kept."""
        if not self.is_migrated:
            return convert(flat, self.info.value.arrow), np.ones(len(flat), np.bool_)
        old = [None if each is None else self._migrated(each) for each in self._thawed(flat)]
        keep = np.array([each is not None for each in old], np.bool_)
        is_null = flat.is_null().to_numpy(zero_copy_only=False)
        return self.info.value.to_array(old), keep | is_null

    def units(self, units: pa.Array) -> pa.Array:
        """Stored units of operator state as the declared state holds them."""
        if self.info.kind != BROADCAST_MAP:
            values, keep = self.values(units)
            return values.filter(pa.array(keep))
        assert self.info.map_key is not None
        keys, stored = parts(units)
        values, keep = self.values(stored)
        return joined(convert(keys, self.info.map_key.arrow), values).filter(pa.array(keep))

    def _thawed(self, flat: pa.Array) -> list[Any]:
        stored = type_named(self.stored.value_type)
        thaw = stored.thaw
        kept = stored.from_array(flat)
        return kept if thaw is None else [None if each is None else thaw(each) for each in kept]

    def _migrated(self, old: Any) -> Any:
        assert self.info.migrate is not None
        try:
            new = self.info.migrate.function(old)
            return None if new is None else self.info.value.freeze(new)
        except BaseException as error:
            raise migration_failed(f"state {self.name!r}", shown(old), error) from error


def _with_column(rows: StateTable, name: str, declared: ValueType) -> StateTable:
    """The rows with a column in its declared type."""
    column = convert(rows.table.column(name).combine_chunks(), declared.arrow)
    place = rows.table.column_names.index(name)
    return replace(rows, table=rows.table.set_column(place, name, column))


def plan_state(
    name: str, stored: StateSchema, info: StateInfo, allowed: Container[str] = ()
) -> StateUpgrade:
    """What becomes of a stored state; raises a ``RestoreError`` where it cannot become this one."""
    declared = schema_of(info)
    if stored == declared:
        return StateUpgrade(name, stored, info)
    if not _may_become(stored, info):
        raise _misfit(name, stored, declared)
    if (stored.namespace is None) != (info.namespace is None):
        raise _other_namespace(name, stored, declared)
    values, is_migrated = _compare_values(stored, info)
    map_keys = _compare_keys(stored.map_key_type, info.map_key)
    namespaces = _compare_keys(stored.namespace, info.namespace)
    by_key = map_keys.problem or namespaces.problem
    problem = by_key or values.problem
    if info.kind.has_fixed_type and stored.value_type != declared.value_type:
        raise _other_aggregation(name, stored, declared)
    if problem is not None:
        raise _misfit(name, stored, declared, problem, is_by_value=by_key is None)
    dropped = values.dropped
    missing = [f"{name}.{path}" for path in dropped if f"{name}.{path}" not in allowed]
    if missing and not info.may_lose_fields:
        raise RestoreError(
            f"state {name!r} is declared without fields that its stored values have: it was "
            f"stored as {described(stored)} and is now declared as {described(declared)}. Declare "
            f"them again, or drop them for good with allow_dropped={missing!r}."
        )
    changes = (
        *values.changes,
        *(f"map key: {each}" for each in map_keys.changes),
        *(f"namespace: {each}" for each in namespaces.changes),
        *_other_changes(stored, declared),
    )
    return StateUpgrade(name, stored, info, changes, dropped, is_migrated)


def _may_become(stored: StateSchema, info: StateInfo) -> bool:
    same_units = stored.redistribute == info.redistribute
    return same_units and kind_named(stored.kind).may_become(info.kind)


def _compare_values(stored: StateSchema, info: StateInfo) -> tuple[Comparison, bool]:
    """How values become declared ones, and whether by the function of the job's author."""
    if stored.value_type == info.value.ddl:
        return Comparison(), False
    found = _compare_named(stored.value_type, info.value)
    is_convertible = found.problem is None
    migrate = info.migrate
    if migrate is not None and migrate.is_for(stored.value_type, is_convertible=is_convertible):
        return Comparison(changes=(f"{stored.value_type} to {info.value.ddl}",)), True
    return found, False


def _compare_keys(stored: str | None, declared: ValueType | None) -> Comparison:
    """How map keys or namespaces become declared ones, where there are any."""
    if declared is None or stored is None or stored == declared.ddl:
        return Comparison()
    return _compare_named(stored, declared, are_keys=True)


def _compare_named(stored: str, declared: ValueType, *, are_keys: bool = False) -> Comparison:
    if PICKLED in (stored, declared.ddl):
        return Comparison(f"{stored} to {declared.ddl}, and what is pickled has no type")
    compared = compare_keys if are_keys else compare
    return compared(type_named(stored).arrow, declared.arrow)


def _other_changes(stored: StateSchema, declared: StateSchema) -> tuple[str, ...]:
    changes = []
    if stored.kind != declared.kind:
        changes.append(f"{stored.kind} to {declared.kind}")
    if stored.ttl_us != declared.ttl_us:
        changes.append(f"ttl {_lifetime(stored.ttl_us)} to {_lifetime(declared.ttl_us)}")
    return tuple(changes)


def _lifetime(ttl_us: int | None) -> str:
    return "none" if ttl_us is None else f"{ttl_us / 1_000_000:g} s"


def described(state: StateSchema) -> str:
    """A state as messages describe it: its kind and its types."""
    types = state.value_type
    if state.map_key_type is not None:
        types = f"{state.map_key_type} to {state.value_type}"
    how = f" ({state.redistribute})" if state.redistribute is not None else ""
    ttl = f" with ttl {_lifetime(state.ttl_us)}" if state.ttl_us is not None else ""
    namespace = f" by namespace {state.namespace}" if state.namespace is not None else ""
    return f"{state.kind} of {types}{namespace}{how}{ttl}"


def _other_aggregation(name: str, stored: StateSchema, declared: StateSchema) -> RestoreError:
    uid = name.rpartition(".")[0]
    return RestoreError(
        f"operator {uid!r} had accumulated {stored.value_type} and would now accumulate "
        f"{declared.value_type}: what an aggregation has not seen cannot be made up. Aggregate as "
        "before, or give it another uid to start empty."
    )


def _other_namespace(name: str, stored: StateSchema, declared: StateSchema) -> RestoreError:
    what = "has none" if declared.namespace is None else "has one"
    return RestoreError(
        f"state {name!r} was stored as {described(stored)} and is now declared as "
        f"{described(declared)}: what was kept for a key alone and what was kept for a key and a "
        f"namespace cannot take each other's place, and it now {what}. Declare it as before, or "
        "give it another name to start empty."
    )


def _misfit(
    name: str,
    stored: StateSchema,
    declared: StateSchema,
    problem: str | None = None,
    *,
    is_by_value: bool = False,
) -> RestoreError:
    why = "" if problem is None else f" ({problem})"
    way = " convert its values with migrate=<a function of the old value>," if is_by_value else ""
    return RestoreError(
        f"state {name!r} was stored as {described(stored)} and is now declared as "
        f"{described(declared)}{why}. Declare it as before,{way} or give it another name to start "
        "empty."
    )
