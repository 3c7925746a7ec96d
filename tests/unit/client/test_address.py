"""The address of a job is read with its token, and shown without."""

from __future__ import annotations

import pytest

from mainstay.client.address import Address, is_address
from mainstay.client.service import error_named
from mainstay.errors import BehindError, GraphError, MainstayError, StateTypeError


def test_an_address_is_taken_apart() -> None:
    found = Address.of("http://127.0.0.1:40123/#token=abc-_1")
    assert (found.host, found.port, found.path, found.token) == ("127.0.0.1", 40123, "", "abc-_1")
    assert str(found) == "http://127.0.0.1:40123"
    assert "abc" not in repr(found)


def test_a_proxy_may_be_before_it() -> None:
    found = Address.of("https://jobs.lan/totals/#token=t")
    assert (found.scheme, found.port, found.path) == ("https", 443, "/totals")
    assert str(Address.of("http://[::1]:8080/#token=t")) == "http://[::1]:8080"


def test_a_token_may_be_given_apart() -> None:
    assert Address.of("http://host:1", "t").token == "t"
    assert Address.of("http://host:1/#token=own", "t").token == "own"


@pytest.mark.parametrize("wrong", ["http://", "http://host:port", "ftp://host", "http://:80"])
def test_what_is_no_address_is_refused(wrong: str) -> None:
    with pytest.raises(GraphError, match="no address"):
        Address.of(f"{wrong}#token=secret")


def test_places_of_snapshots_are_no_addresses() -> None:
    assert is_address("http://host")
    assert is_address("HTTPS://host")
    for place in ("./snapshots", "s3://bucket/job", "https", None, 3):
        assert not is_address(place)


def test_an_error_is_the_one_that_it_was() -> None:
    assert error_named("BehindError") is BehindError
    assert error_named("StateTypeError") is StateTypeError
    assert error_named("TimeoutError") is TimeoutError
    # It is made of more than a text; and these are none of ours.
    for name in ("UserFunctionError", "KeyError", "annotations", "pickle", ""):
        assert error_named(name) is MainstayError
