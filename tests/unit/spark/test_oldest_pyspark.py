"""A PySpark that is too old is refused by its version, not by a name that it lacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyspark
import pytest

import mainstay as ms
from mainstay.errors import SparkSetupError
from mainstay.spark.oldest_pyspark import OLDEST, require_pyspark
from tests.pages import ROOT


def _start() -> Any:
    env = ms.Environment(snapshots=ms.Snapshots("./snapshots"))
    rows = ms.connectors.Rows("k string", [("a",)])
    env.source(rows, uid="rows").sink(ms.connectors.Memory(), uid="out")
    return env.start("job")


def _process() -> Any:
    env = ms.Environment(spark="embedded")
    rows = ms.connectors.Rows("k string", [("a",)])
    return (
        env.source(rows, uid="rows")
        .key_by("k")
        .transform_with_state(object(), "k string", uid="states")
    )


@pytest.mark.parametrize("version", ["3.5.8", "4.0.5", "4.0.0.dev1"])
@pytest.mark.parametrize("use", [_start, _process, lambda: ms.spark.read_state])
def test_an_old_pyspark_is_named_with_the_one_that_is_needed(
    use: Callable[[], Any], version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pyspark, "__version__", version)
    message = rf"needs PySpark 4\.1 or newer, and PySpark {version} is installed. Install"
    with pytest.raises(SparkSetupError, match=message):
        use()


@pytest.mark.parametrize("version", ["4.1.0", "4.10.2", "4.3.0.dev0", "5.0.0", "of our own"])
def test_what_is_as_new_as_that_is_taken(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", version)
    require_pyspark()


def test_the_package_asks_for_the_same_version() -> None:
    assert f'"pyspark>={OLDEST[0]}.{OLDEST[1]}"' in (ROOT / "pyproject.toml").read_text()
