"""Savepoints of a running job: from the request to ``savepoint.json``.

::

    RESERVING ── the target is empty and can be written ──▶ WAITING ── an epoch that was begun
        after the request is complete ──▶ WRITING ── all pieces are stored ──▶ WRITTEN ── every
        sink has confirmed the epoch ──▶ PUBLISHING ── savepoint.json is there ──▶ done

A request outlives attempts: numbers of epochs are never used twice, so the first complete epoch
that is new enough will do, whichever attempt it is of. From then on the files of that epoch are
pinned until the savepoint is done or given up. What fails here never harms the job.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from mainstay.errors import MainstayError, SavepointError
from mainstay.runtime.coordinator.halt import Done
from mainstay.runtime.coordinator.in_flight import holds_in_flight_rows
from mainstay.runtime.coordinator.savepoint_writing import Piece, Written, pieces_of, savepoint_of
from mainstay.runtime.messages import Epoch
from mainstay.runtime.ports import Ports
from mainstay.runtime.spec import JobSpec
from mainstay.snapshot.history import SavepointTaken
from mainstay.snapshot.manifest import FileRef, Manifest
from mainstay.snapshot.savepoint import discard, publish, reserve
from mainstay.snapshot.storage import Storage


class Stage(Enum):
    """How far a savepoint has come."""

    RESERVING = "reserving"
    WAITING = "waiting"
    WRITING = "writing"
    WRITTEN = "written"
    PUBLISHING = "publishing"


@dataclass(slots=True, eq=False)
class _Request:
    """A savepoint that was asked for. ``of_last``: only the epoch a job halts with will do."""

    path: str
    of_last: bool
    done: Done
    stage: Stage = Stage.RESERVING
    target: Storage | None = None
    first_epoch: int = 0
    manifest: Manifest | None = None
    job: JobSpec | None = None
    pieces: deque[Piece] = field(default_factory=deque)
    written: list[Written] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Wishes:
    """What an attempt has to know of the savepoints that were asked for.

    ``epoch``: the lowest number of an epoch that somebody waits for, None if nobody does.
    ``asked_epoch``: the same for an epoch that need not be a savepoint.
    ``is_saving``: one is under way, so that the job must not end yet.
    """

    epoch: int | None = None
    is_saving: bool = False
    asked_epoch: int | None = None

    @property
    def next_epoch(self) -> int | None:
        """The lowest number of all that is waited for."""
        if self.epoch is None or self.asked_epoch is None:
            return self.asked_epoch if self.epoch is None else self.epoch
        return min(self.epoch, self.asked_epoch)


NOTHING = Wishes()
"""What is wished mostly: it is asked for with every message."""


class Savepoints:
    """The savepoints of one job that are under way."""

    def __init__(self, ports: Ports) -> None:
        self.notes: deque[SavepointTaken] = deque()
        """What is to be noted in the log; nothing depends on it."""
        self._ports = ports
        self._requests: list[_Request] = []
        self._last: tuple[Manifest, JobSpec] | None = None

    # ------------------------------------------------------------ what is asked

    def request(
        self,
        path: str,
        next_epoch: Callable[[], int],
        done: Done,
        *,
        of_last: bool = False,
        reserved: Callable[[], None] = lambda: None,
    ) -> None:
        """Ask for a savepoint; ``reserved`` is called when its target is known to be usable."""
        request = _Request(path, of_last, done)
        self._requests.append(request)
        open_place = self._ports.open

        def work() -> Storage:
            target = open_place(path)
            reserve(target, path)
            return target

        def ready(target: Storage) -> None:
            if request not in self._requests:
                self._submit_discard(target)
                return
            request.target = target
            request.stage = Stage.WAITING
            request.first_epoch = next_epoch()
            reserved()
            if self._last is not None:
                self._begin(request, *self._last)

        # What could not be reserved is somebody else's, and is left alone.
        self._ports.background.submit(work, ready, lambda error: self._close(request, error))

    def wishes(self, asked_epoch: int | None = None) -> Wishes:
        is_saving = bool(self._requests or self.notes)
        if not is_saving and asked_epoch is None:
            return NOTHING
        return Wishes(self.wanted_epoch(), is_saving=is_saving, asked_epoch=asked_epoch)

    def wanted_epoch(self) -> int | None:
        """The lowest number that an epoch for the first in line may have; None if nobody waits."""
        if not self._requests:
            return None
        waiting = [r for r in self._requests if r.stage is Stage.WAITING and not r.of_last]
        return min((request.first_epoch for request in waiting), default=None)

    def saved_epoch(self) -> Epoch | None:
        """The first epoch of which a savepoint is being written; None if there is none."""
        writing = [r.manifest for r in self._requests if r.stage is Stage.WRITING]
        return min((Epoch(m.epoch) for m in writing if m is not None), default=None)

    def pinned(self) -> set[str]:
        """The files that must stay until a savepoint is done."""
        manifests = [request.manifest for request in self._requests]
        return {file.path for m in manifests if m is not None for file in m.files()}

    # ------------------------------------------------------------ what happens

    def committed(self, manifest: Manifest, job: JobSpec, *, is_last: bool) -> None:
        """An epoch is in the log. After the last one of a job there is no other to wait for."""
        if is_last:
            self._last = (manifest, job)
        for request in list(self._requests):
            is_new = manifest.epoch >= request.first_epoch and not request.of_last
            if request.stage is Stage.WAITING and (is_last or is_new):
                self._begin(request, manifest, job)

    def begun(self, restored_from: int | None) -> None:
        """A new attempt goes on from an epoch. Savepoints of later ones will not be confirmed."""
        self._last = None
        for request in list(self._requests):
            if request.manifest is not None and request.manifest.epoch > (restored_from or 0):
                error = SavepointError(
                    f"its epoch {request.manifest.epoch} was given up for epoch {restored_from}"
                )
                self._give_up(request, error)

    def tick(self, confirmed: int) -> None:
        """``confirmed`` is the epoch up to which every sink has confirmed."""
        for request in list(self._requests):
            if request.stage is Stage.WRITTEN:
                assert request.manifest is not None
                if request.manifest.epoch <= confirmed:
                    self._publish(request)

    def end(self, reason: str) -> None:
        """The job has ended: nothing more is written."""
        for request in list(self._requests):
            self._give_up(request, SavepointError(reason))

    # ------------------------------------------------------------ writing

    def _begin(self, request: _Request, manifest: Manifest, job: JobSpec) -> None:
        if holds_in_flight_rows(manifest):
            # It was asked for when this epoch was under way already.
            error = SavepointError(
                f"the job is being stopped, and its last epoch {manifest.epoch} holds in-flight "
                "rows, which a savepoint must not. Start the job again from that epoch, and end it "
                'with job.stop("path")'
            )
            self._give_up(request, error)
            return
        request.stage = Stage.WRITING
        request.manifest, request.job = manifest, job
        request.pieces = deque(pieces_of(manifest))
        self._write_next(request)

    def _write_next(self, request: _Request) -> None:
        if request not in self._requests:
            return
        if not request.pieces:
            request.stage = Stage.WRITTEN
            return
        piece, storage, target = request.pieces.popleft(), self._ports.storage, request.target
        assert target is not None

        def done(written: list[Written]) -> None:
            request.written += written
            self._write_next(request)

        self._ports.background.submit(
            lambda: piece.write(storage, target), done, lambda error: self._give_up(request, error)
        )

    def _publish(self, request: _Request) -> None:
        request.stage = Stage.PUBLISHING
        manifest, job, target = request.manifest, request.job, request.target
        assert manifest is not None
        assert job is not None
        assert target is not None
        savepoint = savepoint_of(manifest, job, request.written)

        def done(place: FileRef) -> None:
            self.notes.append(SavepointTaken(request.path, manifest.epoch, place))
            self._close(request, None)

        self._ports.background.submit(
            lambda: publish(target, savepoint), done, lambda error: self._give_up(request, error)
        )

    # ------------------------------------------------------------ ends

    def _give_up(self, request: _Request, error: Exception) -> None:
        if request not in self._requests:
            return
        if request.target is not None:
            self._submit_discard(request.target)
        self._close(request, error)

    def _submit_discard(self, target: Storage) -> None:
        def nothing(_: Any) -> None:
            """What could not be deleted has no ``savepoint.json``, and so is no savepoint."""

        self._ports.background.submit(lambda: discard(target), nothing, nothing)

    def _close(self, request: _Request, error: Exception | None) -> None:
        if request not in self._requests:
            return
        self._requests.remove(request)
        request.done(None if error is None else _named(request.path, error))

    def check_invariants(self) -> None:
        for request in self._requests:
            has_epoch = request.manifest is not None
            is_early = request.stage in (Stage.RESERVING, Stage.WAITING)
            assert has_epoch != is_early, f"savepoint {request.path} is {request.stage}"


def _named(path: str, error: Exception) -> Exception:
    if isinstance(error, SavepointError) and repr(path) in str(error):
        return error
    named = SavepointError(f"the savepoint {path!r} was not written: {error}")
    if not isinstance(error, MainstayError):
        named.__cause__ = error
    return named
