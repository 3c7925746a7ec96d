"""What functions print in Spark's Python processes reaches the driver."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

import mainstay as ms

pytestmark = pytest.mark.spark


def talking() -> Any:
    """A class of a function, so that it is sent along: Spark's processes cannot import tests."""

    class Talking(ms.KeyedProcess):
        def process(self, row: Any, ctx: Any) -> Any:
            print("printed", row.n)
            logging.getLogger("author").warning("logged %d", row.n)
            yield (row.n,)

    return Talking()


def test_lines_come_once_with_their_operator(
    spark: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    env = ms.Environment(spark=spark, parallelism=2, snapshots=ms.Snapshots(tmp_path))
    rows = env.source(ms.connectors.Sequence(end=20), uid="in")
    keyed = rows.map(lambda row: (row.id,), "n long", uid="named").key_by("n")
    keyed.process(talking(), "n long", uid="talk").sink(ms.connectors.Memory(), uid="out")
    job: Any = env.start("talking")
    assert job.wait(120, progress=False) == "finished"
    lines = [each.line for each in job.insight.output.lines()[0]]
    printed = [each for each in lines if each.text.startswith("printed")]
    assert sorted(int(each.text.split()[1]) for each in printed) == list(range(20))
    assert {each.operator for each in lines if "ogged" in each.text} == {"talk"}
    told = capfd.readouterr()
    assert (told.err + told.out).count("printed 7\n") == 1
    assert any(f"[talk {n}] printed 7\n" in told.err for n in (0, 1))
