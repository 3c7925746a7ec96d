"""Settings: durations, counts, and what an environment takes."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import mainstay as ms
from mainstay.api.options import seconds
from mainstay.errors import GraphError
from mainstay.runtime.options import RestartOptions, SnapshotOptions


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("500ms", 0.5),
        ("1s", 1.0),
        ("1.5 sec", 1.5),
        ("2 seconds", 2.0),
        ("10min", 600.0),
        ("10 Minutes", 600.0),
        ("3m", 180.0),
        ("2h", 7200.0),
        ("1 hour", 3600.0),
        ("7 days", 604800.0),
        (" 1 d ", 86400.0),
        (0, 0.0),
        (0.25, 0.25),
        (3, 3.0),
        (timedelta(minutes=5), 300.0),
    ],
)
def test_a_duration_is_a_number_with_a_unit_or_seconds(text: Any, expected: float) -> None:
    assert seconds(text, "every") == expected


@pytest.mark.parametrize(
    "text", ["", "s", "10", "ten seconds", "1 fortnight", "1s 5ms", None, True, [], "1e3 s"]
)
def test_anything_else_is_no_duration_and_shows_how_to_write_one(text: Any) -> None:
    with pytest.raises(GraphError, match=r'every=.*"500ms", "10s", "5 min" or "7 days"'):
        seconds(text, "every")


@pytest.mark.parametrize(
    "number", [-1, -0.001, float("nan"), float("inf"), "-1s", timedelta(seconds=-1)]
)
def test_a_duration_is_finite_and_not_negative(number: Any) -> None:
    with pytest.raises(GraphError, match=r"pause=.*zero or more"):
        seconds(number, "pause")


def test_settings_are_parsed_into_seconds() -> None:
    snapshots = ms.Snapshots(
        "./dir", every="1s", retain=5, timeout="2 min", min_pause="100ms", tolerable_failures=0
    )
    assert snapshots.parsed() == SnapshotOptions(1.0, 5, 120.0, 0.1, 0)
    restart = ms.Restart(max_failures=0, window="1h", backoff=0, max_backoff="5s")
    assert restart.parsed() == RestartOptions(0, 3600.0, 0.0, 5.0)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"dir": ""}, "needs a directory"),
        ({"dir": None}, "needs a directory"),
        ({"dir": "d", "every": "0s"}, "every='0s'.*more than zero"),
        ({"dir": "d", "every": "soon"}, "every='soon' is no duration"),
        ({"dir": "d", "every": "1 us"}, "no unit 'us': a microsecond is \"0.001ms\""),
        ({"dir": "d", "every": "2 weeks"}, "no unit 'weeks': a week is \"7 days\""),
        ({"dir": "d", "every": "1 month"}, "no unit 'month'.* write days"),
        ({"dir": "d", "every": "99999999 days"}, "too long.* at most 10,000,000 days"),
        ({"dir": "d", "retain": 0}, "retain=0.*at least 1"),
        ({"dir": "d", "retain": "3"}, "retain='3'.*whole number"),
        ({"dir": "d", "timeout": 0}, "timeout=0.*more than zero"),
        ({"dir": "d", "min_pause": "-1s"}, "min_pause="),
        ({"dir": "d", "tolerable_failures": -1}, "tolerable_failures=-1.*at least 0"),
    ],
)
def test_wrong_snapshot_settings_are_refused_where_they_are_written(
    arguments: dict[str, Any], problem: str
) -> None:
    with pytest.raises(GraphError, match=problem):
        ms.Snapshots(**arguments)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"max_failures": -1}, "max_failures=-1"),
        ({"max_failures": True}, "max_failures=True"),
        ({"window": "x"}, "window='x'"),
        ({"backoff": "1 lightyear"}, "backoff="),
        ({"max_backoff": float("inf")}, "max_backoff=inf"),
    ],
)
def test_wrong_restart_settings_are_refused_where_they_are_written(
    arguments: dict[str, Any], problem: str
) -> None:
    with pytest.raises(GraphError, match=problem):
        ms.Restart(**arguments)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"parallelism": 0}, "parallelism=0.*at least 1"),
        ({"parallelism": "2"}, "parallelism='2'.*whole number"),
        ({"parallelism": True}, "parallelism=True"),
        ({"max_parallelism": 0}, "max_parallelism=0"),
        ({"max_parallelism": 40_000}, "max_parallelism=40000.*32768"),
        ({"max_parallelism": 1.5}, "max_parallelism=1.5"),
        ({"mode": "twice"}, "mode='twice'.*exactly_once, at_least_once"),
        ({"mode": None}, "mode=None"),
        ({"snapshots": "./dir"}, r'snapshots=Snapshots\("./dir"\)'),
        ({"restart": 3}, r"restart=Restart\(\)"),
        ({"restore": "lates"}, 'restore=.*"latest", "latest-or-new"'),
        ({"restore": 0}, "restore=0 is unknown"),
        ({"restore": True}, "restore=True is unknown"),
        ({"restore": ["latest"]}, "restore="),
        ({"allow_dropped": "totals.total"}, 'allow_dropped=.*list.*"totals.total"'),
        ({"allow_dropped": ["totals"]}, "allow_dropped=.*an operator and a state"),
        ({"allow_dropped": [1]}, "allow_dropped="),
    ],
)
def test_wrong_settings_of_an_environment_are_refused_where_they_are_written(
    arguments: dict[str, Any], problem: str
) -> None:
    with pytest.raises(GraphError, match=problem):
        ms.Environment(**arguments)


@pytest.mark.parametrize("restore", [None, "latest", "latest-or-new", 7])
def test_what_may_be_restored_is_accepted(restore: Any) -> None:
    env = ms.Environment(restore=restore, allow_dropped=["a.b"], fall_back=True)
    assert env.restore.start == ("new" if restore is None else restore)
    assert env.restore.allow_dropped == frozenset({"a.b"})
    assert env.restore.fall_back


@pytest.mark.parametrize("name", ["", "  ", None, 7])
def test_a_job_needs_a_name(tmp_path: Path, name: Any) -> None:
    env = ms.Environment(snapshots=ms.Snapshots(tmp_path))
    with pytest.raises(GraphError, match="the name of a job"):
        env.start(name)


def test_a_job_needs_a_place_for_its_snapshots() -> None:
    env = ms.Environment()
    source = ms.connectors.Rows("n long", [(1,)])
    env.source(source, uid="in").sink(ms.connectors.Memory(), uid="out")
    with pytest.raises(GraphError, match=r'Environment\(snapshots=Snapshots\("./dir"\)\)'):
        env.start("job")


def test_relative_directories_mean_those_where_they_were_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    snapshots, backend = ms.Snapshots("./snapshots"), ms.RocksDB(directory="./state")
    monkeypatch.chdir("/")
    assert snapshots.dir == str(tmp_path / "snapshots")
    assert backend.parsed().directory == str(tmp_path / "state")
    assert ms.Snapshots("s3://bucket/jobs").dir == "s3://bucket/jobs"
