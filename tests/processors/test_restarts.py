"""Spark's own tests of queries that are started again (2, 14 to 16): real jobs on the embedded
drive, a file of rows for each start, one job that goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import mainstay as ms
from mainstay.errors import GraphError, RestoreError
from tests.processors import processors as p
from tests.processors.slices import VARIANTS, InRows, variant

DRIVE: Any = "embedded"
"""What the jobs run on; tests/spark has them on a session."""


class Started:
    """A job in a folder, which every start gives one file more."""

    def __init__(self, folder: Path, how: type = InRows) -> None:
        self._folder = folder
        self._how = how
        self._files = 0
        (folder / "in").mkdir()

    def run(self, processor: type, rows: list[tuple[str, int]], **options: Any) -> list[Any]:
        """What a start emits that finds these rows new."""
        self._files += 1
        lines = [json.dumps({"id": key, "temperature": value}) for key, value in rows]
        text = "".join(f"{line}\n" for line in lines)
        (self._folder / "in" / f"{self._files}.json").write_text(text)
        goes_on = {} if self._files == 1 else {"restore": "latest"}
        snapshots = ms.Snapshots(self._folder / "snapshots")
        env = ms.Environment(spark=DRIVE, parallelism=1, snapshots=snapshots, **goes_on)
        source = ms.connectors.Files(self._folder / "in", schema=p.INPUT)
        made, out = variant(processor, self._how)(), ms.connectors.Memory()
        stream = env.source(source, uid="in").key_by("id")
        stream.transform_with_state(
            made, processor.output, in_pandas=made.in_pandas, uid="f", **options
        ).sink(out, uid="out")
        assert env.start("job").wait(timeout=60) == "finished"
        return sorted(out.rows())


def shaped(name: str) -> type:
    return type("Evolving", (p.Evolving,), {"shape": name, "__module__": p.__name__})


@pytest.mark.parametrize("how", VARIANTS)
def test_2_a_query_goes_on(how: type, tmp_path: Path) -> None:
    job = Started(tmp_path, how)
    assert job.run(p.Simple, p.R1) == [("0", "2"), ("1", "2")]
    assert job.run(p.Simple, p.R2) == [("0", "3"), ("1", "2")]


@pytest.mark.parametrize("how", VARIANTS)
def test_14_types_change_from_start_to_start(how: type, tmp_path: Path) -> None:
    job = Started(tmp_path, how)
    assert job.run(shaped("basic"), p.R3) == [("0", "None"), ("1", "None")]
    found = job.run(shaped("added"), p.R3)
    assert found == [(key, f"(0, 'name-{key}{key}', None, None)") for key in "01"]
    found = job.run(shaped("removed"), p.R3)
    assert found == [(key, f"(0, 'name-{key}{key}')") for key in "01"]
    found = job.run(shaped("reordered"), p.R3)
    assert found == [(key, f"('name-{key}{key}', 0, None)") for key in "01"]
    found = job.run(shaped("upcast"), p.R3)
    assert found == [(key, f"(0, 'name-{key}{key}')") for key in "01"]


@pytest.mark.parametrize("how", VARIANTS)
def test_15_what_loses_digits_is_refused(how: type, tmp_path: Path) -> None:
    job = Started(tmp_path, how)
    job.run(shaped("added"), p.R3)
    found = job.run(shaped("upcast"), p.R3)
    assert found == [(key, f"(0, 'name-{key}{key}')") for key in "01"]
    with pytest.raises(RestoreError, match=r"'f.valueState' .*id: long to int"):
        job.run(shaped("basic"), p.R3)


def test_16_fields_need_not_be_nullable(tmp_path: Path) -> None:
    """Spark refuses this where types may change; here it is the change that is refused."""
    job = Started(tmp_path)
    assert job.run(shaped("not_nullable"), p.R3) == [("0", "None"), ("1", "None")]
    assert job.run(shaped("basic"), p.R3) == [("0", "(1, 'x')"), ("1", "(1, 'x')")]
    with pytest.raises(RestoreError, match="NOT NULL"):
        job.run(shaped("not_nullable"), p.R3)


class Keeping(p.Base):
    output = "id string, n long"

    def init(self, handle: Any) -> None:
        self.count = handle.getValueState("count", "n long")
        self.old = handle.getListState("old", "n long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        count = (self.count.get() or (0,))[0] + len(self.values(rows, "temperature"))
        self.count.update((count,))
        self.old.appendValue((count,))
        yield self.out(id=key[0], n=count)


class Forgetting(Keeping):
    """The same program later: one state is not used any more."""

    def init(self, handle: Any) -> None:
        self.count = handle.getValueState("count", "n long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        count = (self.count.get() or (0,))[0] + len(self.values(rows, "temperature"))
        self.count.update((count,))
        yield self.out(id=key[0], n=count)


class Deleting(Forgetting):
    def init(self, handle: Any) -> None:
        super().init(handle)
        handle.deleteIfExists("old")


def test_a_state_goes_when_its_program_deletes_it(tmp_path: Path) -> None:
    job = Started(tmp_path)
    assert job.run(Keeping, p.R3) == [("0", 1), ("1", 1)]
    with pytest.raises(RestoreError, match=r"allow_dropped=\['f.old'\]"):
        job.run(Forgetting, [])
    assert job.run(Deleting, p.R3) == [("0", 2), ("1", 2)]


def test_timers_of_an_earlier_start_fire_in_the_next(tmp_path: Path) -> None:
    job = Started(tmp_path)
    first = job.run(p.ProcTime, p.R3, time_mode="ProcessingTime")
    # The end of the rows may come before or after the millisecond that the timer waits for.
    assert [row for row in first if row[1] != "-1"] == [("0", "1"), ("1", "1")]
    again = job.run(p.ProcTime, p.R1, time_mode="ProcessingTime")
    fired = [row for row in first + again if row == ("0", "-1")]
    assert len(fired) in (1, 2)
    assert ("1", "3") in again


def test_a_state_that_changes_with_the_day_is_refused() -> None:
    class Moody(Keeping):
        def init(self, handle: Any) -> None:
            for name in self.names:
                handle.getValueState(name, "n long")

        names = ("a", "a")

    env = ms.Environment(spark="embedded")
    keyed = env.source(ms.connectors.Rows(p.INPUT, []), uid="in").key_by("id")
    with pytest.raises(GraphError, match="DUPLICATE_STATE_VARIABLE"):
        keyed.transform_with_state(variant(Moody, InRows)(), "id string", uid="f")
