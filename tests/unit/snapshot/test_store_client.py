"""What a client of an object store is told about waiting."""

from __future__ import annotations

import pytest

from mainstay.snapshot.store_client import CONNECT, REQUEST, client_options


@pytest.mark.parametrize("scheme", ["s3", "gs", "az"])
def test_a_client_waits_for_a_bounded_time(scheme: str) -> None:
    assert client_options(scheme, {}) == {"connect_timeout": CONNECT, "timeout": REQUEST}


def test_the_environment_says_more_and_says_it_first() -> None:
    environment = {
        "AWS_ALLOW_HTTP": "true",
        "AWS_TIMEOUT": "2min",
        "AWS_PROXY_URL": "http://127.0.0.1:1",
        "AWS_REGION": "us-east-1",
        "GOOGLE_TIMEOUT": "1s",
    }
    assert client_options("s3", environment) == {
        "allow_http": "true",
        "connect_timeout": CONNECT,
        "timeout": "2min",
        "proxy_url": "http://127.0.0.1:1",
    }
