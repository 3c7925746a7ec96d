"""What is built on storage holds on an object store too: the tests of each part, run on S3.

The tests are those of the parts themselves, with a bucket in the place of a dictionary or a folder:
as it should be, and behind a network in which requests are refused and throttled, and answers are
slow and get lost.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from mainstay.snapshot.object_storage import open_storage
from mainstay.snapshot.passing import PassingStorage
from tests.services.s3 import S3Server
from tests.services.s3_proxy import (
    BUSY,
    CONFLICT,
    CREATE,
    DROPPED,
    LOST,
    SLOW,
    THROTTLED,
    S3Proxy,
)
from tests.unit.connectors.ingest import test_ingest, test_ingest_source
from tests.unit.connectors.ingest.logs import Written
from tests.unit.snapshot import (
    test_commitlog,
    test_failures,
    test_graphs,
    test_retention,
    test_savepoint,
    test_statistics,
    test_warm,
)

OF_STORAGE = (
    test_commitlog,
    test_failures,
    test_graphs,
    test_retention,
    test_savepoint,
    test_statistics,
    test_warm,
    test_ingest,
)
LEFT_OUT = {
    # Thousands of requests, which show no more than a few.
    "test_every_byte_that_changes_is_noticed",
    "test_a_log_that_is_read_for_long_leaves_few_ids_behind",
    # About a storage of its own.
    "test_of_two_that_commit_a_batch_at_once_one_wins",
}
_numbers = itertools.count(1)


class Bucket(PassingStorage):
    """A new place in a bucket, where a test asks for a new dictionary."""

    def __init__(self) -> None:
        super().__init__(open_storage(new_place()))


def new_place() -> str:
    return f"s3://bucket/{next(_numbers)}"


def cases_of(module: ModuleType, *parameters: str) -> list[Any]:
    """The tests of a module that take these parameters and no others."""
    return [
        pytest.param(module, function, id=f"{module.__name__.rpartition('.')[2]}-{name}")
        for name, function in vars(module).items()
        if name.startswith("test_")
        and name not in LEFT_OUT
        and tuple(inspect.signature(function).parameters) == parameters
        and not hasattr(function, "pytestmark")
    ]


@pytest.fixture(scope="module")
def proxy() -> Iterator[S3Proxy]:
    server = S3Server(page_keys=7)
    proxy = S3Proxy(server.port)
    yield proxy
    proxy.close()
    server.close()


@pytest.fixture(params=["sound", "shaky"])
def bucket(
    request: pytest.FixtureRequest, proxy: S3Proxy, monkeypatch: pytest.MonkeyPatch
) -> S3Proxy:
    for name, value in proxy.environment.items():
        monkeypatch.setenv(name, value)
    proxy.heal()
    if request.param == "shaky":
        for fault in (BUSY, THROTTLED, DROPPED, LOST):
            proxy.inject(fault, times=None, chance=0.015)
        proxy.inject(CONFLICT, kind=CREATE, times=None, chance=0.1)
        proxy.inject(SLOW, times=None, chance=0.02, delay_s=0.05)
    return proxy


@pytest.mark.parametrize(
    ("module", "test"), [case for module in OF_STORAGE for case in cases_of(module)]
)
@pytest.mark.usefixtures("bucket")
def test_what_holds_in_memory_holds_in_a_bucket(
    module: ModuleType, test: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MemoryStorage", Bucket)
    test()


@pytest.mark.parametrize(("module", "test"), cases_of(test_retention, "storage"))
@pytest.mark.usefixtures("bucket")
def test_retention_keeps_the_same_in_a_bucket(
    module: ModuleType, test: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MemoryStorage", Bucket)
    test(test_retention.filled())


@pytest.mark.parametrize(
    ("module", "test"),
    cases_of(test_ingest, "written") + cases_of(test_ingest_source, "written"),
)
@pytest.mark.usefixtures("bucket")
def test_an_ingest_log_is_the_same_in_a_bucket(module: ModuleType, test: Any) -> None:
    test(Written(new_place()))
