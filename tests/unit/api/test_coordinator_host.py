"""Where executors reach the coordinator: what is taken, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

import mainstay as ms
from mainstay.errors import GraphError


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        (None, None),
        ("driver", "driver"),
        ("driver-1.example.org", "driver-1.example.org"),
        ("10.0.0.5", "10.0.0.5"),
        ("fd00::5", "fd00::5"),
        ("[fd00::5]", "fd00::5"),
    ],
)
def test_names_and_addresses_are_taken(given: str | None, taken: str | None) -> None:
    assert ms.Environment(spark="embedded", coordinator_host=given).coordinator_host == taken


@pytest.mark.parametrize(
    "given",
    ["", " ", "driver:4040", "tcp://driver", "a driver", "10.0.0.256", "0.0.0.0", "::", "-x", 7],
)
def test_anything_else_is_refused_with_an_example(given: Any) -> None:
    with pytest.raises(GraphError, match=r"coordinator_host=.*without a scheme or a port"):
        ms.Environment(spark="embedded", coordinator_host=given)


def test_it_is_part_of_what_an_environment_shows() -> None:
    assert "coordinator_host='driver'" in repr(ms.Environment(coordinator_host="driver"))
