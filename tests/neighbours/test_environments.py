"""Processes with odd settings: no HOME, other locales and time zones, odd paths, few files.

Each job is a process of its own, and its rows, with times, dates, decimals and texts in them, must
be those of a plain loop. The suite has everything odd at once; the soak has each by itself.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mainstay.connectors import Files
from mainstay.errors import SourceError
from mainstay.snapshot.panics import without_panics
from tests.neighbours.jobs import DRIVES, NeighbourJob

ODD_NAME = "-a b'c\"d%20e#f?g*h\\i;j&k$l~m,n=o:pé字\U0001f600 %s {x}\ny"
NO_UTF8 = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
ENVIRONMENTS: dict[str, dict[str, str | None]] = {
    "no HOME and no USER": {"HOME": None, "USER": None, "LOGNAME": None},
    "a HOME that is not there": {"HOME": "/nonexistent/home"},
    "a TMPDIR that is not there": {"TMPDIR": "/nonexistent/tmp"},
    "the locale POSIX without UTF-8": NO_UTF8,
    "a Turkish locale": {"LC_ALL": "tr_TR.UTF-8"},
    "a German locale": {"LC_ALL": "de_DE.UTF-8"},
    "the time zone of Apia": {"TZ": "Pacific/Apia"},
    "the time zone of Kathmandu": {"TZ": "Asia/Kathmandu"},
    "a time zone that is none": {"TZ": "nonsense"},
    "hashes of another seed": {"PYTHONHASHSEED": "7"},
    "nothing in the environment": {name: None for name in os.environ if name != "PYTHONPATH"},
}
ALL_AT_ONCE = {
    "LC_ALL": "POSIX",
    "TZ": "Pacific/Apia",
    "HOME": None,
    "USER": None,
    "LOGNAME": None,
    "MAINSTAY_REGISTRY": None,
    "PYTHONHASHSEED": "7",
}


def without_streams() -> None:
    os.umask(0o077)
    for stream in range(3):
        os.close(stream)


def files(most: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def job_in(folder: Path, drive: str, **settings: Any) -> NeighbourJob:
    job = NeighbourJob(folder, drive=drive, state="rocksdb", **settings)
    job.database = str(folder / "db")
    # As a pattern the name would stand for others.
    job.glob = os.fspath(folder / "rows").translate({ord(c): f"[{c}]" for c in "*?["})
    job.write_rows()
    return job


def check_all_at_once(folder: Path, drive: str, *flags: str) -> None:
    job = job_in(folder / ODD_NAME, drive, ui=True)
    environ = {**ALL_AT_ONCE, "TMPDIR": os.fspath(job.folder)}
    job.check(job.run(environ=environ, flags=flags, before=without_streams))


def test_a_job_runs_where_everything_is_odd_at_once(tmp_path: Path) -> None:
    check_all_at_once(tmp_path, "embedded")


@pytest.mark.soak
@pytest.mark.parametrize("flag", ["-O", "-OO"])
@pytest.mark.parametrize("drive", DRIVES)
def test_a_job_runs_where_everything_is_odd_and_assertions_are_off(
    tmp_path: Path, drive: str, flag: str
) -> None:
    # Optimised files of other packages are not for this test to leave behind.
    check_all_at_once(tmp_path, drive, "-B", flag)


@pytest.mark.soak
@pytest.mark.parametrize("name", ENVIRONMENTS)
@pytest.mark.parametrize("drive", DRIVES)
def test_a_job_runs_in_an_odd_environment(tmp_path: Path, drive: str, name: str) -> None:
    job = job_in(tmp_path / "job", drive, ui=True)
    job.check(job.run(environ=ENVIRONMENTS[name]))


@pytest.mark.soak
@pytest.mark.parametrize("drive", DRIVES)
def test_a_job_runs_below_a_path_that_no_socket_could_have(tmp_path: Path, drive: str) -> None:
    folder = tmp_path / ("x" * 200) / ("y" * 200) / ("z" * 200)
    job = job_in(folder, drive)
    job.check(job.run(environ={"TMPDIR": os.fspath(folder)}))


@pytest.mark.soak
@pytest.mark.parametrize("drive", DRIVES)
def test_a_job_goes_on_under_other_settings_with_the_same_results(
    tmp_path: Path, drive: str
) -> None:
    job = job_in(tmp_path / "job", drive)
    job.write_rows(0, 100, "first")
    for file in (tmp_path / "job" / "rows").glob("rows-*"):
        file.unlink()
    assert job.run(environ=ENVIRONMENTS["the time zone of Apia"]).get("status") == "finished"
    job.write_rows(100, None, "second")
    job.check(job.run(environ={**ALL_AT_ONCE, "TZ": "Asia/Kathmandu"}, flags=("-O",)))


@pytest.mark.soak
@pytest.mark.parametrize("most", [24, 40, 64])
@pytest.mark.parametrize("drive", DRIVES)
def test_a_job_with_few_files_finishes_or_says_that_there_are_too_many(
    tmp_path: Path, drive: str, most: int
) -> None:
    job = job_in(tmp_path / "job", drive)
    outcome = job.run(before=files(most))
    if "error" in outcome:
        assert "Too many open files" in outcome["message"]
        outcome = job.run()
    job.check(outcome)


@pytest.mark.mutation
def test_a_row_whose_time_was_moved_is_noticed(tmp_path: Path) -> None:
    job = NeighbourJob(tmp_path)
    good = [{**row, "count": 1, "longest": ""} for row in job.expected_rows()]
    assert job.wrong_rows(good)
    right = job.results()
    assert not job.wrong_rows(right)
    right[3]["day"] = right[3]["day"].replace(day=1 if right[3]["day"].day != 1 else 2)
    assert job.wrong_rows(right)


# ---------------------------------------------------------------- paths of files


def planned(path: str) -> None:
    source = Files(path, schema="n long")
    source.plan(frozenset())


def test_a_path_that_looks_like_a_pattern_is_said_how_to_write(tmp_path: Path) -> None:
    folder = tmp_path / "a[b]c"
    folder.mkdir()
    (folder / "rows.jsonl").write_text('{"n": 1}\n')
    with pytest.raises(SourceError, match=r"taken for a pattern: .* write '.*a\[\[\]b\]c'") as told:
        planned(str(folder))
    planned(str(told.value).rpartition("write '")[2].removesuffix("'."))


@pytest.mark.skipif(sys.platform != "linux", reason="names are any bytes on Linux alone")
def test_a_name_that_is_no_text_is_refused(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/a\xffb"))
    folder.mkdir()
    (folder / "rows.jsonl").write_text('{"n": 1}\n')
    with pytest.raises(SourceError, match=r"a\\udcffb.*is no UTF-8 text. Rename"):
        planned(str(folder))


def test_a_panic_of_a_library_is_an_error_that_is_handled() -> None:
    panic = type("PanicException", (BaseException,), {"__module__": "pyo3_runtime"})

    def panicking() -> None:
        raise panic("Unable to build Tokio runtime: Too many open files\nmore")

    with pytest.raises(OSError, match=r"Tokio runtime: Too many open files.*ulimit -n"):
        without_panics(panicking)()

    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        without_panics(interrupted)()
