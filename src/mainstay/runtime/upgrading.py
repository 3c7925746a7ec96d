"""Upgrading: what a worker does to stored rows whose types are not those of the job.

The coordinator has checked that they fit; here the same decisions are made again from what the
manifest said, and carried out on what is read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mainstay.runtime.spec import OperatorSpec
from mainstay.snapshot.manifest import StateSchema
from mainstay.snapshot.statefile import StateTable
from mainstay.state.keygroups import KeyGroupRange
from mainstay.state.rekeying import KeyMigration, convert_keys, plan_keys
from mainstay.state.ttl import type_named
from mainstay.state.upgrade import plan_state


@dataclass(frozen=True, slots=True)
class StoredAs:
    """What an operator's keyed state is in a snapshot, where the job declares it otherwise."""

    key_type: str | None
    states: tuple[StateSchema, ...]


class Upgrader:
    """Turns the rows of one subtask into rows of the declared states. Runs in the background."""

    def __init__(
        self,
        stored: StoredAs,
        spec: OperatorSpec,
        groups: KeyGroupRange,
        max_parallelism: int,
        now_us: int,
    ) -> None:
        declared = {info.name: info for info in spec.states}
        known = [state for state in stored.states if state.name in declared]
        # What may be dropped was checked before any worker started.
        self._states = {
            state.name: plan_state(
                f"{spec.uid}.{state.name}", state, declared[state.name], _Anything()
            )
            for state in known
        }
        how = _plan_keys(stored, spec)
        self._keys = _keys(how, stored, spec, groups, max_parallelism)
        self.moves_keys = how == "migrated"
        """Whether rows come into other key-groups than those they were stored in."""
        self._now_us = now_us

    def rows(self, rows: StateTable) -> StateTable | None:
        """Rows of a declared state; None for those of a state that was dropped."""
        upgrade = self._states.get(rows.name)
        if upgrade is None:
            return None
        return upgrade.rows(self._keys(rows), self._now_us)


class _Anything:
    """A collection that has every name in it."""

    def __contains__(self, name: object) -> bool:
        return True


def _plan_keys(stored: StoredAs, spec: OperatorSpec) -> str:
    assert spec.key is not None
    return plan_keys(spec.uid, stored.key_type, spec.key.type, spec.key.migrate is not None)


def _keys(
    how: str, stored: StoredAs, spec: OperatorSpec, groups: KeyGroupRange, max_parallelism: int
) -> Callable[[StateTable], StateTable]:
    key = spec.key
    assert key is not None
    assert stored.key_type is not None
    if how == "same":
        return lambda rows: rows
    if how == "converted":
        return lambda rows: convert_keys(rows, key.type)
    assert key.migrate is not None
    old = type_named(stored.key_type)
    return KeyMigration(spec.uid, old, key.type, key.migrate, groups, max_parallelism).rows
