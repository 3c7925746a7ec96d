"""File descriptors: a job that has ended holds none of its files any more."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors import Files, FileSink
from tests.drive.ledger import await_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks /proc for open files")
PATIENCE_S = 60.0


class Count(ms.KeyedProcess):
    n = ms.ValueState("long")

    def process(self, row: Any, ctx: Any) -> Any:
        self.n.update((self.n.get() or 0) + 1)
        return ctx.key, self.n.get()


def open_below(folder: Path) -> list[str]:
    """The files below a folder that this process has open, but for the one by which a process keeps
    the directory of its databases as long as it lives."""
    found = []
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        except FileNotFoundError:
            continue  # the one that lists the others
    below = [path for path in found if path.startswith(f"{folder}{os.sep}")]
    return [path for path in below if Path(path).name != "owner"]


def check_none_is_left(folder: Path) -> None:
    (folder / "rows.jsonl").write_text("".join(f'{{"k": {n % 7}}}\n' for n in range(200)))
    env = ms.Environment(
        spark="embedded",
        snapshots=ms.Snapshots(
            folder / "snapshots", every="20ms", local_recovery=True, local_dir=folder / "copies"
        ),
        state=ms.RocksDB("16MiB", folder / "db"),
    )
    rows = env.source(Files(folder / "rows.jsonl", schema="k long", batch_rows=20), uid="rows")
    counted = rows.key_by("k").process(Count(), "k long, n long", uid="count")
    counted.sink(FileSink(folder / "out"), uid="out")
    job = env.start("descriptors")
    assert job.wait(PATIENCE_S, progress=False) == "finished"
    await_until(lambda: not open_below(folder), f"{open_below(folder)} are closed", 5.0)


def test_a_job_that_has_ended_has_no_file_open(tmp_path: Path) -> None:
    check_none_is_left(tmp_path)


@pytest.mark.mutation
def test_a_file_that_is_never_closed_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound, leaked = FileSink.open, []

    def leaking(sink: FileSink, context: Any) -> Any:
        writer = sound(sink, context)
        leaked.append(os.open(os.path.join(sink.path, "_mainstay"), os.O_RDONLY))
        return writer

    monkeypatch.setattr(FileSink, "open", leaking)
    try:
        with pytest.raises(AssertionError):
            check_none_is_left(tmp_path)
    finally:
        for descriptor in leaked:
            os.close(descriptor)
