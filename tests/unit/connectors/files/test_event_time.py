"""Event time of a watched directory, whose files are read in one go and then gone."""

from __future__ import annotations

from pathlib import Path

import pytest

import mainstay as ms
from mainstay.connectors import Files, Memory
from tests.drive.ledger import await_until


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_small_file_moves_event_time_though_nothing_follows(
    parallelism: int, tmp_path: Path
) -> None:
    incoming, out = tmp_path / "incoming", Memory()
    incoming.mkdir()
    env = ms.Environment(
        spark="embedded",
        parallelism=parallelism,
        snapshots=ms.Snapshots(tmp_path / "snapshots", every="200ms"),
    )
    events = Files(incoming, schema="name string, at timestamp", format="csv", watch=True)
    (
        env.source(events, uid="events", watermark=ms.Watermark("at"))
        .key_by("name")
        .window(ms.tumbling("1min"))
        .aggregate(rows=ms.count(), uid="counts")
        .sink(out, uid="out")
    )
    job = env.start("counts")
    try:
        for minute in range(3):
            row = f"name,at\na,2026-01-01T10:{minute:02d}:30Z\n"
            (incoming / f"{minute}.csv").write_text(row)
            await_until(lambda done=minute: len(out.rows()) == done, f"{minute} windows are closed")
    finally:
        job.cancel()
    assert [row[-1] for row in out.rows()] == [1, 1]
