"""Readers of PySpark before 4.2 know no limits; those of later ones have them."""

from __future__ import annotations

from typing import Any

import pyspark
import pytest
from pyspark.sql.datasource import DataSource, InputPartition

from mainstay.errors import SourceError
from mainstay.spark.sources.source import pyspark_source


class Counting(DataSource):
    """Counts to three with a reader of any class: a data source needs no more than its methods."""

    reader_class: type = object

    def schema(self) -> str:
        return "n long"

    def streamReader(self, schema: Any) -> Any:  # noqa: N802
        return self.reader_class()


class WithoutLimits:
    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"at": 0}

    def latestOffset(self) -> dict[str, int]:  # noqa: N802
        return {"at": 3}

    def partitions(self, start: Any, end: Any) -> list[InputPartition]:
        return [InputPartition((start["at"], end["at"]))]


class WithLimits(WithoutLimits):
    def getDefaultReadLimit(self) -> int:  # noqa: N802
        return 2

    def latestOffset(self, start: dict[str, int], limit: int) -> dict[str, int]:  # noqa: N802
        return {"at": min(start["at"] + limit, 3)}


class WithLimitsOnOldSpark(WithoutLimits):
    def latestOffset(self, start: Any, limit: Any) -> dict[str, int]:  # noqa: N802
        return {"at": 3}


def plan(reader: type) -> int:
    """How many splits a first plan of a data source has; the first says where it begins."""
    data_source = Counting({})
    data_source.reader_class = reader
    return len(pyspark_source(data_source).plan(frozenset()))


@pytest.mark.parametrize("reader", [WithoutLimits, WithLimits])
def test_a_reader_is_asked_as_it_can_be(reader: type) -> None:
    assert plan(reader) == 2


def test_a_limit_that_this_pyspark_does_not_have_is_refused_with_the_version_that_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pyspark, "__version__", "4.1.4")
    message = r"takes a limit, which PySpark has since 4\.2; PySpark 4\.1\.4 is installed"
    with pytest.raises(SourceError, match=message):
        plan(WithLimitsOnOldSpark)
