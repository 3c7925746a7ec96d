"""Values go through JSON and come back as they were."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from mainstay.errors import StateTypeError
from mainstay.inspect.exact_values import decoded, encoded

VALUES = [
    *(None, True, 0, -(2**63), 1.5, "", "ä$b", b"", b"\x00\xff", Decimal("1.50"), date(2026, 1, 2)),
    *(datetime(2026, 1, 2, 3, 4, 5, 6), datetime(2026, 1, 2, tzinfo=timezone.utc)),
    *(timedelta(days=-1, microseconds=7), ("a", None, (1, b"x")), [1, [2]], float("inf")),
    *({"a": 1, "b": (2,)}, {"$bytes": "00"}, {}, {1: "one"}),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    found = decoded(json.loads(json.dumps(encoded(value))))
    assert found == value
    assert type(found) is type(value)


def test_numbers_of_numpy_are_sent_as_numbers() -> None:
    assert encoded(np.int64(3)) == 3
    assert np.isnan(decoded(encoded(float("nan"))))


def test_what_cannot_be_sent_or_read_is_refused() -> None:
    with pytest.raises(StateTypeError, match="cannot be sent"):
        encoded(object())
    for wrong in ({}, {"$what": 1}, {"$bytes": "x"}, {"$decimal": "x"}, {"$dict": 1}, {"a": 1}):
        with pytest.raises(StateTypeError):
            decoded(wrong)
