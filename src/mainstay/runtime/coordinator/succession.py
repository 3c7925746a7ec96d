"""Succession: what a leader takes over from those that led the job before it.

A process that joins a job notes how far the commit log goes. Whatever is in it from there on was
done by others, while this process stood by: where the job stands, at which parallelism it runs, and
whether it has come to its end. Those count for it, and not what it was started with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mainstay.errors import GraphError
from mainstay.runtime.spec import JobSpec
from mainstay.snapshot.history import Ended, History
from mainstay.snapshot.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Succession:
    """``joined`` is the slot that was free when this process joined; None if it is the only one.

    ``plan_at`` gives the job at another parallelism.
    """

    joined: int | None = None
    plan_at: Callable[[int], JobSpec] | None = None

    @property
    def is_shared(self) -> bool:
        """Whether other processes may lead the job as well."""
        return self.joined is not None

    def succeeds(self, history: History) -> bool:
        """Whether another process has led the job since this one joined."""
        has_moved = self.joined is not None and history.next_slot > self.joined
        return has_moved and history.last_begin is not None

    def end(self, history: History) -> Ended | None:
        """What the job has come to under another leader; None while it is to go on."""
        return history.ended if self.succeeds(history) else None

    def plan(self, job: JobSpec, history: History, manifest: Manifest | None) -> JobSpec:
        """The job at the parallelism that it had in an epoch of another leader."""
        if manifest is None or self.plan_at is None or not self.succeeds(history):
            return job
        if _fits(job, manifest):
            return job
        for parallelism in sorted({each.parallelism for each in manifest.operators.values()}):
            try:
                other = self.plan_at(parallelism)
            except GraphError:
                continue  # what an operator was given for itself is no parallelism of the job
            if _fits(other, manifest):
                return other
        return job


def _fits(job: JobSpec, manifest: Manifest) -> bool:
    """Whether every operator that both know has the same parallelism in both."""
    stored = manifest.operators
    return all(
        stored[operator.uid].parallelism == task.parallelism
        for task, operator in job.operators()
        if operator.uid in stored
    )
