"""Epochs as spans: one for each epoch, and below it one for each phase of each subtask."""

from __future__ import annotations

from collections.abc import Iterator

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, TraceFlags
from opentelemetry.trace.status import Status, StatusCode

from mainstay.runtime.coordinator.epochs import EpochRecord
from mainstay.runtime.messages import Figures
from mainstay.runtime.status import EpochStatus

NANOSECONDS = 1_000_000_000
_ids = RandomIdGenerator()


class EpochSpans:
    """Makes the spans of the epochs of one job."""

    def __init__(self, job: str, resource: Resource, scope: InstrumentationScope) -> None:
        self._job = job
        self._resource = resource
        self._scope = scope

    def of(self, record: EpochRecord) -> list[ReadableSpan]:
        """The span of an epoch that has ended, and those of its subtasks, if they are known."""
        trace = _ids.generate_trace_id()
        whole = self._span(
            f"epoch {record.epoch}",
            _context(trace),
            None,
            (record.triggered_at, record.triggered_at + record.duration_s),
            {
                "mainstay.job": self._job,
                "mainstay.epoch": record.epoch,
                "mainstay.attempt": record.attempt,
                "mainstay.status": record.status.value,
                "mainstay.size_bytes": record.size_bytes,
                "mainstay.is_unaligned": record.is_unaligned,
            },
            _status(record),
        )
        return [whole, *self._phases(record, whole.context)]

    def _phases(self, record: EpochRecord, parent: SpanContext | None) -> Iterator[ReadableSpan]:
        assert parent is not None
        for (task, subtask), figures in sorted(record.figures.items()):
            for phase, begin, end in phases_of(record.triggered_at, figures):
                yield self._span(
                    f"{task} {subtask} {phase}",
                    _context(parent.trace_id),
                    parent,
                    (begin, end),
                    {
                        "mainstay.job": self._job,
                        "mainstay.epoch": record.epoch,
                        "mainstay.task": task,
                        "mainstay.subtask": subtask,
                        "mainstay.phase": phase,
                    },
                    Status(),
                )

    def _span(
        self,
        name: str,
        context: SpanContext,
        parent: SpanContext | None,
        times: tuple[float, float],
        attributes: dict[str, str | int | bool],
        status: Status,
    ) -> ReadableSpan:
        begin, end = (int(at * NANOSECONDS) for at in times)
        return ReadableSpan(
            name,
            context,
            parent,
            self._resource,
            attributes,
            status=status,
            start_time=begin,
            end_time=end,
            instrumentation_scope=self._scope,
        )


def phases_of(triggered_at: float, figures: Figures) -> list[tuple[str, float, float]]:
    """The phases of a subtask one behind the other; those that took no time are left out."""
    found, at = [], triggered_at
    for phase in ("start_delay", "alignment", "sync", "async"):
        took_s: float = getattr(figures, f"{phase}_s")
        if took_s > 0:
            found.append((phase, at, at + took_s))
        at += took_s
    return found


def _context(trace: int) -> SpanContext:
    span = _ids.generate_span_id()
    return SpanContext(trace, span, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def _status(record: EpochRecord) -> Status:
    match record.status:
        case EpochStatus.FAILED:
            return Status(StatusCode.ERROR, record.reason)
        case EpochStatus.COMPLETE:
            return Status(StatusCode.OK)
    return Status()
