"""Sends the metrics and epochs of a job by OTLP, from a thread of its own.

A collector that is away is said once, and costs the job nothing: metrics are sent again with their
newest values, and spans wait, as many as are worth keeping.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
import weakref
from collections import deque
from collections.abc import Mapping

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import MetricExportResult
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

import mainstay
from mainstay.drive.handle import JobHandle
from mainstay.masking import masked
from mainstay.serve.metrics import JobCollector
from mainstay.serve.otlp_metrics import metrics_data
from mainstay.serve.otlp_spans import NANOSECONDS, EpochSpans
from mainstay.serve.refusals import RefusedError
from mainstay.serve.running import RunningView

EVERY_S = 10.0
LOOK_S = 1.0
"""How often epochs that have ended are looked for: the coordinator keeps the details of few."""
REQUEST_S = 5.0
CLOSE_S = 3.0
MOST_SPANS = 10_000
AT_ONCE = 500

_log = logging.getLogger("mainstay")


class OtlpExporter:
    """Sends what a job of this process tells, until its handle is dropped or the job is over."""

    def __init__(self, endpoint: str | None, headers: Mapping[str, str] | None) -> None:
        base = None if endpoint is None else endpoint.rstrip("/")
        own = None if headers is None else dict(headers)
        to = {"headers": own, "timeout": REQUEST_S}
        self._metrics = OTLPMetricExporter(base and f"{base}/v1/metrics", **to)  # type: ignore[arg-type]
        self._traces = OTLPSpanExporter(base and f"{base}/v1/traces", **to)  # type: ignore[arg-type]
        self._endpoint = masked(base or "the endpoint of OTEL_EXPORTER_OTLP_ENDPOINT")
        self._spans: deque[ReadableSpan] = deque(maxlen=MOST_SPANS)
        self._seen: set[tuple[int, int]] = set()
        self._began = time.time()
        self._is_over = threading.Event()
        self._is_away = False
        self._reasons = _Reasons()

    def export(self, job: JobHandle, place: str) -> None:
        """Begin, for a job of this process."""
        self._job = weakref.ref(job)
        self._name = job.name
        resource = Resource.create({"service.name": job.name, "service.namespace": "mainstay"})
        self._resource = resource
        self._scope = InstrumentationScope("mainstay", mainstay.__version__)
        self._epochs = EpochSpans(job.name, resource, self._scope)
        self._collector = JobCollector(RunningView(job, place))
        thread = threading.Thread(target=self._run, name=f"mainstay-otlp-{job.name}", daemon=True)
        self._thread = thread
        atexit.register(self.close)
        weakref.finalize(job, self._is_over.set).atexit = False
        thread.start()

    def close(self) -> None:
        """Send what is left, unless nobody takes it, and end."""
        self._is_over.set()
        self._thread.join(0.1 if self._is_away else CLOSE_S)

    def _run(self) -> None:
        self._reasons.listen()
        try:
            due = time.monotonic()
            while not self._is_over.wait(LOOK_S) and not self._has_ended():
                self._look()
                if time.monotonic() >= due:
                    self._send()
                    due = time.monotonic() + EVERY_S
            self._look()
            self._send()
        except Exception as error:
            _log.warning("job %r: nothing is sent by OTLP any more: %s", self._name, error)
        finally:
            self._reasons.leave()
            atexit.unregister(self.close)

    def _has_ended(self) -> bool:
        job = self._job()
        return job is None or job.is_over

    # ------------------------------------------------------------ looking

    def _look(self) -> None:
        """Make spans of the epochs that have ended since the last look."""
        job = self._job()
        if job is None:
            return
        records = [each for each in list(job.snapshots()) if each.triggered_at >= self._began]
        for record in records:
            if (record.epoch, record.attempt) not in self._seen:
                self._spans.extend(self._epochs.of(record))
        self._seen = {(each.epoch, each.attempt) for each in records}

    # ------------------------------------------------------------ sending

    def _send(self) -> None:
        has_sent = self._send_metrics() and self._send_spans()
        if has_sent == self._is_away:
            self._is_away = not has_sent
            self._say()

    def _send_metrics(self) -> bool:
        began, now = (int(at * NANOSECONDS) for at in (self._began, time.time()))
        try:
            families = list(self._collector.collect())
        except RefusedError:
            return True  # the program has dropped the job: there is nothing more to tell
        data = metrics_data(families, self._resource, self._scope, began, now)
        return self._metrics.export(data) is MetricExportResult.SUCCESS

    def _send_spans(self) -> bool:
        while self._spans:
            batch = [self._spans[n] for n in range(min(AT_ONCE, len(self._spans)))]
            if self._traces.export(batch) is not SpanExportResult.SUCCESS:
                return False
            for _ in batch:
                self._spans.popleft()
        return True

    def _say(self) -> None:
        if not self._is_away:
            _log.info("job %r: metrics and spans are sent to %s again", self._name, self._endpoint)
            return
        _log.warning(
            "job %r: metrics and spans cannot be sent to %s: %s. It is tried every %g s, and said "
            "once; the job goes on. Start a collector there, or give another Otlp(endpoint=...)",
            self._name,
            self._endpoint,
            masked(self._reasons.last) or "it is not reached",
            EVERY_S,
        )


class _Reasons(logging.Filter):
    """Keeps what the exporters log on this thread: they would say it at every attempt."""

    def __init__(self) -> None:
        super().__init__()
        self.last = ""
        self._thread = 0
        self._loggers: list[logging.Logger] = []

    def listen(self) -> None:
        self._thread = threading.get_ident()
        known = list(logging.root.manager.loggerDict)
        self._loggers = [
            logging.getLogger(name) for name in known if name.startswith("opentelemetry.exporter")
        ]
        for logger in self._loggers:
            logger.addFilter(self)

    def leave(self) -> None:
        for logger in self._loggers:
            logger.removeFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        if record.thread != self._thread:
            return True
        self.last = record.getMessage()
        return False
