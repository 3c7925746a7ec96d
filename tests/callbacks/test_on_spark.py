"""The table on Spark, whose tasks are the workers: a few cells in the suite, all in the soak."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.callbacks import rules
from tests.callbacks.cases import cells, marked
from tests.callbacks.conducts import Conduct
from tests.callbacks.kind import Kind

pytestmark = [pytest.mark.spark, pytest.mark.flaky(reruns=1)]

IN_SUITE = {("keyed-yield", "exit"), ("sink-take", "unpicklable")}
CELLS = [marked(cell, in_suite=(cell[0].name, cell[1].name) in IN_SUITE) for cell in cells()]


@pytest.mark.parametrize(("kind", "conduct"), CELLS)
def test_what_a_callback_raises_is_told_and_nothing_is_lost(
    kind: Kind, conduct: Conduct, spark: Any, tmp_path: Path
) -> None:
    rules.check(kind, conduct, tmp_path, "spark", spark)
