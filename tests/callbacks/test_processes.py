"""The table where workers are processes: what is raised in one is told in another."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.callbacks import rules
from tests.callbacks.cases import cells, marked
from tests.callbacks.conducts import Conduct
from tests.callbacks.kind import Kind

IN_SUITE = {
    ("keyed", "unpicklable"),
    ("sink-take", "pair"),
    ("process-close", "interrupt"),
    ("source-poll", "speechless"),
}
CELLS = [marked(cell, in_suite=(cell[0].name, cell[1].name) in IN_SUITE) for cell in cells()]


@pytest.mark.flaky(reruns=1)
@pytest.mark.parametrize(("kind", "conduct"), CELLS)
def test_what_a_callback_raises_is_told_and_nothing_is_lost(
    kind: Kind, conduct: Conduct, tmp_path: Path
) -> None:
    rules.check(kind, conduct, tmp_path, "processes")
