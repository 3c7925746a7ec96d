"""Units of operator state in files of their own: a manifest is a small document."""

from __future__ import annotations

from dataclasses import replace

from mainstay.snapshot.checked import read_checked, reference
from mainstay.snapshot.manifest import Manifest, OperatorState, OperatorUnits, SubtaskState
from mainstay.snapshot.storage import Storage

MOST_IN_MANIFEST = 1 << 16
"""Bytes of units that a manifest holds itself, for each state of a subtask."""


def is_large(units: OperatorUnits) -> bool:
    return units.file is None and len(units.data) > MOST_IN_MANIFEST


def store_units(storage: Storage, path: str, units: OperatorUnits) -> OperatorUnits:
    """Write units to a file; what is returned names it and no longer holds them."""
    storage.write(path, units.data)
    return replace(units, data=b"", file=reference(path, units.data))


def load_units(storage: Storage, units: OperatorUnits) -> OperatorUnits:
    """The units with their data, wherever that is."""
    if units.file is None or units.data:
        return units
    return replace(units, data=read_checked(storage, units.file))


def with_units(storage: Storage, manifest: Manifest) -> Manifest:
    """A manifest with the data of all units, to restore from it."""
    operators = {uid: _loaded(storage, state) for uid, state in manifest.operators.items()}
    return replace(manifest, operators=operators)


def _loaded(storage: Storage, stored: OperatorState) -> OperatorState:
    return replace(stored, subtasks=tuple(_loaded_subtask(storage, t) for t in stored.subtasks))


def _loaded_subtask(storage: Storage, subtask: SubtaskState) -> SubtaskState:
    units = {name: load_units(storage, each) for name, each in subtask.units.items()}
    return replace(subtask, units=units)
