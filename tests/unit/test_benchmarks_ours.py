"""Our own measurements in their smallest form: settings, the line of JSON, and the tables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _benchmarks_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))


@pytest.mark.parametrize(
    ("name", "variant", "place"),
    [
        ("", "process", "spark"),
        ("spark", "process", "spark"),
        ("processes", "process", "processes"),
        ("process_batches", "process_batches", "spark"),
        ("process_batches-processes", "process_batches", "processes"),
        ("processes-process_batches", "process_batches", "processes"),
    ],
)
def test_a_setting_names_what_is_run_and_where(name: str, variant: str, place: str) -> None:
    from benchmarks.ours.setting import parse_setting

    found = parse_setting(name, ("process", "process_batches"))
    assert (found.variant, found.place) == (variant, place)


def test_an_unknown_setting_is_refused_with_those_that_exist() -> None:
    from benchmarks.ours.setting import parse_setting

    with pytest.raises(SystemExit, match="'mars' is none of process, spark, processes"):
        parse_setting("process-mars", ("process",))


def test_a_result_is_one_line_with_its_rate_and_its_table() -> None:
    from benchmarks.ours.result import Result
    from benchmarks.report import Table

    table = Table("Cost", ["keys", "ms"])
    table.add(10, "0.5")
    line = Result("W4", "cost-spark", 100, 4.0, True, table=table).to_json()
    assert "\n" not in line
    answer = json.loads(line)
    assert answer["records_per_s"] == 25.0
    assert answer["latency_ms"] is None
    assert answer["table"]["rows"] == [["10", "0.5"]]


def test_every_setting_of_the_harness_exists() -> None:
    from benchmarks.harness import systems
    from benchmarks.ours.__main__ import WORKLOADS
    from benchmarks.ours.setting import parse_setting

    _, _, settings = systems._SYSTEMS[systems.OURS]
    for workload, names in settings.items():
        for name in names:
            assert parse_setting(name, WORKLOADS[workload].variants).name == name


def test_visits_touch_every_page_once_before_any_twice() -> None:
    from benchmarks.ours.amount import LARGE, SIZES
    from benchmarks.ours.visits import _STRIDE, Visits

    assert sorted(Visits(1000)(0, 1000).column(0).to_pylist()) == list(range(1000))
    assert all(pages % _STRIDE and _STRIDE % 2 and _STRIDE % 5 for pages in (*SIZES, *LARGE))


def test_a_stopped_world_is_drained_before_its_snapshot_and_runs_after_it() -> None:
    from benchmarks.ours.stop_the_world import Worlds

    with Worlds(1000) as world:
        world.stopping()
        assert world.sink.rows == world.source.given
        assert world.stopped_s[-1] == world.total_s[-1]
        assert world.rate(0.05, 0.02, world.pipelined) > 0
        assert len(world.stopped_s) >= 2


def test_windows_alternate_and_each_one_of_a_pair_takes_a_snapshot() -> None:
    from benchmarks.ours.price import PAIRS, _alternate

    found = _alternate(1000, 0.01)
    assert len(found.without) == len(found.during) == len(found.figures) == PAIRS
    assert all(figures.size_bytes > 0 for figures in found.figures)
    assert found.kept > 0


def test_a_state_takes_memory() -> None:
    from benchmarks.ours.amount import Amount
    from benchmarks.ours.price import price
    from benchmarks.ours.setting import Setting

    result = price(Setting("memory", "memory", "spark"), Amount(1.0, keys=(50_000,)))
    assert result.table is not None
    [[keys, bare, state, _]] = result.table.rows
    assert keys == "50,000"
    assert int(bare) > 0
    assert int(state) > 0
