"""What has happened to a job, as documents: epochs, attempts, recoveries, failures, a timeline."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar

from mainstay.runtime.coordinator.epochs import EpochRecord, PendingEpoch
from mainstay.runtime.failure_record import FailureRecord
from mainstay.runtime.status import AttemptRecord, Recovery
from mainstay.serve.documents import (
    AttemptDocument,
    EpochDetail,
    EpochDocument,
    FailureDocument,
    RecoveryDocument,
    SubtaskEpoch,
    TimelineEntry,
)
from mainstay.serve.refusals import RefusedError
from mainstay.snapshot.history import Begin, Ended, History

PENDING = "pending"
Numbered = TypeVar("Numbered", EpochRecord | PendingEpoch, EpochDetail)

# ---------------------------------------------------------------- epochs


def epoch_of(record: EpochRecord, kept: Collection[int]) -> EpochDetail:
    """An epoch that has ended, with what its subtasks measured."""
    subtasks = [
        SubtaskEpoch(
            task=task,
            subtask=subtask,
            start_delay_s=figures.start_delay_s,
            alignment_s=figures.alignment_s,
            sync_s=figures.sync_s,
            async_s=figures.async_s,
            size_bytes=figures.size_bytes,
            in_flight_rows=figures.in_flight_rows,
        )
        for (task, subtask), figures in sorted(record.figures.items())
    ]
    return EpochDetail(**_outline(record, kept), subtasks=subtasks)


def brief_of(record: EpochRecord, kept: Collection[int]) -> EpochDocument:
    """The same without its subtasks, of which there may be thousands."""
    return EpochDocument(**_outline(record, kept))


def _outline(record: EpochRecord, kept: Collection[int]) -> dict[str, Any]:
    """One whose leader took its figures with it has no times."""
    is_known = record.triggered_at > 0
    return {
        "epoch": record.epoch,
        "attempt": record.attempt,
        "status": record.status.value,
        "begun_at": record.triggered_at if is_known else None,
        "duration_s": record.duration_s if is_known else None,
        "size_bytes": record.size_bytes if is_known else None,
        "in_flight_rows": record.in_flight_rows,
        "is_unaligned": record.is_unaligned,
        "cause": record.reason,
        "is_kept": record.status.value == "complete" and record.epoch in kept,
    }


def pending_epoch(pending: PendingEpoch, attempt: int, now: float) -> EpochDetail:
    """An epoch that is under way."""
    figures = list(pending.figures.values())
    return EpochDetail(
        epoch=pending.epoch,
        attempt=attempt,
        status=PENDING,
        begun_at=pending.triggered_at,
        duration_s=max(0.0, now - pending.triggered_at),
        size_bytes=sum(each.size_bytes for each in figures),
        in_flight_rows=sum(each.in_flight_rows for each in figures),
        is_unaligned=pending.is_unaligned,
        cause="",
        is_kept=False,
        waiting_for=[f"{task}, subtask {number}" for task, number in sorted(pending.waiting)],
    )


def brief(detail: EpochDetail) -> EpochDocument:
    """An epoch without its subtasks."""
    names = EpochDocument.model_fields
    return EpochDocument(**{name: getattr(detail, name) for name in names})


def newest(epochs: Sequence[Numbered], limit: int, before: int | None) -> list[Numbered]:
    """The newest of the epochs with numbers below ``before``, oldest first."""
    found = [each for each in epochs if before is None or each.epoch < before]
    return found[max(0, len(found) - limit) :]


def found_epoch(epochs: Sequence[Numbered], number: int) -> Numbered:
    """One epoch by its number. The newest, where two attempts have used it."""
    found = [each for each in epochs if each.epoch == number]
    if found:
        return found[-1]
    numbers = [each.epoch for each in epochs]
    there = f"Known are {numbers[0]} to {numbers[-1]}" if numbers else "None is known yet"
    raise RefusedError(404, "not_found", f"there is no epoch {number}. {there}.")


# ---------------------------------------------------------------- attempts


def end_of(history: History, at: float | None) -> Ended | None:
    """How the job has ended; ``at`` is when, where the log does not say it."""
    ended = history.ended
    return ended if ended is None or ended.at is not None else replace(ended, at=at)


def attempts_of(
    history: History, ended: Ended | None, own: Iterable[AttemptRecord] = ()
) -> list[AttemptDocument]:
    """The attempts that the log knows, and what this process knows better."""
    found = {each.begin.attempt: _logged(each.begin, each.epochs) for each in history.attempts}
    for record in own:
        logged = found.get(record.attempt)
        found[record.attempt] = _own(record, None if logged is None else logged.epochs)
    return [_ended(found[number], ended) for number in sorted(found)]


def _logged(begin: Begin, epochs: int) -> AttemptDocument:
    restored = begin.restored_from
    return AttemptDocument(
        attempt=begin.attempt,
        begun_at=begin.begun_at,
        ended_at=None,
        restored_from=restored,
        origin=begin.origin or ("nothing" if restored is None else f"epoch {restored}"),
        epochs=epochs,
        reason="",
    )


def _own(record: AttemptRecord, epochs: int | None) -> AttemptDocument:
    return AttemptDocument(
        attempt=record.attempt,
        begun_at=record.begun_at,
        ended_at=record.ended_at,
        restored_from=record.restored_from,
        origin=record.origin,
        epochs=epochs,
        reason=record.reason,
        report=list(record.report),
    )


def _ended(attempt: AttemptDocument, ended: Ended | None) -> AttemptDocument:
    """With what the log says of its end, where nobody else does."""
    if ended is None or ended.attempt != attempt.attempt or attempt.ended_at is not None:
        return attempt
    known = {"ended_at": ended.at, "reason": attempt.reason or ended.reason or ended.how}
    return attempt.model_copy(update=known)


def recovery_of(recovery: Recovery) -> RecoveryDocument:
    return RecoveryDocument(
        attempt=recovery.attempt,
        kind=_kind(recovery),
        reason=recovery.reason,
        failed_at=recovery.failed_at,
        running_at=recovery.running_at,
        wait_s=recovery.wait_s,
        relaunch_s=recovery.relaunch_s,
        restore_s=recovery.restore_s,
        local_bytes=recovery.local_bytes,
        stored_bytes=recovery.stored_bytes,
    )


def _kind(recovery: Recovery) -> Literal["failure", "rescale", "takeover"]:
    if recovery.is_rescale:
        return "rescale"
    return "takeover" if recovery.is_takeover else "failure"


def failure_of(failure: FailureRecord) -> FailureDocument:
    return FailureDocument(
        attempt=failure.attempt,
        at=failure.at,
        where=failure.where,
        cause=failure.cause,
        outcome=failure.outcome,
        done=failure.done,
        operator=failure.operator,
        subtask=failure.subtask,
        worker=failure.worker,
        traceback=failure.traceback,
    )


# ---------------------------------------------------------------- the timeline


def timeline_of(
    history: History,
    ended: Ended | None,
    attempts: Iterable[AttemptDocument],
    recoveries: Iterable[RecoveryDocument],
    failures: Iterable[FailureDocument],
    epochs_at: Mapping[int, float],
) -> list[TimelineEntry]:
    """All of it in the order of time; ``epochs_at`` is when epochs were complete."""
    entries = [
        *(_begun(each) for each in attempts),
        *_leaders(history),
        *(
            TimelineEntry(
                at=each.failed_at, kind="rescale", text=f"rescaled: attempt {each.attempt}"
            )
            for each in recoveries
            if each.kind == "rescale"
        ),
        *(_failed(each) for each in failures),
        *(
            TimelineEntry(
                at=epochs_at.get(each.epoch),
                kind="savepoint",
                text=f"savepoint of epoch {each.epoch}: {each.name}",
            )
            for each in history.savepoints
        ),
    ]
    if ended is not None:
        why = f": {ended.reason.strip().partition(chr(10))[0]}" if ended.reason else ""
        text = f"{ended.how} in attempt {ended.attempt}{why}"
        entries.append(TimelineEntry(at=ended.at, kind="end", text=text))
    return sorted(entries, key=lambda each: each.at or 0.0)


def _begun(attempt: AttemptDocument) -> TimelineEntry:
    text = f"attempt {attempt.attempt} from {attempt.origin}"
    return TimelineEntry(at=attempt.begun_at, kind="attempt", text=text)


def _failed(failure: FailureDocument) -> TimelineEntry:
    subject = "the start" if failure.attempt is None else f"attempt {failure.attempt}"
    where = f" in {failure.where}" if failure.where else ""
    text = f"{subject} failed{where}: {failure.cause.rstrip('.')}; {failure.done}"
    return TimelineEntry(at=failure.at, kind="failure", text=text)


def _leaders(history: History) -> list[TimelineEntry]:
    """Where another leader began than the one before; each start of the job is one."""
    entries, before = [], ""
    for begin in (each.begin for each in history.attempts):
        if begin.leader != before:
            text = f"a new leader, with attempt {begin.attempt}"
            entries.append(TimelineEntry(at=begin.begun_at, kind="leader", text=text))
        before = begin.leader
    return entries
