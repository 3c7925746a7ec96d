"""Whether a job is well, in words: what is the matter, why, and what would help."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mainstay.runtime.status import RESCALED
from mainstay.serve.bottleneck import Bottleneck
from mainstay.serve.documents import EpochDocument, ProblemDocument, Verdict

LATE_INTERVALS = 3
LEAST_LATE_S = 5.0
"""An epoch is missed after three intervals, and not before some seconds."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What a verdict is made from."""

    status: str
    now: float
    since_at: float | None
    leader: str = ""
    error: str = ""
    attempt_ended: str = ""
    """Why the last attempt has ended, if it has."""
    epoch: int | None = None
    last_epoch_at: float | None = None
    every_s: float | None = None
    rows_in_per_s: float = 0.0
    problems: Sequence[ProblemDocument] = ()
    epochs: Sequence[EpochDocument] = field(default=(), repr=False)
    bottleneck: Bottleneck | None = None
    held: str = ""
    """The workers that do not report, in a sentence."""

    @property
    def silent_s(self) -> float:
        """How long there has been no epoch, counted from when there could have been one."""
        times = [at for at in (self.last_epoch_at, self.since_at) if at is not None]
        return max(0.0, self.now - max(times)) if times else 0.0

    @property
    def is_late(self) -> bool:
        if self.every_s is None:
            return False
        return self.silent_s > max(LATE_INTERVALS * self.every_s, LEAST_LATE_S)

    @property
    def at_epoch(self) -> str:
        return "before its first epoch" if self.epoch is None else f"at epoch {self.epoch}"


def verdict_of(standing: Standing) -> Verdict:
    """The verdict on a job of this process."""
    match standing.status:
        case "finished" | "stopped":
            return _well(f"The job has {_ended(standing.status)} {standing.at_epoch}.")
        case "cancelled":
            return _well(f"The job was cancelled {standing.at_epoch}.", remedy=_again(standing))
        case "failed":
            return _failed(standing)
        case "standby":
            who = f"{standing.leader} leads the job" if standing.leader else "another one may lead"
            return _troubled(standing, f"This process stands by; {who}.")
        case "starting" | "launching":
            return _troubled(standing, "The job is starting.")
        case "restarting":
            return _restarting(standing)
    return _running(standing)


def _ended(status: str) -> str:
    return "finished" if status == "finished" else "been stopped"


def _well(headline: str, because: Sequence[str] = (), remedy: str = "") -> Verdict:
    return Verdict(is_well=True, headline=headline, because=list(because), remedy=remedy)


def _unwell(headline: str, because: Sequence[str] = (), remedy: str = "") -> Verdict:
    return Verdict(is_well=False, headline=headline, because=list(because), remedy=remedy)


def _again(standing: Standing) -> str:
    how = "latest-or-new" if standing.epoch is None else "latest"
    return f"Start it again with restore={how!r}."


def _failed(standing: Standing) -> Verdict:
    because = [standing.error] if standing.error else []
    mend = f"Mend the cause. {_again(standing)}"
    return _unwell(f"The job has failed {standing.at_epoch}.", because, mend)


def _troubled(standing: Standing, headline: str) -> Verdict:
    """Well, unless something is in its way."""
    texts = [each.text for each in standing.problems]
    return _unwell(headline, texts) if texts else _well(headline)


def _restarting(standing: Standing) -> Verdict:
    if standing.attempt_ended == RESCALED:
        return _well(f"The job is being rescaled {standing.at_epoch}.")
    # An epoch that was complete just before the failure has ended the problem, not the restart.
    texts = [each.text for each in standing.problems] or [standing.attempt_ended]
    return _unwell(
        f"The job is restarting {standing.at_epoch}.",
        texts,
        "It goes on by itself, unless it fails too often. The failures say where it happens.",
    )


def _running(standing: Standing) -> Verdict:
    if standing.problems:
        first, *others = [each.text for each in standing.problems]
        because = [standing.held, *others] if standing.held else others
        return _unwell(_sentence(first), because, "It goes on by itself when that is over.")
    if failed := _failing_epochs(standing):
        return failed
    if standing.is_late:
        return _late(standing)
    if standing.held:
        return _unwell(standing.held, (), "It goes on by itself when the call returns.")
    if standing.bottleneck is not None:
        found = standing.bottleneck
        return _well(f"Running, limited by {found.subject}.", found.because, found.remedy)
    return _well(f"Running, {_figures(standing)}.")


def _failing_epochs(standing: Standing) -> Verdict | None:
    """The newest epochs, where they have failed."""
    failed: list[EpochDocument] = []
    for each in reversed([each for each in standing.epochs if each.status != "pending"]):
        if each.status != "failed":
            break
        failed.append(each)
    if not failed:
        return None
    many = "The last epoch has" if len(failed) == 1 else f"The last {len(failed)} epochs have"
    because = list(dict.fromkeys(each.cause for each in failed if each.cause))
    more = "More failures in a row than Snapshots(tolerable_failures=) allows end the attempt."
    return _unwell(f"{many} failed.", because, more)


def _late(standing: Standing) -> Verdict:
    pending = [each for each in standing.epochs if each.status == "pending"]
    because = [standing.held] if standing.held else []
    because += [
        f"Epoch {each.epoch} has been under way for {each.duration_s:.0f} s." for each in pending
    ]
    if standing.bottleneck is not None:
        because.append(f"The job is limited by {standing.bottleneck.subject}.")
        because += standing.bottleneck.because
    headline = (
        f"No epoch has been complete for {standing.silent_s:.0f} s; "
        f"they are taken every {standing.every_s:g} s."
    )
    remedy = standing.bottleneck.remedy if standing.bottleneck else ""
    return _unwell(headline, because, remedy)


def _figures(standing: Standing) -> str:
    rate = f"{standing.rows_in_per_s:,.0f} rows/s"
    if standing.epoch is None or standing.last_epoch_at is None:
        return f"{rate}, {standing.at_epoch}"
    ago = f"{max(0.0, standing.now - standing.last_epoch_at):.0f} s ago"
    return f"{rate}, epoch {standing.epoch} complete {ago}"


def _sentence(text: str) -> str:
    begun = text[:1].upper() + text[1:]
    return begun if begun.endswith(".") else f"{begun}."
