"""What is said of a store that cannot be reached as the environment has it."""

from __future__ import annotations

import re

import pytest

from mainstay.errors import SnapshotStorageError
from mainstay.snapshot.object_storage import open_storage
from mainstay.snapshot.store_access import refuse_endpoint, remedy

PLACE = "s3://bucket/job"


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT"])
@pytest.mark.parametrize(
    "endpoint", ["127.0.0.1:9000", "minio:9000", "localhost", "http:/a", "https://"]
)
def test_an_endpoint_that_is_no_url_is_refused_by_name(
    variable: str, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, endpoint)
    with pytest.raises(SnapshotStorageError, match="is no URL of a server") as caught:
        open_storage(PLACE)
    assert f"{variable}={endpoint!r}" in str(caught.value)
    assert PLACE in str(caught.value)


@pytest.mark.parametrize("allowed", [None, "", "false"])
def test_an_endpoint_without_tls_is_refused_with_the_setting_that_allows_it(
    allowed: str | None,
) -> None:
    environment = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9000"}
    if allowed is not None:
        environment["AWS_ALLOW_HTTP"] = allowed
    with pytest.raises(SnapshotStorageError, match="AWS_ALLOW_HTTP=true"):
        refuse_endpoint(PLACE, environment)


@pytest.mark.parametrize("allowed", ["true", "TRUE", "1", "yes"])
def test_one_that_is_allowed_is_tried(allowed: str) -> None:
    refuse_endpoint(PLACE, {"AWS_ENDPOINT_URL": "http://127.0.0.1:9000", "AWS_ALLOW_HTTP": allowed})


def test_other_stores_and_endpoints_with_tls_are_tried() -> None:
    refuse_endpoint(PLACE, {})
    refuse_endpoint(PLACE, {"AWS_ENDPOINT_URL": "https://minio.example:9000"})
    refuse_endpoint("gs://bucket/job", {"AWS_ENDPOINT_URL": "minio:9000"})


def test_a_login_in_an_endpoint_is_not_shown() -> None:
    with pytest.raises(SnapshotStorageError) as caught:
        refuse_endpoint(PLACE, {"AWS_ENDPOINT_URL": "http://somebody:opensesame@127.0.0.1:9000"})
    assert "opensesame" not in str(caught.value)


@pytest.mark.parametrize("place", ["s3://", "s3:///job", "gs://", "az://"])
def test_a_url_without_a_bucket_says_so(place: str) -> None:
    with pytest.raises(SnapshotStorageError, match=re.escape("it names no bucket")):
        open_storage(place)


def test_missing_credentials_are_named() -> None:
    said = "Error performing PUT http://169.254.169.254/latest/api/token in 1ms - 403 Forbidden"
    assert "AWS_ACCESS_KEY_ID" in remedy(said)
    assert remedy("no such key") == ""


def test_the_account_of_azure_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(SnapshotStorageError, match="Set AZURE_STORAGE_ACCOUNT_NAME"):
        open_storage("az://container/job")
