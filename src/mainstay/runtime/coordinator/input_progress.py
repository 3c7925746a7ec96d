"""Whether a job has got further: an epoch counts as progress when its sources have moved.

A job that is restarted completes empty epochs before it meets the row that it failed at. They say
nothing about whether it works now.
"""

from __future__ import annotations

from mainstay.runtime.coordinator.splits import unfinished_splits
from mainstay.runtime.own_states import SPLITS
from mainstay.snapshot.manifest import Manifest, SubtaskState

Positions = dict[tuple[str, str], tuple[object, object]]


def has_moved(since: Manifest | None, manifest: Manifest) -> bool:
    """Whether sources have read anything between two epochs; ``since`` is None for the beginning.

    Where that cannot be seen, because there are too many splits to be in the manifest, they have.
    """
    before = {} if since is None else _positions(since)
    now = _positions(manifest)
    return before is None or now is None or before != now


def _positions(manifest: Manifest) -> Positions | None:
    """Where each split stands that was begun and has not come to its end; None if unknown."""
    found: Positions = {}
    is_known = False
    for uid, operator in manifest.operators.items():
        for part in operator.subtasks:
            splits = part.units.get(SPLITS.name)
            if splits is None:
                continue
            if splits.file is not None and not splits.data:
                return None
            is_known = True
            found.update(_of(uid, part))
    return found if is_known else None


def _of(uid: str, part: SubtaskState) -> Positions:
    positions = {
        (uid, str(unit["id"])): (unit["offset"], unit["skip"]) for unit in unfinished_splits(part)
    }
    # That a split was planned is not yet that anything was read of it.
    return {split: at for split, at in positions.items() if at[0] is not None or at[1]}
