"""Starting: what the next attempt of a job starts from, as the log, the user and the state have it.

The log and a manifest are read in the background, and what follows from them is said as one of six
decisions. Until a leader has begun an attempt, what counts is what the user asked for; from then on
it is the latest epoch. A leader that succeeds another one goes on from the latest epoch as well,
and from what the job has come to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from mainstay.errors import DamagedFileError, EpochGoneError, GraphError, RestoreError
from mainstay.runtime.coordinator.loading import Loaded, choose_first, choose_latest, load
from mainstay.runtime.coordinator.news import News, look_for_news
from mainstay.runtime.coordinator.origin import place_of, without_handles
from mainstay.runtime.coordinator.recovery import RestorePlan, plan_restore
from mainstay.runtime.coordinator.succession import Succession
from mainstay.runtime.options import JobOptions
from mainstay.runtime.ports import Ports
from mainstay.runtime.spec import JobSpec
from mainstay.snapshot.history import Begin, Ended, EpochCommitted, History
from mainstay.snapshot.manifest import Manifest
from mainstay.snapshot.since import NOTHING_YET, Since
from mainstay.state.keygroups import HASH_ID


@dataclass(frozen=True, slots=True)
class Start:
    """The job can start: from a manifest, which is that of an origin if there is one, or fresh.

    ``job`` is the job at the parallelism that it goes on with.
    """

    history: History
    manifest: Manifest | None
    origin: str | None
    plan: RestorePlan
    job: JobSpec

    @property
    def since(self) -> Since:
        """The epoch of its own that the job goes on from."""
        if self.manifest is None or self.origin is not None:
            return NOTHING_YET
        return Since(self.manifest.epoch, self.manifest.attempt)

    def begin(self, leader: str, options: JobOptions, used: int, at: float) -> Begin:
        """What an attempt that starts from this says in the log; ``used`` epochs are not free."""
        history, manifest = self.history, self.manifest
        if self.origin is not None and manifest is not None:
            # Sinks take a number that is not above one they have confirmed for done.
            used = max(used, manifest.epoch + 1)
        is_own = manifest is not None and self.origin is None
        return Begin(
            attempt=history.next_attempt,
            leader=leader,
            restored_from=manifest.epoch if manifest is not None and is_own else None,
            lineage=_lineage(history, leader, options),
            job=options.name,
            max_parallelism=self.job.max_parallelism,
            hash_id=HASH_ID,
            # Numbers that were triggered are not used again, even if nothing came of them.
            next_epoch=max(history.next_epoch, used),
            origin=self.origin,
            begun_at=at,
        )

    def is_planned_since(self, attempt: int) -> bool:
        """Whether the bounded sources in the manifest were planned by an attempt or a later one.

        Their input is what they have when the job is started: what an attempt of this leader has
        planned is not planned again, what an earlier start has planned is.
        """
        if self.manifest is None or self.origin is not None:
            return False
        return self.manifest.attempt >= attempt


@dataclass(frozen=True, slots=True)
class NothingNew:
    """The job had finished, and its sources have nothing that it has not read."""

    news: News


@dataclass(frozen=True, slots=True)
class Over:
    """The job has come to its end under the leader before this one."""

    ended: Ended


@dataclass(frozen=True, slots=True)
class Refused:
    """No restart heals this. ``has_vanished``: there is no log any more to note it in."""

    error: Exception
    has_vanished: bool = False


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Something could not be read, this time."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Replaced:
    """Another leader has begun an attempt; ``slot`` is the last of the log."""

    slot: int


Decision: TypeAlias = "Start | NothingNew | Over | Refused | Unreadable | Replaced"


class Starting:
    """Finds out what to start from. Remembers which epochs are damaged."""

    def __init__(
        self, ports: Ports, decided: Callable[[Decision], None], succession: Succession
    ) -> None:
        self._ports = ports
        self._decided = decided
        self._succession = succession
        self._damaged: set[int] = set()
        self._job: JobSpec
        self._options: JobOptions
        self._leader: str | None = None

    def look(self, job: JobSpec, options: JobOptions, leader: str | None) -> None:
        """Read the log; ``leader`` is this one's token, once it has begun an attempt."""
        self._job, self._options, self._leader = job, options, leader
        self._load()

    def last_epoch(self, history: History) -> int | None:
        """The epoch that the job would go on from; None where there is none."""
        lineage = reversed(history.lineage_epochs())
        return next((each.epoch for each in lineage if each.epoch not in self._damaged), None)

    def falls_back(self, error: Exception, restored_from: int | None) -> bool:
        """Whether an attempt that met a damaged file is followed by one from an older epoch."""
        if not isinstance(error, DamagedFileError) or restored_from is None:
            return False
        if self._options.restore.fall_back:
            self._damaged.add(restored_from)
        return self._options.restore.fall_back

    # ------------------------------------------------------------ reading

    def _load(self) -> None:
        storage, damaged = self._ports.storage, frozenset(self._damaged)
        restore, open_place = self._options.restore, self._ports.open
        has_begun, succession = self._leader is not None, self._succession

        def choose(history: History) -> EpochCommitted | None:
            if has_begun or succession.succeeds(history):
                return choose_latest(history, damaged)
            return choose_first(history, restore, damaged, storage)

        self._ports.background.submit(
            lambda: load(storage, choose, restore.origin, open_place),
            self._on_loaded,
            lambda error: self._decided(Unreadable(error)),
        )

    def _on_loaded(self, loaded: Loaded) -> None:
        begun, name = loaded.history.last_begin, self._options.name
        ended = self._succession.end(loaded.history)
        if self._leader is not None and begun is None:
            # Starting from nothing would count everything again: a disk may just be unmounted.
            self._decided(Refused(_vanished(name), has_vanished=True))
        elif self._leader is not None and begun is not None and begun.leader != self._leader:
            # Restarting now would take the job away from the leader that replaced this one.
            self._decided(Replaced(loaded.history.next_slot - 1))
        elif begun is not None and begun.job != name:
            self._decided(Refused(_other_job(begun.job, name)))
        elif ended is not None and self._leader is None:
            self._decided(Over(ended))
        elif loaded.damage is not None:
            self._skip_damaged(loaded)
        elif loaded.is_finished and self._leader is None:
            self._look_for_news(loaded)
        else:
            self._start(loaded.history, loaded.manifest, loaded.origin)

    def _skip_damaged(self, loaded: Loaded) -> None:
        """The manifest is damaged: go back one epoch where that was asked for.

        An epoch that was asked for by its number and is not kept any more is no damage.
        """
        assert loaded.damage is not None
        assert loaded.chosen is not None
        is_gone = isinstance(loaded.damage, EpochGoneError) and not self._damaged
        if is_gone or not self._options.restore.fall_back:
            self._decided(Refused(loaded.damage))
            return
        self._damaged.add(loaded.chosen.epoch)
        self._load()

    def _look_for_news(self, loaded: Loaded) -> None:
        """The job had finished: it goes on if there is new input, and says so if there is none."""
        manifest = loaded.manifest
        assert manifest is not None
        try:
            self._restore_plan(manifest, None)
        except (RestoreError, GraphError) as error:
            self._decided(Refused(error))
            return
        storage, job = self._ports.storage, self._job

        def done(news: News) -> None:
            if news.sources:
                # Every sink has confirmed the end of a finished job: nothing is left to commit.
                self._start(loaded.history, without_handles(manifest), None, news.report)
            else:
                self._decided(NothingNew(news))

        def failed(error: Exception) -> None:
            if isinstance(error, DamagedFileError):
                self._skip_damaged(replace(loaded, damage=error))
            else:
                self._decided(Unreadable(error))

        self._ports.background.submit(lambda: look_for_news(storage, job, manifest), done, failed)

    # ------------------------------------------------------------ deciding

    def _start(
        self,
        history: History,
        manifest: Manifest | None,
        origin: str | None,
        news: tuple[str, ...] = (),
    ) -> None:
        if self._leader is None:
            self._job = self._succession.plan(self._job, history, manifest)
        try:
            plan = self._restore_plan(manifest, origin)
        except (RestoreError, GraphError) as error:
            self._decided(Refused(error))
            return
        plan = replace(plan, report=(*plan.report, *news))
        self._decided(Start(history, manifest, origin, plan, self._job))

    def _restore_plan(self, manifest: Manifest | None, origin: str | None) -> RestorePlan:
        if manifest is None:
            return RestorePlan({}, ())
        place = None if origin is None else place_of(origin)[0]
        allowed = self._options.restore.allow_dropped
        return plan_restore(manifest, self._job, allowed, origin=place)


def _lineage(history: History, leader: str, options: JobOptions) -> str:
    """The name by which sinks know the job: each new history is another one.

    Its attempts and epochs are counted from one again, so that a sink which went by the job's
    name alone would take new rows for rows it has had.
    """
    if history.last_begin is not None:
        return history.last_begin.lineage
    return f"{options.lineage}-{leader[:12]}"


def check_same_job(history: History, name: str) -> None:
    """Refuse the directory of another job."""
    if history.last_begin is not None and history.last_begin.job != name:
        raise _other_job(history.last_begin.job, name)


def _other_job(found: str, asked: str) -> RestoreError:
    return RestoreError(
        f"the snapshot directory holds the history of job {found!r}, and this job is {asked!r}. "
        f"Go on with it under its name, start({found!r}); or give this job a directory of its own, "
        "and start it from the other's state with restore= and the path of this directory."
    )


def _vanished(name: str) -> RestoreError:
    return RestoreError(
        f"the history of job {name!r} has vanished from the snapshot "
        'directory. Bring the directory back and start with restore="latest".'
    )
