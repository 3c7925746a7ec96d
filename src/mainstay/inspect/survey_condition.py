"""The condition of a job, as far as its directory tells.

A leader that ends a job says so in the log: it has finished, was stopped or cancelled, or has
failed for good. A leader that is killed says nothing, and neither does one that runs. So without a
word the job is taken to run while something was stored within three times the longest pause between
its kept epochs, and at least a quarter of an hour; after that it is not known what became of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from mainstay.inspect.survey import Directory

RUNNING = "running"
UNKNOWN = "unknown"
SHORTEST_QUIET_S = 900.0
PAUSES = 3


@dataclass(frozen=True, slots=True)
class Condition:
    """``state`` is finished, stopped, failed, cancelled, running or unknown.

    ``at`` is when the job came to its end, ``reason`` why it failed or, of one that runs or of
    which nothing is known, what speaks for that.
    """

    state: str
    at: float | None = None
    reason: str = ""

    @property
    def may_be_running(self) -> str | None:
        """Why the job is taken to be running; None when it is not."""
        return self.reason if self.state == RUNNING else None


def condition_of(directory: Directory, now: float) -> Condition:
    """What has become of the job."""
    ended = directory.history.ended
    if ended is not None:
        at = directory.stored_at(directory.history.next_slot - 1) if ended.at is None else ended.at
        return Condition(ended.how, at, ended.reason)
    newest = max(directory.files.values(), key=lambda file: file.modified_at)
    age_s, quiet_s = max(now - newest.modified_at, 0.0), _quiet_s(directory)
    if age_s >= quiet_s:
        return Condition(
            UNKNOWN,
            reason=f"its last leader has not said how it ended, and nothing was stored for "
            f"{age_s:.0f} s: it was killed, or cannot store anything",
        )
    return Condition(
        RUNNING,
        reason=f"job {directory.begin.job!r} has not said that it has ended and may be running: "
        f"{newest.path} was stored {age_s:.0f} s ago. It is taken to be over after {quiet_s:.0f} s "
        f"without anything new",
    )


def _quiet_s(directory: Directory) -> float:
    manifests = [epoch.manifest for epoch in directory.epochs if epoch.on_lineage]
    times = [manifest.created_at for manifest in manifests if manifest is not None]
    longest = max((after - before for before, after in pairwise(times)), default=0.0)
    return max(SHORTEST_QUIET_S, PAUSES * longest)
