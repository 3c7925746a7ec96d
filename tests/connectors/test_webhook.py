"""The webhook sink against a server that fails, hangs, refuses, and knows keys again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mainstay.connectors import Delivery, UnavailableError
from mainstay.connectors import webhook as module
from mainstay.connectors.webhook import Webhook
from mainstay.errors import GraphError, SinkError
from mainstay.schema import rows_to_batch, to_schema
from tests.drive.ledger import PATIENCE_S, Ids, await_until
from tests.edges import CRASH_POINTS, Crashing, kill_workers, start, when_more_is
from tests.services.web import Service, rows_in

pytestmark = pytest.mark.xdist_group("webhook")


@pytest.fixture
def service() -> Iterator[Service]:
    service = Service()
    yield service
    service.close()


def delivery(*ids: int, epoch: int = 1) -> Delivery:
    batch = rows_to_batch([(id, None) for id in ids], to_schema("id long, note string"), "a test")
    return Delivery("job", "out", 1, 0, epoch, pa.Table.from_batches([batch]))


def keys(service: Service) -> list[str]:
    return [headers["Idempotency-Key"] for _, headers, _ in service.requests]


# ---------------------------------------------------------------- requests


@pytest.mark.parametrize(
    ("format", "body", "type"),
    [
        ("json", b'[{"id":1},{"id":2}]', "application/json"),
        ("jsonl", b'{"id":1}\n{"id":2}\n', "application/x-ndjson"),
    ],
)
def test_rows_are_posted_with_a_key_and_the_headers_asked_for(
    service: Service, format: str, body: bytes, type: str
) -> None:
    sink = Webhook(service.url, format=format, batch_rows=2, headers={"Authorization": "Bearer x"})
    sink.commit([delivery(1, 2, 3).to_bytes()])
    (path, headers, first), (_, _, second) = service.requests
    assert (path, first) == ("/rows?v=1", body)
    assert headers["Content-Type"] == type
    assert headers["Authorization"] == "Bearer x"
    assert rows_in(second) == [{"id": 3}]
    assert len(set(keys(service))) == 2
    assert all(key.startswith(delivery(1).key) for key in keys(service))


def test_a_delivery_made_again_has_the_same_keys_and_another_epoch_others(service: Service) -> None:
    for _ in range(2):
        Webhook(service.url, batch_rows=1).commit([delivery(1, 2).to_bytes()])
    assert keys(service)[:2] == keys(service)[2:]
    Webhook(service.url).commit([delivery(1, 2, epoch=2).to_bytes()])
    assert keys(service)[-1] not in keys(service)[:-1]
    assert service.ids() == [1, 1, 2, 2]


def test_other_rows_under_the_same_numbers_have_another_key(service: Service) -> None:
    """A job that begins anew counts attempts and epochs from one again."""
    for id in (1, 2):
        Webhook(service.url).commit([delivery(id).to_bytes()])
    assert service.ids() == [1, 2]


def test_requests_that_were_answered_are_not_made_again_by_the_same_process(
    service: Service,
) -> None:
    sink = Webhook(service.url, batch_rows=1)
    service.answers = [200, 500]
    handles = [delivery(1, 2).to_bytes(), delivery(3, epoch=2).to_bytes()]
    with pytest.raises(UnavailableError, match="500"):
        sink.commit(handles)
    sink.commit(handles)
    sink.commit(handles)
    assert [rows_in(body)[0]["id"] for _, _, body in service.requests] == [1, 2, 2, 3]


# ---------------------------------------------------------------- answers


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_an_answer_that_may_change_is_waited_for(service: Service, status: int) -> None:
    service.answers = [status]
    sink = Webhook(service.url)
    with pytest.raises(UnavailableError, match=rf"127\.0\.0\.1.*answered {status}.*the reason why"):
        sink.commit([delivery(1).to_bytes()])
    sink.commit([delivery(1).to_bytes()])
    assert service.ids() == [1]


@pytest.mark.parametrize("status", [301, 400, 401, 404, 409, 422])
def test_an_answer_that_will_not_change_ends_the_attempt_with_its_beginning(
    service: Service, status: int
) -> None:
    service.answers = [status]
    with pytest.raises(SinkError, match=rf"answered {status}.*correct the url=") as raised:
        Webhook(service.url).commit([delivery(1).to_bytes()])
    assert len(str(raised.value)) < 1_000


def test_a_service_that_asks_for_time_is_not_called_before(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(module, "_clock", lambda: now)
    service.answers = [(429, {"Retry-After": "30"}), (503, {"Retry-After": "Wed, 21 Oct 2015"})]
    sink = Webhook(service.url)
    for _ in range(2):
        with pytest.raises(UnavailableError):
            sink.commit([delivery(1).to_bytes()])
    with pytest.raises(UnavailableError, match="another 30 s"):
        sink.commit([delivery(1).to_bytes()])
    assert len(service.requests) == 1
    now = 130.0
    with pytest.raises(UnavailableError, match="503"):
        sink.commit([delivery(1).to_bytes()])
    sink.commit([delivery(1).to_bytes()])
    assert len(service.requests) == 3


def test_a_service_that_hangs_is_given_up_after_the_timeout(service: Service) -> None:
    service.answers = ["hang"]
    sink = Webhook(service.url, timeout="200ms")
    with pytest.raises(TimeoutError):
        sink.commit([delivery(1).to_bytes()])
    sink.commit([delivery(1).to_bytes()])
    assert service.ids() == [1]


def test_an_answer_that_got_lost_is_asked_for_again_with_the_same_key(service: Service) -> None:
    service.answers = ["lost"]
    sink = Webhook(service.url)
    with pytest.raises(ConnectionError):
        sink.commit([delivery(1).to_bytes()])
    sink.commit([delivery(1).to_bytes()])
    assert len(set(keys(service))) == 1
    assert len(service.requests) == 2
    assert service.ids() == [1]


def test_a_service_that_is_not_there_is_out_of_reach() -> None:
    service = Service()
    service.close()
    with pytest.raises(ConnectionError):
        Webhook(service.url, timeout=1).commit([delivery(1).to_bytes()])


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"url": "ftp://host/x"}, "http or https"),
        ({"url": "host/x"}, "http or https"),
        ({"url": "http://"}, "http or https"),
        ({"url": None}, "http or https"),
        ({"url": "https://me:secret@host/x"}, "Authorization"),
        ({"format": "xml"}, "format='xml'.*json, jsonl"),
        ({"batch_rows": 0}, "batch_rows=0"),
        ({"headers": {"X": 1}}, "'X' and its value"),
        ({"headers": {"Authorization": "secret\n"}}, r"'Authorization' has a line end.*strip"),
        ({"headers": {"Authorization": "secret…"}}, r"'Authorization' has a line end"),
        ({"headers": {"X Y": "secret"}}, "'X Y' is no name"),
        ({"url": "https://host/a b?secret"}, "without spaces"),
        ({"url": "https://host:port/?secret"}, "http or https"),
        ({"url": "https://[host/?secret"}, "http or https"),
        ({"url": "ftp://me:secret@host/x"}, "http or https"),
        ({"url": "https://host/ö?secret"}, "%XX"),
        ({"timeout": "soon"}, "timeout='soon'"),
    ],
)
def test_wrong_arguments_are_graph_errors(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(GraphError, match=problem) as raised:
        Webhook(**{"url": "http://host/", **arguments})
    assert "secret" not in str(raised.value)


def test_what_is_asked_of_a_service_is_not_shown(service: Service) -> None:
    service.answers = [400, 503]
    sink = Webhook(f"{service.url}?token=secret", headers={"Authorization": "secret"})
    for error in (SinkError, UnavailableError):
        with pytest.raises(error, match=r"http://.*\?… answered") as raised:
            sink.commit([delivery(1).to_bytes()])
        assert "secret" not in str(raised.value)
    assert "secret" not in repr(sink)


def test_rows_that_json_has_no_spelling_for_end_the_attempt(service: Service) -> None:
    rows = pa.table({"at": pa.array([2**62], pa.timestamp("us", tz="UTC"))})
    sent = replace(delivery(1), rows=rows)
    with pytest.raises(SinkError, match="rows cannot be sent to"):
        Webhook(service.url).commit([sent.to_bytes()])


# ---------------------------------------------------------------- in a job


@pytest.mark.parametrize("point", CRASH_POINTS)
def test_a_crash_at_every_edge_of_a_commit_loses_and_doubles_nothing(
    service: Service, tmp_path: Path, point: str
) -> None:
    sink = Crashing(Webhook(service.url, batch_rows=100), point, tmp_path / "crashed")
    source = Ids(1_500, 1_200.0)
    job = start(
        lambda env: env.source(source, uid="ids").sink(sink, uid="out"), tmp_path, every_s=0.1
    )
    assert job.wait(2 * PATIENCE_S) == "finished"
    assert sink.has_crashed
    assert len(job.attempts()) == 2
    assert service.ids() == list(range(1_500))


def test_an_outage_is_waited_for_and_seen(service: Service, tmp_path: Path) -> None:
    sink, source = Webhook(service.url), Ids(3_000, 1_000.0)
    job = start(lambda env: env.source(source, uid="ids").sink(sink, uid="out"), tmp_path)
    await_until(lambda: bool(service.ids()), "something is delivered")
    service.is_down = True
    await_until(lambda: bool(job.problems()), "the problem is seen")
    assert "answered 503" in str(job.problems()[0])
    service.is_down = False
    assert job.wait(2 * PATIENCE_S) == "finished"
    assert len(job.attempts()) == 1
    assert service.ids() == list(range(3_000))


def kill_in_a_run(service: Service, folder: Path, kills: int) -> None:
    count = 3_000 * kills
    sink, source = Webhook(service.url, batch_rows=50), Ids(count, 1_500.0)
    job = start(
        lambda env: env.source(source, uid="ids").sink(sink, uid="out"),
        folder,
        drive="processes",
        max_failures=kills + 1,
    )
    kill_workers(job, kills, moment=when_more_is(lambda: len(service.ids()), "delivered"))
    assert job.wait(2 * PATIENCE_S * kills) == "finished"
    assert Counter(service.ids()) == Counter(range(count))


def test_a_worker_that_is_killed_loses_and_doubles_nothing(
    service: Service, tmp_path: Path
) -> None:
    kill_in_a_run(service, tmp_path, kills=1)


@pytest.mark.soak
def test_twenty_kills_lose_and_double_nothing(service: Service, tmp_path: Path) -> None:
    kill_in_a_run(service, tmp_path, kills=20)
