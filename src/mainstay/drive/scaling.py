"""Scaling: how a running job is planned again at another parallelism, and what is checked first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mainstay.errors import GraphError
from mainstay.runtime.spec import JobSpec


@dataclass(frozen=True, slots=True)
class Scaling:
    """A job's parallelism, and its plan at another.

    ``least`` is what it may be run at where there is too little room; None: at nothing else.

    ``check`` is given a plan and the number of workers that run now, and raises what speaks against
    it, such as too few slots.
    """

    parallelism: int
    plan: Callable[[int], JobSpec]
    check: Callable[[JobSpec, int], None] = lambda spec, workers: None
    least: int | None = None

    def least_workers(self, spec: JobSpec) -> int:
        """How many workers a job needs, which has this plan if there is room for it."""
        return spec.workers if self.least is None else self.plan(self.least).workers

    @staticmethod
    def fixed(spec: JobSpec) -> Scaling:
        """For a job of which nothing but its plan is known."""

        def refuse(parallelism: int) -> JobSpec:
            raise GraphError(
                f"rescale({parallelism}): this job was started from a plan, without its program. "
                "Start it with Environment.start()."
            )

        return Scaling(spec.workers, refuse)
