"""OTLP: what a real receiver gets of a job, and what a job notices of one that is away."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Status
from prometheus_client.parser import text_string_to_metric_families

import mainstay as ms
from mainstay.errors import GraphError
from mainstay.serve import otlp
from tests.serve.jobs import await_true, client_of, start
from tests.unit.drive.test_embedded import opened

REQUESTS = {"/v1/metrics": ExportMetricsServiceRequest, "/v1/traces": ExportTraceServiceRequest}


class Receiver:
    """A collector: keeps what it is sent, by path; refuses all while it ``is_away``."""

    def __init__(self) -> None:
        self.got: dict[str, list[Any]] = {path: [] for path in REQUESTS}
        self.tokens: set[str | None] = set()
        self.is_away = False
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if receiver.is_away:
                    self.send_response(400)
                else:
                    receiver.tokens.add(self.headers["X-Token"])
                    receiver.got[self.path].append(REQUESTS[self.path].FromString(body))
                    self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *arguments: Any) -> None:
                """Tests need no log of requests."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def metrics(self) -> dict[str, Any]:
        """The metrics of the last request, by name."""
        (of_job,) = self.got["/v1/metrics"][-1].resource_metrics
        return {each.name: each for scope in of_job.scope_metrics for each in scope.metrics}

    def spans(self) -> list[Any]:
        return [
            span
            for request in self.got["/v1/traces"]
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()
    yield found
    found.server.shutdown()
    found.server.server_close()


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "EVERY_S", 0.1)
    monkeypatch.setattr(otlp, "LOOK_S", 0.05)


def attributes(of: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in of}


def labels(point: Any) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(attributes(point.attributes).items()))


def test_the_metrics_are_those_of_metrics_by_the_same_names(
    tmp_path: Path, receiver: Receiver
) -> None:
    job = start(tmp_path, source=opened(), otlp=ms.Otlp(receiver.endpoint, {"X-Token": "secret"}))
    assert job.wait(60, progress=False) == "finished"
    await_true(lambda: not job_threads(), "the last was sent")
    with client_of(job.url) as client:
        text = client.get("/metrics").text
    job.server.close()
    found = receiver.metrics()
    families = list(text_string_to_metric_families(text))
    names = {
        sample.name for each in families for sample in each.samples if each.type != "histogram"
    }
    assert names | {each.name for each in families if each.type == "histogram"} == set(found)
    rows = {
        labels(point): point.as_double
        for point in found["mainstay_records_in_total"].sum.data_points
    }
    assert sum(value for key, value in rows.items() if dict(key)["operator"] == "sums") == 600
    assert found["mainstay_records_in_total"].sum.is_monotonic
    durations = found["mainstay_epoch_duration_seconds"].histogram.data_points[0]
    assert durations.count == sum(durations.bucket_counts) > 0
    assert len(durations.bucket_counts) == len(durations.explicit_bounds) + 1
    epoch = found["mainstay_epoch"].gauge.data_points[0].as_double
    assert f'mainstay_epoch{{job="numbers"}} {epoch}' in text
    (resource,) = receiver.got["/v1/metrics"][-1].resource_metrics
    assert attributes(resource.resource.attributes)["service.name"] == "numbers"
    assert receiver.tokens == {"secret"}


def test_each_epoch_is_a_span_with_the_phases_of_its_subtasks_below_it(
    tmp_path: Path, receiver: Receiver
) -> None:
    job = start(tmp_path, source=opened(), ui=None, otlp=ms.Otlp(receiver.endpoint))
    assert job.wait(60, progress=False) == "finished"
    await_true(lambda: not job_threads(), "the last was sent")
    spans = receiver.spans()
    roots = {span.span_id: span for span in spans if not span.parent_span_id}
    complete = [record for record in job.snapshots() if record.status == "complete"]
    by_number = {attributes(span.attributes)["mainstay.epoch"]: span for span in roots.values()}
    assert set(by_number) >= {record.epoch for record in complete}
    assert len(by_number) == len(roots), "each epoch is sent once"
    for record in complete:
        span = by_number[record.epoch]
        assert span.name == f"epoch {record.epoch}"
        assert span.status.code == Status.STATUS_CODE_OK
        assert span.start_time_unix_nano == int(record.triggered_at * 1e9)
        assert span.end_time_unix_nano >= span.start_time_unix_nano
    children = [span for span in spans if span.parent_span_id]
    assert all(child.parent_span_id in roots for child in children)
    assert all(child.trace_id == roots[child.parent_span_id].trace_id for child in children)
    told = {
        (
            attributes(each.attributes)["mainstay.task"],
            attributes(each.attributes)["mainstay.phase"],
        )
        for each in children
    }
    assert ("sums", "async") in told


def test_a_failed_epoch_has_the_status_error_and_its_cause(
    tmp_path: Path, receiver: Receiver
) -> None:
    snapshots = ms.Snapshots(tmp_path, every="50ms", tolerable_failures=10_000)
    job = start(tmp_path, ui=None, otlp=ms.Otlp(receiver.endpoint), snapshots=snapshots)
    await_true(lambda: receiver.spans(), "epochs are sent")
    (tmp_path / "epochs").rename(tmp_path / "aside")
    (tmp_path / "epochs").write_text("in the way of manifests")
    await_true(lambda: failed_epochs(job), "an epoch has failed")
    record = failed_epochs(job)[0]
    job.cancel()
    await_true(lambda: not job_threads(), "the last was sent")
    (span,) = (each for each in receiver.spans() if each.name == f"epoch {record.epoch}")
    status = span.status
    assert (status.code, status.message) == (Status.STATUS_CODE_ERROR, record.reason)
    assert "manifest" in record.reason


def test_a_receiver_that_is_away_is_said_once_and_gets_all_spans_when_it_is_back(
    tmp_path: Path, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.is_away = True
    with caplog.at_level(logging.INFO):
        job = start(tmp_path, ui=None, otlp=ms.Otlp(receiver.endpoint))
        await_true(lambda: "cannot be sent to" in caplog.text, "it is said")
        await_true(job.snapshots, "an epoch has ended")
        first = min(record.epoch for record in job.snapshots())
        many = len(job.snapshots()) + 10
        await_true(lambda: len(job.snapshots()) > many, "epochs go on")
        receiver.is_away = False
        await_true(lambda: "again" in caplog.text, "it is back")
        job.cancel()
        await_true(lambda: not job_threads(), "the last was sent")
    own = [each for each in caplog.records if "cannot be sent" in each.getMessage()]
    assert len(own) == 1
    assert receiver.endpoint in own[0].getMessage()
    assert not [each for each in caplog.records if each.name.startswith("opentelemetry")]
    sent = {attributes(span.attributes)["mainstay.epoch"] for span in receiver.spans()}
    assert first in sent


def failed_epochs(job: Any) -> list[Any]:
    return [record for record in job.snapshots() if record.status == "failed"]


def job_threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "mainstay-otlp-numbers"]


@pytest.mark.parametrize("endpoint", ["localhost:4318", "ftp://x", "", 4318])
def test_an_endpoint_that_is_none_is_refused(endpoint: Any) -> None:
    with pytest.raises(GraphError, match="must be the address of a collector"):
        ms.Otlp(endpoint)


def test_headers_that_are_no_texts_are_refused_and_shown_to_nobody() -> None:
    with pytest.raises(GraphError, match="dictionary of texts"):
        ms.Otlp(headers={"a": 1})  # type: ignore[dict-item]
    assert "secret" not in repr(ms.Otlp(headers={"a": "secret"}))


def test_other_things_than_an_otlp_are_refused() -> None:
    with pytest.raises(GraphError, match=r"otlp=True must be an Otlp or None"):
        ms.Environment(otlp=True)  # type: ignore[arg-type]
