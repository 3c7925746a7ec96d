"""No secret is left in what people see."""

from __future__ import annotations

import pytest

from mainstay.masking import (
    has_login,
    is_secret,
    masked,
    masked_settings,
    masked_url,
    secrets_of,
)

SECRET = "s3cr3t"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://app:s3cr3t@db/shop", "postgresql://app:***@db/shop"),
        ("postgresql://app:s3cr3t/x?y=z:q@w@db/shop", "postgresql://app:***@db/shop"),
        ("at s3://key:s3cr3t@bucket/x and on", "at s3://key:***@bucket/x and on"),
        ("postgresql://app@db:5432/shop", "postgresql://app@db:5432/shop"),
        ("host=db password=s3cr3t user=app", "host=db password=*** user=app"),
        ("host=db PASSWORD = 's3 \\' s3cr3t' user=app", "host=db PASSWORD = *** user=app"),
        ("password='s3cr3t never ends", "password=***"),
        ("sslpassword=s3cr3t", "sslpassword=***"),
        ("sasl.password=s3cr3t, retries=3", "sasl.password=***, retries=3"),
        ("https://h/x?token=s3cr3t&page=2", "https://h/x?token=***&page=2"),
        ("Authorization: Bearer s3cr3ts3cr3t", "Authorization: ***"),
        ("nothing to hide: key = 5, column = 'a'", "nothing to hide: key = 5, column = 'a'"),
    ],
)
def test_a_secret_is_known_by_its_place(text: str, shown: str) -> None:
    assert masked(text) == shown


def test_a_secret_that_is_known_is_hidden_wherever_it_is() -> None:
    assert masked("no such host: x s3cr3t y", [SECRET]) == "no such host: x *** y"
    assert masked("a cat", ["a"]) == "a cat"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://h/orders", "https://h/orders"),
        ("https://h/orders?a=s3cr3t&b", "https://h/orders?…"),
        ("https://h/orders?s3cr3t", "https://h/orders?…"),
        ("https://h/T0/B0/aB3dE6gH9jK2mN5pQ8sT1vW4", "https://h/T0/B0/***"),
        ("https://u:s3cr3t@h/orders", "https://u:***@h/orders"),
        ("u:s3cr3t@h/orders", "***@h/orders"),
    ],
)
def test_a_web_address_shows_where_it_leads_and_no_more(url: str, shown: str) -> None:
    assert masked_url(url) == shown


@pytest.mark.parametrize(
    "name",
    [
        *("password", "sasl.password", "ssl.key.password", "ssl.key.pem", "sasl.jaas.config"),
        *("sasl.oauthbearer.config", "sasl.oauthbearer.client.secret", "AWS_SECRET_ACCESS_KEY"),
        *("aws_session_token", "azure_storage_account_key", "Authorization", "X-Api-Key"),
        *("access_token", "sslpassword", "azure_storage_sas_token", "Cookie", "apikey"),
    ],
)
def test_settings_that_are_secret_are_known_by_their_names(name: str) -> None:
    assert is_secret(name)
    assert masked_settings({name: SECRET}) == {name: "***"}
    assert secrets_of({name: SECRET, "host": "h"}) == [SECRET]


@pytest.mark.parametrize(
    "name",
    [
        *("bootstrap.servers", "group.id", "sasl.mechanism", "security.protocol", "region", "host"),
        *("key", "sort_key", "partition", "compass", "transactional.id", "passfile_not", "signal"),
    ],
)
def test_other_settings_are_shown(name: str) -> None:
    assert not is_secret(name)


def test_a_url_with_a_password_is_known() -> None:
    assert has_login("s3://key:s3cr3t@bucket/x")
    assert has_login("s3://key:s3/cr@3t@bucket/x")
    assert not has_login("s3://bucket/x:y@z")
    assert not has_login("/a/path:with@all")
