"""The logs of a checkpoint: which batch counts, and what is said of those that cannot be read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from mainstay.errors import RestoreError
from mainstay.spark.checkpoints.logs import FORMAT_VERSION, CheckpointLogs, CommittedBatch


class Folder:
    """The files of a folder."""

    def __init__(self, path: Path) -> None:
        self.location = str(path)

    def names(self, folder: str) -> list[str]:
        path = Path(self.location) / folder
        return [each.name for each in path.iterdir()] if path.is_dir() else []

    def text(self, name: str) -> str:
        return (Path(self.location) / name).read_text()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkpoint with two committed batches, and one that was begun."""
    for name in ("offsets", "commits", "sources/0"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "metadata").write_text('{"id":"q"}')
    for batch in range(3):
        about = {"batchWatermarkMs": batch * 1000, "batchTimestampMs": 5, "conf": {"a": "b"}}
        lines = ["v1", json.dumps(about), f'{{"logOffset":{batch}}}', "-"]
        (tmp_path / f"offsets/{batch}").write_text("\n".join(lines))
        (tmp_path / f"sources/0/{batch}").write_text(f"v1\n{entry(batch)}")
    for batch in range(2):
        text = f'v1\n{{"nextBatchWatermarkMs":{batch * 1000 + 1000}}}'
        (tmp_path / f"commits/{batch}").write_text(text)
    return tmp_path


def entry(batch: int) -> str:
    return json.dumps({"path": f"file:///in/{batch}", "timestamp": 1, "batchId": batch})


def logs(folder: Path) -> CheckpointLogs:
    return CheckpointLogs(Folder(folder))


def test_the_last_committed_batch_counts(folder: Path) -> None:
    assert logs(folder).committed() == CommittedBatch(
        query_id="q",
        number=1,
        offsets=({"logOffset": 1}, None),
        fired_ms=1000,
        watermark_ms=2000,
        begun=2,
        settings={"a": "b", FORMAT_VERSION: "1"},
    )


def test_a_commit_says_the_format_of_the_state(folder: Path) -> None:
    (folder / "commits/1").write_text('v2\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{}}')
    found = logs(folder).committed()
    assert found.settings[FORMAT_VERSION] == "2"
    assert found.watermark_ms == 1000  # time never goes back


def test_a_checkpoint_that_goes_on_is_refused(folder: Path) -> None:
    found = logs(folder).committed()
    logs(folder).check_stood_still(found)
    (folder / "commits/2").write_text("v1\n{}")
    with pytest.raises(RestoreError, match="has gone on while it was read"):
        logs(folder).check_stood_still(found)


def test_files_of_batches_that_do_not_count_are_left_out(folder: Path) -> None:
    assert sorted(logs(folder).listed_files(0, 1)) == ["file:///in/0", "file:///in/1"]


def test_a_compacted_log_of_files_is_read(folder: Path) -> None:
    lines = "\n".join(["v1", *map(entry, range(10))])
    (folder / "sources/0/9.compact").write_text(lines)
    (folder / "sources/0/.9.compact.crc").write_bytes(b"\0")
    assert len(logs(folder).listed_files(0, 8)) == 9


def test_a_folder_that_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RestoreError, match=r"no checkpoint at .* checkpointLocation"):
        logs(tmp_path).committed()


def test_a_checkpoint_without_a_committed_batch_is_refused(folder: Path) -> None:
    for batch in range(2):
        (folder / f"commits/{batch}").unlink()
    with pytest.raises(RestoreError, match="has no committed batch"):
        logs(folder).committed()


@pytest.mark.parametrize("name", ["offsets/1", "commits/1", "metadata"])
def test_a_damaged_log_is_named(name: str, folder: Path) -> None:
    (folder / name).write_text("v1\n{" if name != "metadata" else "{")
    with pytest.raises(RestoreError, match=f"{name} is damaged"):
        logs(folder).committed()


def test_a_log_of_a_later_format_is_refused(folder: Path) -> None:
    (folder / "offsets/1").write_text("v7\n{}\n")
    with pytest.raises(RestoreError, match="begins with 'v7', and is read in the formats v1"):
        logs(folder).committed()
