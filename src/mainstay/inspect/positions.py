"""How far the sources of a job had been read at an epoch, and whether that is far enough.

A program that has written to a source and wants to read the effect says up to where it has
written: then the answer is that of an epoch that has all of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from mainstay.errors import GraphError
from mainstay.runtime.coordinator.splits import SeenIds, unfinished_splits
from mainstay.runtime.own_states import SPLITS
from mainstay.snapshot.manifest import Manifest
from mainstay.spelling import did_you_mean

After: TypeAlias = "int | Mapping[str, int | Mapping[str, int]]"
"""An epoch by its number; or for sources by uid, the offset of each split by its id, or one for a
source that has one split."""
Positions = dict[str, dict[str, Any]]


def positions_of(manifest: Manifest) -> Positions:
    """For each source where its splits stand: those that were begun and have not come to an end.

    Rows that were emitted since a reader's last offset count where offsets are numbers.
    """
    found: Positions = {uid: {} for uid in manifest.sources}
    for uid, operator in manifest.operators.items():
        for part in operator.subtasks:
            units = part.units.get(SPLITS.name)
            if units is None or (units.file is not None and not units.data):
                continue
            for unit in unfinished_splits(part):
                found.setdefault(uid, {})[str(unit["id"])] = _at(unit["offset"], unit["skip"])
    return found


def _at(offset: Any, skip: Any) -> Any:
    is_number = isinstance(offset, int) and not isinstance(offset, bool)
    return offset + (skip or 0) if is_number else offset


def covers(manifest: Manifest, after: After) -> bool:
    """Whether an epoch has everything up to there."""
    if isinstance(after, int):
        return manifest.epoch >= after
    positions = positions_of(manifest)
    return all(
        _is_reached(manifest, positions, uid, split, offset)
        for uid, wanted in after.items()
        for split, offset in _splits(manifest, positions, uid, wanted).items()
    )


def _splits(
    manifest: Manifest, positions: Positions, uid: str, wanted: int | Mapping[str, int]
) -> Mapping[str, int]:
    if uid not in positions:
        known = sorted(positions)
        raise GraphError(
            f"after= names the source {uid!r}; the job has {', '.join(known) or 'none'}."
            f"{did_you_mean(uid, known)}"
        )
    if isinstance(wanted, Mapping):
        return wanted
    splits = positions[uid]
    if len(splits) > 1:
        raise GraphError(
            f"after= gives one offset for the source {uid!r}, which has several splits. Give one "
            f"for each, as {{{uid!r}: {{{next(iter(splits))!r}: {wanted}}}}}."
        )
    if not splits and SeenIds(manifest.sources[uid]).ids:
        return {}  # all that it has had is read
    return dict.fromkeys(splits or [""], wanted)


def _is_reached(
    manifest: Manifest, positions: Positions, uid: str, split: str, offset: int
) -> bool:
    if split not in positions[uid]:
        # Read to its end, or not planned yet.
        return split in SeenIds(manifest.sources[uid]).ids
    at = positions[uid][split]
    if at is None:
        return offset <= 0  # nothing of it was read
    if not isinstance(at, int):
        raise GraphError(
            f"after= cannot wait for the source {uid!r}: its offsets are no numbers ({at!r}). Wait "
            "for an epoch by its number."
        )
    return at >= offset
