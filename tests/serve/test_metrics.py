"""Metrics: named as Prometheus wants them, with the values of REST, and all of them used."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families

import mainstay as ms
from mainstay.serve.metric_names import BY_NAME, METRICS, PREFIX
from tests.pages import ROOT
from tests.serve.jobs import API, running
from tests.unit.drive.test_embedded import Sum

Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]
BASE_UNITS = ("seconds", "bytes", "records")
OTHER_UNITS = r"_(ms|milliseconds|minutes|hours|kb|mb|kilobytes|megabytes|percent|ratio)(_|$)"


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A job that has stopped, so that two requests see the same."""
    with running(tmp_path_factory.mktemp("metrics")) as (job, client):
        job.stop()
        yield client


def scraped(client: httpx.Client) -> Series:
    found = client.get("/metrics")
    assert found.status_code == 200, found.text
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(found.text)
        for sample in family.samples
    }


def series(found: Series, name: str) -> dict[tuple[str, ...], float]:
    """The values of a metric by the labels it has beside the job, in their order."""
    labels = BY_NAME[name].labels
    return {
        tuple(dict(key)[label] for label in labels): value
        for (series, key), value in found.items()
        if series == PREFIX + name
    }


def value(found: Series, name: str) -> float:
    return series(found, name)[()]


# ---------------------------------------------------------------- names


@pytest.mark.parametrize("metric", METRICS, ids=lambda each: each.name)
def test_a_name_is_as_prometheus_wants_it(metric: Any) -> None:
    assert re.fullmatch(r"mainstay_[a-z][a-z0-9]*(_[a-z0-9]+)*", metric.series)
    assert (metric.kind == "counter") == metric.name.endswith("_total")
    assert not metric.name.endswith(("_count", "_sum", "_bucket", "_created"))
    assert not re.search(OTHER_UNITS, metric.name)
    assert not metric.name.startswith(metric.kind)
    unit = metric.name.removesuffix("_total").rpartition("_")[2]
    is_quantity = any(word in metric.name for word in ("duration", "timestamp", "interval"))
    assert unit in BASE_UNITS or not is_quantity
    assert metric.help.endswith(".")
    assert set(metric.labels) <= {
        *("operator", "subtask", "task", "side", "status", "outcome", "phase", "version", "role"),
    }


def test_names_are_given_once() -> None:
    assert len({each.family for each in METRICS}) == len(METRICS)


def test_all_that_is_scraped_is_in_the_table_and_of_its_kind(stopped: httpx.Client) -> None:
    kinds = {each.family: each.kind for each in METRICS}
    families = list(text_string_to_metric_families(stopped.get("/metrics").text))
    assert families
    for family in families:
        assert kinds[family.name.removesuffix("_total")] == family.type
        assert family.documentation
        assert all(sample.labels["job"] == "numbers" for sample in family.samples)


def test_who_asks_for_open_metrics_gets_them(stopped: httpx.Client) -> None:
    found = stopped.get("/metrics", headers={"Accept": "application/openmetrics-text"})
    assert found.headers["content-type"].startswith("application/openmetrics-text")
    assert {each.name for each in open_metrics(found.text)} >= {"mainstay_records_in"}


# ---------------------------------------------------------------- values


def test_every_value_of_a_job_is_that_of_rest(stopped: httpx.Client) -> None:
    found, job = scraped(stopped), stopped.get(f"{API}/job").json()
    assert series(found, "job_info") == {(job["version"], "leader"): 1.0}
    assert [key for key, n in series(found, "job_status").items() if n] == [(job["status"],)]
    assert value(found, "parallelism") == job["parallelism"]
    assert value(found, "problems") == len(job["problems"])
    assert value(found, "epoch") == job["epoch"]
    assert value(found, "epoch_interval_seconds") == job["epoch_every_s"]
    assert value(found, "last_epoch_timestamp_seconds") == job["last_epoch_at"]
    assert value(found, "leader") == (job["role"] == "leader")
    assert value(found, "ready") == stopped.get("/readyz").json()["is_ready"]
    attempts = stopped.get(f"{API}/attempts").json()
    assert value(found, "attempts_total") == attempts[-1]["attempt"]
    assert set(series(found, "failures_total").values()) == {0.0}


def test_every_value_of_a_subtask_is_that_of_rest(stopped: httpx.Client) -> None:
    found, compared = scraped(stopped), set()
    fields = {
        "busy_seconds_total": "busy_total_s",
        "backpressured_seconds_total": "backpressured_total_s",
        "idle_seconds_total": "idle_total_s",
        "waiting_records": "waiting_rows",
        "skipped_records_total": "skipped",
    }
    for task in stopped.get(f"{API}/tasks").json()["tasks"]:
        for each in task["subtasks"]:
            where = (task["task"], str(each["subtask"]))
            for name, field in fields.items():
                assert series(found, name)[where] == each[field]
                compared.add((name, where))
            for counts in each["operators"]:
                operator = (counts["uid"], str(each["subtask"]))
                assert series(found, "records_in_total")[operator] == counts["rows_in"]
                assert series(found, "records_out_total")[operator] == counts["rows_out"]
    assert len(compared) == len(fields) * 4


class SumAside(Sum):
    """Emits every row into a side output, too, which nobody reads."""

    aside = ms.SideOutput("n long")

    def process(self, row: Any, ctx: Any) -> Any:
        self.aside.emit((row.n,))
        return super().process(row, ctx)


def test_what_goes_into_a_side_output_is_a_number_even_where_nobody_reads_it(
    tmp_path: Path,
) -> None:
    with running(tmp_path, function=SumAside()) as (job, client):
        job.stop()
        found = series(scraped(client), "side_records_total")
        rest = client.get(f"{API}/tasks").json()["tasks"]
        summed = {
            (counts["uid"], str(each["subtask"]), side): rows
            for task in rest
            for each in task["subtasks"]
            for counts in each["operators"]
            for side, rows in counts["sides"].items()
        }
        assert found == summed
        assert set(found) == {("sums", "0", "aside"), ("sums", "1", "aside")}
        taken = series(scraped(client), "records_in_total")
        assert all(found["sums", n, "aside"] == taken["sums", n] > 0 for n in ("0", "1"))


def test_every_value_of_epochs_is_that_of_rest(stopped: httpx.Client) -> None:
    found, epochs = scraped(stopped), stopped.get(f"{API}/epochs?limit=1000").json()
    complete = [each for each in epochs if each["status"] == "complete"]
    for outcome in ("complete", "failed", "subsumed"):
        count = sum(each["status"] == outcome for each in epochs)
        assert series(found, "epochs_total")[outcome,] == count
    own = (("job", "numbers"),)
    duration = f"{PREFIX}epoch_duration_seconds"
    assert found[f"{duration}_count", own] == len(complete)
    times = [each["duration_s"] for each in complete]
    assert found[f"{duration}_sum", own] == pytest.approx(sum(times))
    below = found[f"{duration}_bucket", (("job", "numbers"), ("le", "0.1"))]
    assert below == sum(each <= 0.1 for each in times)
    assert value(found, "last_epoch_bytes") == complete[-1]["size_bytes"]


def test_counters_never_go_back(stopped: httpx.Client) -> None:
    counters = {each.series for each in METRICS if each.kind == "counter"}
    before, after = scraped(stopped), scraped(stopped)
    assert {key: n for key, n in before.items() if key[0] in counters} == {
        key: n for key, n in after.items() if key[0] in counters
    }


def test_a_directory_has_the_metrics_that_it_knows(offline: httpx.Client) -> None:
    found, job = scraped(offline), offline.get(f"{API}/job").json()
    assert value(found, "epoch") == job["epoch"]
    assert series(found, "job_status")["finished",] == 1.0
    assert series(found, "records_in_total") == {}


# ---------------------------------------------------------------- where they are used


def queries_in(text: str) -> list[str]:
    return re.findall(r"\bmainstay_\w+", text)


def known() -> set[str]:
    histograms = [each.series for each in METRICS if each.kind == "histogram"]
    parts = {f"{name}_{part}" for name in histograms for part in ("bucket", "sum", "count")}
    return parts | {each.series for each in METRICS if each.kind != "histogram"}


def test_every_query_of_the_dashboard_names_a_metric_and_every_metric_is_on_it() -> None:
    dashboard = json.loads((ROOT / "docs" / "grafana" / "mainstay.json").read_text())
    targets = [target for panel in dashboard["panels"] for target in panel["targets"]]
    assert all(queries_in(target["expr"]) for target in targets)
    named = {name for target in targets for name in queries_in(target["expr"])}
    assert named <= known()
    plain = {re.sub(r"_(bucket|sum|count)$", "", name) for name in named}
    assert plain == {each.series for each in METRICS}
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def test_every_alert_names_a_metric() -> None:
    text = (ROOT / "docs" / "grafana" / "alerts.yaml").read_text()
    expressions = re.findall(r"expr: (.*)", text)
    assert len(expressions) == text.count("alert:")
    for expression in expressions:
        assert queries_in(expression)
        assert set(queries_in(expression)) <= known()


def test_the_page_lists_every_metric_with_its_kind_and_labels() -> None:
    page = Path(ROOT / "docs" / "rest.md").read_text()
    listed = set(re.findall(r"^\| `(mainstay_\w+)` \| (\w+) \| ([^|]*) \|", page, re.MULTILINE))
    shown = {(each.series, each.kind, ", ".join(each.labels)) for each in METRICS}
    assert {(name, kind, labels.strip()) for name, kind, labels in listed} == shown
