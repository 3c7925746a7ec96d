"""The metrics that ``/metrics`` has: names, kinds, labels, and what each tells.

Names are those of Prometheus: a prefix, base units, ``_total`` behind counters. Labels have few
values: no key, no epoch and no error is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PREFIX = "mainstay_"
OPERATOR = ("operator", "subtask")
SIDE = (*OPERATOR, "side")
SUBTASK = ("task", "subtask")


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. Every series has the label ``job`` as well."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()

    @property
    def family(self) -> str:
        """The name of its family, as the library has it."""
        return PREFIX + self.name.removesuffix("_total")

    @property
    def series(self) -> str:
        """The name by which a query finds it."""
        return PREFIX + self.name


METRICS = (
    Metric("job_info", "gauge", "Always 1; says version and role.", ("version", "role")),
    Metric("job_status", "gauge", "1 for the status that the job has.", ("status",)),
    Metric("ready", "gauge", "1 if the job is led here, runs, and takes epochs."),
    Metric("leader", "gauge", "1 if this process leads the job."),
    Metric("parallelism", "gauge", "The parallelism of the job."),
    Metric("problems", "gauge", "What keeps the job from making progress just now."),
    Metric("attempts_total", "counter", "Attempts since the job's first start."),
    Metric("failures_total", "counter", "Attempts that failed, by what was done.", ("outcome",)),
    Metric("epoch", "gauge", "The number of the last complete epoch."),
    Metric("epoch_interval_seconds", "gauge", "How often epochs are taken."),
    Metric("last_epoch_timestamp_seconds", "gauge", "When the last epoch was complete."),
    Metric("last_epoch_bytes", "gauge", "What the last complete epoch has written."),
    Metric("epochs_total", "counter", "Epochs that have ended, by how.", ("outcome",)),
    Metric("epoch_duration_seconds", "histogram", "From the trigger of an epoch to its commit."),
    Metric(
        "epoch_phase_seconds", "histogram", "Phases of an epoch in its slowest subtask.", ("phase",)
    ),
    Metric("records_in_total", "counter", "Rows that an operator has taken.", OPERATOR),
    Metric("records_out_total", "counter", "Rows that an operator has emitted.", OPERATOR),
    Metric("side_records_total", "counter", "Rows emitted into a side output.", SIDE),
    Metric("late_records_total", "counter", "Rows that came too late for windows.", OPERATOR),
    Metric("busy_seconds_total", "counter", "Time at work on rows.", SUBTASK),
    Metric("backpressured_seconds_total", "counter", "Time held back by what follows.", SUBTASK),
    Metric("idle_seconds_total", "counter", "Time with neither.", SUBTASK),
    Metric("waiting_records", "gauge", "Rows in line before a subtask.", SUBTASK),
    Metric("skipped_records_total", "counter", "Malformed records that were left out.", SUBTASK),
    Metric("watermark_timestamp_seconds", "gauge", "How far event time has come.", SUBTASK),
    Metric("state_cache_hits_total", "counter", "Keys whose remote state was cached.", SUBTASK),
    Metric("state_cache_misses_total", "counter", "Keys whose state had to be read.", SUBTASK),
    Metric("state_read_seconds_total", "counter", "Time that reads of remote state took.", SUBTASK),
)
BY_NAME = {metric.name: metric for metric in METRICS}
