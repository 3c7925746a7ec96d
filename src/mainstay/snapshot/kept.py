"""Which epochs of a job are kept, and what is said of one that is not.

The commit log knows epochs that retention has deleted since, so what it lists is not what is there.
"""

from __future__ import annotations

from mainstay.errors import EpochGoneError, RestoreError
from mainstay.snapshot.history import History
from mainstay.snapshot.layout import MANIFEST_PREFIX
from mainstay.snapshot.storage import Storage


def kept_epochs(storage: Storage, history: History) -> list[int]:
    """The epochs whose manifests are stored: retention deletes those first."""
    found = set(storage.list(MANIFEST_PREFIX))
    return [record.epoch for record in history.epochs if record.manifest.path in found]


def no_such_epoch(
    storage: Storage, history: History, number: int | None, where: str = ""
) -> RestoreError:
    """Why an epoch cannot be had, which ones can, and how to have it next time.

    ``where`` names the place, as in ``" at './snapshots'"``.
    """
    if number is None or not history.completed:
        return RestoreError(f"there is no epoch{where}: none is complete yet.")
    kept = kept_epochs(storage, history)
    there = f"kept {'is' if len(kept) == 1 else 'are'} {', '.join(map(str, kept)) or 'none'}"
    is_between = history.epoch(number) is None and any(number > each for each in kept)
    if number >= history.next_epoch or is_between:
        return RestoreError(f"there is no epoch {number}{where}; {there}.")
    return EpochGoneError(
        f"epoch {number}{where} is not kept any more; {there}. Take one of these or the latest. "
        "To keep epochs longer, give the job Snapshots(retain=...) with a larger number, or take a "
        "savepoint, which stays until you delete it."
    )
