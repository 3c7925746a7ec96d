"""The whole product as processes, under a plan, in short; and bugs planted in the product."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.together.defects import DEFECTS
from tests.together.local_places import LocalPlaces
from tests.together.plan import Planned, plan
from tests.together.short import WEIGHTS, Short
from tests.together.storage import SmallDisk

pytestmark = pytest.mark.xdist_group("together")

SEED = 5
LENGTH_S = 20.0
APART_S = (1.5, 4.0)
KILL = Planned(0.0, "kill worker", "accounts", 0.0, 0.0)


@pytest.fixture(autouse=True)
def own_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSTAY_REGISTRY", str(tmp_path / "registry"))


def test_everything_together_is_exact_under_a_short_plan(tmp_path: Path) -> None:
    places = LocalPlaces(SEED, events=2_400, moves=1_800, rows_per_second=100.0)
    events = plan(SEED, LENGTH_S, APART_S, weights=WEIGHTS, quiet_s=2.0)
    with ExitStack() as closing:
        report = Short(tmp_path, places, closing).run(LENGTH_S / 60, events)
    print(report.text())
    assert report.differences == []
    assert sum(report.done.values()) >= len(events) // 2


def test_a_full_disk_below_rocksdb_and_sinks_costs_time_alone(tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path / "disk")
    if disk.reason is not None:
        pytest.skip(disk.reason)
    places = LocalPlaces(SEED, events=900, moves=0, rows_per_second=60.0)
    filled = Planned(0.5, "fill the local disk", "orders", 0.0, 3.0)
    with ExitStack() as closing:
        closing.callback(disk.close)
        run = Short(tmp_path, places, closing, jobs=["orders"], drivers=1, disk=disk)
        report = run.run(0.0, [filled])
        assert report.differences == []
        assert report.done == {"fill the local disk": 1}


def killed(folder: Path, defect: str) -> list[str]:
    """What is wrong with ``accounts`` when a worker was killed behind some epochs."""
    places = LocalPlaces(SEED, events=0, moves=800, rows_per_second=40.0)
    with ExitStack() as closing:
        run = Short(folder, places, closing, jobs=["accounts"], drivers=1, defect=defect)
        run.first_epochs = 3
        report = run.run(0.0, [KILL])
    assert report.done == {"kill worker": 1}
    return report.differences


@pytest.mark.mutation
@pytest.mark.parametrize(
    "defect",
    [
        # A minute each: one shows that the suite would notice, the soak tries the others.
        pytest.param(each, marks=pytest.mark.soak if number else ())
        for number, each in enumerate(DEFECTS)
    ],
)
def test_a_bug_in_the_product_is_noticed(tmp_path: Path, defect: str) -> None:
    found = " ".join(killed(tmp_path, defect))
    assert {
        "a restart goes back to the epoch before the last": "rows are doubled",
        "a restart leaves out the newest changes of a state": "keys are wrong",
    }[defect] in found
