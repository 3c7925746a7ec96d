"""Halting: how a running job is brought to a standstill with one last epoch.

``job.stop()`` and ``job.rescale()`` halt an attempt: an epoch is taken after which the sources read
nothing more, and the attempt ends once it is complete. The epoch is an ordinary one, so the job can
be restored from it; no ``Finished`` is written, because there may be more input. It waits for the
rows in line for a few seconds; then its markers overtake them, where they may.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mainstay.errors import SavepointError
from mainstay.runtime.spec import JobSpec

Done = Callable[[Exception | None], None]
"""Called once, on the loop: with None when it worked, with the reason when not."""


@dataclass(frozen=True, slots=True)
class Halt:
    """``drain``: the input ends where it stands, and operators flush, before the last epoch.

    ``awaits_sinks``: the attempt ends when every sink has confirmed the last epoch, and not before.
    Where the same job goes on at once that is not needed: open handles are part of its state.

    ``overtakes``: rows that are in line for too long become part of the last epoch, as in-flight
    rows. Of a drained input, and in a savepoint, there are to be none.
    """

    drain: bool = False
    awaits_sinks: bool = True
    overtakes: bool = False


@dataclass(slots=True, eq=False)
class Halting:
    """A halt that was asked for. With ``job`` the next attempt runs that one; else there is none.

    ``last_epoch`` is the epoch to halt with, once it is complete. An attempt that starts from it,
    because the one before failed too soon, must read nothing. ``error`` is what went wrong with the
    savepoint that belongs to it.
    """

    halt: Halt
    done: Done
    job: JobSpec | None = None
    is_under_way: bool = False
    last_epoch: int | None = None
    has_halted: bool = False
    error: Exception | None = None

    def outcome(self) -> Exception | None:
        """The answer to the request: None, or why the halt went wrong."""
        if self.error is None:
            return None
        return SavepointError(
            f"{self.error} The job has stopped all the same; all of its state is in its snapshot "
            'directory: go on from there with restore="latest".'
        )
