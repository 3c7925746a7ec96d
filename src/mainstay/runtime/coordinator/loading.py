"""Loading: which epoch an attempt starts from, and its manifest."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from mainstay.errors import DamagedFileError, HistoryExistsError, RestoreError
from mainstay.runtime.coordinator.origin import load_origin, place_of
from mainstay.runtime.options import RestoreOptions
from mainstay.runtime.ports import Open
from mainstay.snapshot.checked import read_manifest
from mainstay.snapshot.commitlog import read_history
from mainstay.snapshot.history import EpochCommitted, History
from mainstay.snapshot.kept import kept_epochs, no_such_epoch
from mainstay.snapshot.manifest import Manifest
from mainstay.snapshot.storage import Storage
from mainstay.snapshot.units import with_units
from mainstay.spelling import counted


@dataclass(frozen=True, slots=True)
class Loaded:
    """The log, the epoch that was chosen from it, and its manifest or what is wrong with it.

    With an ``origin`` there is no such epoch: the manifest is that of the origin.
    """

    history: History
    chosen: EpochCommitted | None = None
    manifest: Manifest | None = None
    damage: RestoreError | None = None
    origin: str | None = None

    @property
    def is_finished(self) -> bool:
        """Whether what was chosen is the end of a finished job."""
        return self.history.finished and self.chosen == self.history.latest_epoch


def load(
    storage: Storage,
    choose: Callable[[History], EpochCommitted | None],
    origin: str | None,
    open_place: Open,
) -> Loaded:
    """Read the log and the manifest of the chosen epoch. Runs in the background.

    Where there is no epoch, what counts is the origin that the log or else the user names.
    """
    history = read_history(storage)
    chosen = choose(history)
    if chosen is None:
        start = origin if history.last_begin is None else history.origin
        if start is None:
            return Loaded(history)
        place, _ = place_of(start)
        return Loaded(history, manifest=load_origin(open_place(place), start), origin=start)
    try:
        manifest = with_units(storage, read_manifest(storage, chosen.manifest))
        return Loaded(history, chosen, manifest)
    except DamagedFileError as damage:
        # An epoch that was retired is not damaged. The latest never is.
        if chosen != history.latest_epoch and chosen.epoch not in kept_epochs(storage, history):
            return Loaded(history, chosen, damage=no_such_epoch(storage, history, chosen.epoch))
        return Loaded(history, chosen, damage=damage)


def choose_first(
    history: History, options: RestoreOptions, damaged: Collection[int], storage: Storage
) -> EpochCommitted | None:
    """What the first attempt of a leader starts from; None to start fresh.

    ``storage`` is asked only to say which epochs there are.
    """
    start = options.start
    if history.last_begin is None:
        if start in ("new", "latest-or-new"):
            return None
        raise RestoreError(
            f"restore={start!r} was asked for, but the snapshot directory has no history. Use "
            'restore="latest-or-new" to start fresh where there is none.'
        )
    if start == "new" and options.origin is not None:
        raise HistoryExistsError(
            f"restore={options.origin!r} starts a new history, but the snapshot directory holds "
            f'that of job {history.last_begin.job!r}. Go on from it with restore="latest", or '
            "choose another directory for the job that starts from there."
        )
    if start == "new":
        raise HistoryExistsError(
            f"the snapshot directory holds the history of job {history.last_begin.job!r} "
            f'({counted(history.completed, "epoch")}). Go on from it with restore="latest", or '
            "choose another directory."
        )
    if isinstance(start, int):
        if history.epoch(start) is None:
            raise no_such_epoch(storage, history, start)
        return _newest(history.lineage_epochs(start), damaged)
    return choose_latest(history, damaged)


def choose_latest(history: History, damaged: Collection[int]) -> EpochCommitted | None:
    """The latest epoch that is not known to be damaged; None where there is no epoch at all."""
    return _newest(history.lineage_epochs(), damaged)


def _newest(lineage: tuple[EpochCommitted, ...], damaged: Collection[int]) -> EpochCommitted | None:
    for record in reversed(lineage):
        if record.epoch not in damaged:
            return record
    if lineage:
        raise RestoreError(
            f"all epochs of the history are damaged: {[record.epoch for record in lineage]}. "
            "Bring their files back, or start fresh in another directory."
        )
    return None
