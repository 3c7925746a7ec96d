"""What a user asks of a running job: savepoints, a stop, a rescale.

Requests belong to the leader and outlive attempts: the next attempt takes over those of one that
failed. Each is answered once, at the latest when the job has ended.
"""

from __future__ import annotations

from dataclasses import replace

from mainstay.errors import JobFailedError, JobOverError, SavepointError
from mainstay.runtime.coordinator.attempt import RunningAttempt
from mainstay.runtime.coordinator.claims import Claims
from mainstay.runtime.coordinator.halt import Done, Halt, Halting
from mainstay.runtime.coordinator.in_flight import holds_in_flight_rows
from mainstay.runtime.coordinator.savepoints import Savepoints, Wishes
from mainstay.runtime.coordinator.wanted_epochs import Told, WantedEpochs
from mainstay.runtime.ports import Ports
from mainstay.runtime.spec import JobSpec
from mainstay.snapshot.manifest import Manifest


class Requests:
    """The requests to one leader of a job."""

    def __init__(self, ports: Ports, job: str) -> None:
        self.savepoints = Savepoints(ports)
        self._epochs = WantedEpochs()
        self._job = job
        self._attempt: RunningAttempt | None = None
        self._halting: Halting | None = None
        self._ended_how: str | None = None

    @property
    def is_halting(self) -> bool:
        return self._halting is not None

    # ------------------------------------------------------------ what is asked

    def savepoint(self, path: str, done: Done) -> None:
        """Make the next epoch a savepoint as well."""
        if self._ended_how is not None:
            done(SavepointError(f"the savepoint {path!r} was not written: {self._ended_how}"))
        else:
            self.savepoints.request(path, self._next_epoch, done)

    def snapshot(self, told: Told) -> None:
        """Take an epoch now, and tell its number when it is complete."""
        if self._ended_how is not None:
            told(None, JobOverError(f"no epoch was taken: {self._ended_how}"))
        else:
            self._epochs.request(self._next_epoch(), told)

    def wishes(self) -> Wishes:
        """What an attempt has to know of what was asked for."""
        return self.savepoints.wishes(self._epochs.lowest)

    def stop(self, path: str | None, done: Done, *, drain: bool = False) -> None:
        """Halt the job for good, with a savepoint of its last epoch where there is a path.

        The job goes on if it turns out before that the savepoint cannot be written there.
        """
        if (refusal := self._refusal()) is not None:
            done(refusal)
            return
        halt = Halt(drain=drain, overtakes=path is None and not drain)
        self._halting = halting = Halting(halt, done)
        if path is None:
            self._halt(halting)
            return

        def saved(error: Exception | None) -> None:
            halting.error = error
            if error is not None and not halting.is_under_way and self._halting is halting:
                self._halting = None
                done(error)

        self.savepoints.request(
            path, self._next_epoch, saved, of_last=True, reserved=lambda: self._halt(halting)
        )

    def rescale(self, job: JobSpec, done: Done) -> None:
        """Halt the attempt and go on with the same program at another parallelism."""
        if (refusal := self._refusal()) is not None:
            done(refusal)
            return
        self._halting = Halting(Halt(awaits_sinks=False, overtakes=True), done, job)
        self._halt(self._halting)

    def _refusal(self) -> Exception | None:
        """Why the job cannot be halted, if it cannot."""
        if self._ended_how is not None:
            return JobOverError(f"job {self._job!r} cannot halt: {self._ended_how}")
        if self._halting is not None:
            return JobFailedError(
                f"job {self._job!r} is being stopped or rescaled already. Wait for that."
            )
        return None

    def _halt(self, halting: Halting) -> None:
        halting.is_under_way = True
        if self._attempt is not None:
            self._attempt.halt(halting.halt)

    def _next_epoch(self) -> int:
        return self._attempt.book.next_epoch if self._attempt is not None else 0

    # ------------------------------------------------------------ what happens

    def begun(self, attempt: RunningAttempt, manifest: Manifest | None) -> bool:
        """Tell a new attempt of a halt that was asked for; True if it is to read nothing.

        The attempt before it has failed. If its last epoch is complete all the same, the job goes
        no further than that: only its sinks have to confirm.
        """
        self._attempt = attempt
        restored_from = manifest.epoch if manifest is not None else None
        self.savepoints.begun(restored_from)
        halting = self._halting
        if halting is None or not halting.is_under_way or halting.has_halted:
            return False
        is_there = halting.last_epoch is not None and halting.last_epoch == restored_from
        attempt.halt(replace(halting.halt, drain=False) if is_there else halting.halt)
        return is_there

    def running(self) -> None:
        """Every worker is ready: a rescale has come to its end with that."""
        halting = self._halting
        if halting is not None and halting.has_halted:
            self._halting = None
            halting.done(None)

    def committed(self, manifest: Manifest, job: JobSpec, *, is_last: bool) -> None:
        """An epoch is in the log."""
        halting = self._halting
        if is_last and halting is not None:
            halting.last_epoch = manifest.epoch
            # Where the job goes on there are other epochs to make a savepoint of.
            is_last = halting.job is None or not holds_in_flight_rows(manifest)
        self.savepoints.committed(manifest, job, is_last=is_last)
        self._epochs.committed(manifest.epoch)

    def tick(self, claims: Claims) -> None:
        """Note finished savepoints in the log, one at a time. Nothing depends on it."""
        attempt, notes = self._attempt, self.savepoints.notes
        if attempt is None:
            return
        self.savepoints.tick(attempt.confirmed)
        if attempt.is_over or not claims.is_settled or not notes:
            return

        def noted() -> None:
            notes.popleft()
            # An epoch may have become whole while the log was busy with this.
            attempt.commit_next()

        claims.claim(notes[0], noted, lambda _: noted())

    def halted(self) -> JobSpec | None:
        """The attempt has come to a standstill: what is to run next, or None for nothing."""
        assert self._halting is not None
        self._halting.has_halted = True
        return self._halting.job

    def end(self, how: str, error: Exception | None, *, is_orderly: bool) -> None:
        """It has ended: say how to everybody who still waits, or asks later."""
        self._ended_how = how
        self.savepoints.end(self._ended_how)
        self._epochs.end(self._ended_how)
        halting, self._halting = self._halting, None
        if halting is None:
            return
        failed = JobFailedError(f"job {self._job!r} did not halt: {self._ended_how}")
        halting.done(halting.outcome() if is_orderly else error or failed)
