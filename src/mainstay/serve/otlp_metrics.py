"""The metrics of ``/metrics`` as OTLP has them: the same names, labels and values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

_CUMULATIVE = AggregationTemporality.CUMULATIVE


def metrics_data(
    families: Iterable[Any], resource: Resource, scope: InstrumentationScope, began: int, now: int
) -> MetricsData:
    """The families of one scrape. Times are nanoseconds since 1970."""
    metrics = [_metric(family, began, now) for family in families]
    in_scope = ScopeMetrics(scope, metrics, "")
    return MetricsData([ResourceMetrics(resource, [in_scope], "")])


def _metric(family: Any, began: int, now: int) -> Metric:
    if family.type == "histogram":
        points = [_histogram(labels, of, began, now) for labels, of in _by_labels(family)]
        return Metric(family.name, family.documentation, "", Histogram(points, _CUMULATIVE))
    numbers = [
        NumberDataPoint(dict(each.labels), began, now, each.value) for each in family.samples
    ]
    if family.type == "counter":
        name = family.samples[0].name
        return Metric(name, family.documentation, "", Sum(numbers, _CUMULATIVE, True))
    return Metric(family.name, family.documentation, "", Gauge(numbers))


def _by_labels(family: Any) -> list[tuple[dict[str, str], dict[str, float]]]:
    """Each histogram of a family: its labels, and its samples by bound, ``sum`` and ``count``."""
    found: dict[tuple[tuple[str, str], ...], dict[str, float]] = {}
    for sample in family.samples:
        labels = {name: value for name, value in sample.labels.items() if name != "le"}
        own = found.setdefault(tuple(labels.items()), {})
        own[sample.labels.get("le") or sample.name.rpartition("_")[2]] = sample.value
    return [(dict(labels), own) for labels, own in found.items()]


def _histogram(
    labels: dict[str, str], samples: dict[str, float], began: int, now: int
) -> HistogramDataPoint:
    """Prometheus counts up to each bound, OTLP between two of them."""
    bounds = [name for name in samples if name not in ("sum", "count")]
    up_to = [int(samples[name]) for name in bounds]
    between = [after - before for before, after in zip([0, *up_to], up_to, strict=False)]
    return HistogramDataPoint(
        attributes=labels,
        start_time_unix_nano=began,
        time_unix_nano=now,
        count=up_to[-1],
        sum=samples["sum"],
        bucket_counts=between,
        explicit_bounds=[float(name) for name in bounds[:-1]],
        min=None,  # type: ignore[arg-type]
        max=None,  # type: ignore[arg-type]
    )
