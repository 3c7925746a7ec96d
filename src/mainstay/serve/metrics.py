"""Metrics for Prometheus, made from the same documents that REST answers with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from mainstay.runtime.status import EpochStatus, Status
from mainstay.serve.documents import JobDocument, SubtaskDocument
from mainstay.serve.metric_names import METRICS
from mainstay.serve.tally import Histogram, Tally
from mainstay.serve.view import JobView
from mainstay.snapshot.failures import GIVEN_UP, HANDED_OVER, RESTARTED, TAKEN_OVER

Exposition = Callable[[str], tuple[bytes, str]]
_CLASSES = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "histogram": HistogramMetricFamily,
}
_OUTCOMES = (RESTARTED, GIVEN_UP, TAKEN_OVER, HANDED_OVER)


def exposition(view: JobView) -> Exposition:
    """What ``/metrics`` answers, in the format that is accepted."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(JobCollector(view))

    def shown(accept: str) -> tuple[bytes, str]:
        encoder, kind = choose_encoder(accept)
        return encoder(registry), kind

    return shown


class JobCollector(Collector):
    """Looks at the job once for each scrape, so that its values are of one moment."""

    def __init__(self, view: JobView) -> None:
        self._view = view
        self._tally = Tally()

    def collect(self) -> Iterator[Metric]:
        view, tally = self._view, self._tally
        tally.update(view)
        job, tasks = view.now()
        families = _Families(job.name)
        _add_job(families, job, is_ready=view.health().is_ready)
        _add_epochs(families, job, tally)
        for task in tasks.tasks:
            for subtask in task.subtasks:
                _add_subtask(families, task.task, subtask)
        attempts = view.attempts()
        families.add("attempts_total", attempts[-1].attempt if attempts else 0)
        yield from families.filled()


class _Families:
    """The families of one scrape. What is not known gets no series."""

    def __init__(self, job: str) -> None:
        self._job = job
        self._families: dict[str, Any] = {
            each.name: _CLASSES[each.kind](each.family, each.help, labels=("job", *each.labels))
            for each in METRICS
        }

    def add(self, name: str, value: float | None, *labels: str) -> None:
        if value is not None:
            self._families[name].add_metric([self._job, *labels], float(value))

    def add_histogram(self, name: str, found: Histogram, *labels: str) -> None:
        self._families[name].add_metric([self._job, *labels], found.buckets(), found.sum)

    def filled(self) -> Iterator[Metric]:
        return (each for each in self._families.values() if each.samples)


def _add_job(families: _Families, job: JobDocument, *, is_ready: bool) -> None:
    families.add("job_info", 1, job.version, job.role)
    for status in [*(each.value for each in Status), "unknown"]:
        families.add("job_status", job.status == status, status)
    families.add("ready", is_ready)
    families.add("leader", job.role == "leader")
    families.add("parallelism", job.parallelism)
    families.add("problems", len(job.problems))


def _add_epochs(families: _Families, job: JobDocument, tally: Tally) -> None:
    families.add("epoch", job.epoch)
    families.add("epoch_interval_seconds", job.epoch_every_s)
    families.add("last_epoch_timestamp_seconds", job.last_epoch_at)
    families.add("last_epoch_bytes", tally.last_bytes)
    for outcome in EpochStatus:
        families.add("epochs_total", tally.epochs[outcome.value], outcome.value)
    families.add_histogram("epoch_duration_seconds", tally.durations)
    for phase, histogram in tally.phases.items():
        families.add_histogram("epoch_phase_seconds", histogram, phase)
    for done in _OUTCOMES:
        families.add("failures_total", tally.failures[done], done)


def _add_subtask(families: _Families, task: str, subtask: SubtaskDocument) -> None:
    number = str(subtask.subtask)
    for counts in subtask.operators:
        families.add("records_in_total", counts.rows_in, counts.uid, number)
        families.add("records_out_total", counts.rows_out, counts.uid, number)
        for side, rows in counts.sides.items():
            families.add("side_records_total", rows, counts.uid, number, side)
        families.add("late_records_total", counts.late_rows, counts.uid, number)
    where = (task, number)
    families.add("busy_seconds_total", subtask.busy_total_s, *where)
    families.add("backpressured_seconds_total", subtask.backpressured_total_s, *where)
    families.add("idle_seconds_total", subtask.idle_total_s, *where)
    families.add("waiting_records", subtask.waiting_rows, *where)
    families.add("skipped_records_total", subtask.skipped, *where)
    families.add("watermark_timestamp_seconds", subtask.watermark_at, *where)
    if (reads := subtask.state_reads) is not None:
        families.add("state_cache_hits_total", reads.hits, *where)
        families.add("state_cache_misses_total", reads.misses, *where)
        families.add("state_read_seconds_total", reads.read_s, *where)
