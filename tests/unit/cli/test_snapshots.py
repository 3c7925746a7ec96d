"""``mainstay snapshots``: what it says of real directories, whole and damaged."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from mainstay import cli
from mainstay.errors import JobFailedError, UserFunctionError
from tests.unit.drive import failing
from tests.unit.drive.test_embedded import PATIENCE_S, Gated, Telling, start

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("typer") is None, reason="the command is an extra"
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a finished job of two attempts, and a savepoint of it beside."""
    base = tmp_path_factory.mktemp("surveyed")
    source, sink = Gated(), Telling()
    job = start(base / "snapshots", source, sink)
    sink.await_half()
    job.savepoint(base / "saved", PATIENCE_S)
    job.cancel()
    source.open_gate()
    job = start(base / "snapshots", source, sink, restore="latest", parallelism=3)
    assert job.wait(PATIENCE_S) == "finished"
    return base


@pytest.fixture
def base(made: Path, tmp_path: Path) -> Path:
    """A copy that may be damaged."""
    shutil.copytree(made, tmp_path / "copy")
    return tmp_path / "copy"


class Ended:
    """How a call of the command ended, and what it printed."""

    def __init__(self, code: Any, out: str) -> None:
        self.is_error = code not in (0, None)
        self.said = f"{out} {code if isinstance(code, str) else ''}"
        self.out = out


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.setenv("COLUMNS", "200")

    def called(*arguments: object) -> Ended:
        monkeypatch.setattr(sys, "argv", ["mainstay", "snapshots", *map(str, arguments)])
        capsys.readouterr()
        code: Any = 0
        try:
            cli.main()
        except SystemExit as ended:
            code = ended.code
        printed = capsys.readouterr()
        return Ended(code, printed.out + printed.err)

    return called


def largest(directory: Path) -> Path:
    return max((directory / "state").rglob("*.msty"), key=lambda path: path.stat().st_size)


def test_a_whole_directory_is_listed_and_verified(base: Path, call: Any) -> None:
    ended = call(base / "snapshots", "--epoch", "latest", "--verify", "--orphans")
    assert not ended.is_error
    assert "sums" in ended.out


def test_a_finished_job_is_said_to_be_finished(base: Path, call: Any) -> None:
    assert "  finished 2" in call(base / "snapshots").out
    found = json.loads(call(base / "snapshots", "--json").out)
    assert (found["state"], found["finished"], found["may_be_running"]) == ("finished", True, None)
    assert found["ended_at"] > 1_700_000_000


@pytest.mark.parametrize("how", ["stopped", "cancelled", "failed"])
def test_a_job_that_has_ended_otherwise_is_said_to_have(
    tmp_path: Path, call: Any, how: str
) -> None:
    source, sink = Gated(), Telling()
    job = start(tmp_path, source, sink)
    sink.await_half()
    if how == "stopped":
        job.stop(timeout=PATIENCE_S)
    elif how == "cancelled":
        job.cancel()
    else:
        job.post(lambda: job._leadership.fail(JobFailedError("all is lost")))
        with pytest.raises(JobFailedError, match="all is lost"):
            job.wait(PATIENCE_S)
    assert job.status == how
    assert f"  {how} 2" in call(tmp_path).out
    found = json.loads(call(tmp_path, "--json").out)
    assert (found["state"], found["finished"], found["may_be_running"]) == (how, False, None)
    assert found["reason"] == ("all is lost" if how == "failed" else "")


def test_a_job_of_which_nobody_has_heard_for_long_is_not_known_to_have_ended(
    tmp_path: Path, call: Any
) -> None:
    source, sink = Gated(), Telling()
    job = start(tmp_path, source, sink)
    sink.await_half()
    found = json.loads(call(tmp_path, "--json").out)
    assert (found["state"], found["ended_at"]) == ("running", None)
    assert "may be running" in found["may_be_running"]
    job.cancel()
    # A leader that is killed does not get to say anything.
    max((tmp_path / "log").iterdir()).unlink()
    for path in tmp_path.rglob("*"):
        os.utime(path, (1_600_000_000, 1_600_000_000))
    found = json.loads(call(tmp_path, "--json").out)
    assert (found["state"], found["may_be_running"]) == ("unknown", None)
    assert "its last leader has not said how it ended" in call(tmp_path).out


def test_a_savepoint_is_verified_too(base: Path, call: Any) -> None:
    ended = call(base / "saved", "--verify")
    assert not ended.is_error
    assert "sums" in ended.out


def test_everything_can_be_had_as_json(base: Path, call: Any) -> None:
    ended = call(base / "snapshots", "--epoch", "latest", "--verify", "--orphans", "--json")
    assert not ended.is_error
    assert isinstance(json.loads(ended.out), dict)


def test_orphans_are_removed_only_when_that_is_wanted(base: Path, call: Any) -> None:
    folder = base / "snapshots" / "state" / "sums" / "a0001"
    folder.mkdir(parents=True, exist_ok=True)
    orphan = folder / "s0000-dead.msty"
    orphan.write_bytes(b"x" * 99)
    assert orphan.name in call(base / "snapshots", "--orphans").out
    assert orphan.exists()
    assert not call(base / "snapshots", "--remove-orphans", "--yes").is_error
    assert not orphan.exists()
    assert not call(base / "snapshots", "--verify").is_error


def test_no_file_that_an_epoch_needs_is_removed_with_the_orphans(base: Path, call: Any) -> None:
    before = sorted(path for path in base.rglob("*") if path.is_file())
    assert not call(base / "snapshots", "--remove-orphans", "--yes").is_error
    after = sorted(path for path in base.rglob("*") if path.is_file())
    removed = set(before) - set(after)
    assert not call(base / "snapshots", "--verify").is_error
    assert all("/a0001/" in str(path) or "-a0001" in path.name for path in removed)


def test_a_flipped_byte_is_found_when_files_are_read(base: Path, call: Any) -> None:
    damaged = largest(base / "snapshots")
    data = bytearray(damaged.read_bytes())
    data[20] ^= 1
    damaged.write_bytes(data)
    ended = call(base / "snapshots", "--verify")
    assert ended.is_error
    assert damaged.name in ended.said


@pytest.mark.parametrize("harm", ["truncated", "deleted"])
def test_a_file_that_is_cut_or_gone_is_named(base: Path, call: Any, harm: str) -> None:
    damaged = largest(base / "snapshots")
    if harm == "deleted":
        damaged.unlink()
    else:
        damaged.write_bytes(damaged.read_bytes()[:-5])
    ended = call(base / "snapshots")
    assert ended.is_error
    assert damaged.name in ended.said


def test_a_path_that_is_not_there_is_not_made(base: Path, call: Any) -> None:
    ended = call(base / "absent")
    assert ended.is_error
    assert "absent" in ended.said
    assert not (base / "absent").exists()


def test_a_folder_that_is_no_history_is_said_to_be_none(base: Path, call: Any) -> None:
    (base / "empty").mkdir()
    ended = call(base / "empty")
    assert ended.is_error
    assert "empty" in ended.said


def test_a_damaged_slot_of_the_log_is_named(base: Path, call: Any) -> None:
    newest = max((base / "snapshots" / "log").iterdir())
    newest.write_bytes(b"{")
    ended = call(base / "snapshots")
    assert ended.is_error
    assert newest.name in ended.said


def test_the_history_shows_epochs_that_are_no_longer_kept(base: Path, call: Any) -> None:
    told = json.loads(call(base / "snapshots", "--history", 50, "--json").out)
    complete = [each["epoch"] for each in told["history"] if each["status"] == "complete"]
    # A leader that was cancelled may not have stored the figures of its last epochs.
    of_the_last = {each["epoch"] for each in told["epochs"] if each["attempt"] == 2}
    assert of_the_last
    assert of_the_last <= set(complete)
    newest = json.loads(call(base / "snapshots", "--history", 1, "--json").out)["history"]
    assert newest == told["history"][-1:]
    assert "Epochs that have ended" in call(base / "snapshots", "--history", 5).out


def test_failures_are_shown_with_the_frames_of_the_author(
    base: Path, call: Any, tmp_path: Path
) -> None:
    assert "no attempt has failed" in call(base / "snapshots", "--failures").out
    job = failing.start(tmp_path / "failed", failing.Raising())
    with pytest.raises(UserFunctionError):
        job.wait(PATIENCE_S)
    shown = call(tmp_path / "failed", "--failures").out
    assert "LookupError: no such order" in shown
    assert "raise LookupError" in shown, "the line of the author"
    (told,) = json.loads(call(tmp_path / "failed", "--failures", "--json").out)["failures"]
    assert (told["attempt"], told["outcome"]) == (1, "given up")
    refused = call(base / "saved", "--failures")
    assert refused.is_error
    assert "--failures" in refused.said


def test_a_savepoint_has_no_history(base: Path, call: Any) -> None:
    ended = call(base / "saved", "--history", 5)
    assert ended.is_error
    assert "--history" in ended.said


# ---------------------------------------------------------------- how it looks


def rows_under(title: str, out: str) -> list[str]:
    """The head and the rows of the table below a title."""
    _, _, below = out.partition(f"{title}")
    return [line for line in below.splitlines()[1:] if line.strip()]


def test_a_terminal_of_eighty_columns_shows_each_epoch_on_one_row(
    base: Path, call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = call(base / "snapshots").out
    # A table of savepoints may come below.
    head, *rows = rows_under("Epochs:", out.partition("Savepoints")[0])
    assert " ".join(head.split()) == "epoch attempt taken (UTC) size chain files lineage"
    assert all(row.split()[0].isdigit() and "all there" in row for row in rows)
    assert rows[-1].split()[-1] == "latest"


def test_a_narrow_terminal_leaves_columns_out_and_names_them(
    base: Path, call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = call(base / "snapshots", "--history", 3).out
    monkeypatch.setenv("COLUMNS", "80")
    narrow = call(base / "snapshots", "--history", 3).out
    assert "alignment" in wide.partition("Epochs that have ended")[2].splitlines()[1]
    head, first, *_ = rows_under("Epochs that have ended", narrow)
    assert "alignment" not in head
    assert first.split()[0].isdigit()
    assert "without attempt, alignment" in narrow
    assert "…" not in narrow


@pytest.mark.parametrize(
    "asked",
    [("--verify",), ("--orphans",), ("--history", 3), ("--failures",), ("--epoch", "latest")],
)
def test_what_is_asked_for_does_not_stand_below_the_overview(
    base: Path, call: Any, asked: tuple[object, ...]
) -> None:
    out = call(base / "snapshots", *asked).out
    assert "job numbers" in out
    assert "finished" in out
    assert "Attempts" not in out
    assert "Epochs:" not in out
