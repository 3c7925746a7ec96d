"""Ingest logs as earlier versions wrote them are read, row by row, and with their event time."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from mainstay.connectors.ingest.laned_source import LanedIngestSource
from mainstay.connectors.ingest.log import IngestLog
from mainstay.connectors.ingest.source import IngestSource
from mainstay.snapshot.object_storage import open_storage
from tests.golden.ingest import BATCHES, SCHEMA, START, UID

DATA = Path(__file__).parent / "data"
NUMBERS = [[n for file in batch for n in file] for batch in BATCHES]


@pytest.fixture(params=[1, 2])
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[int, str]:
    """The format of a log, and where a copy of it is."""
    place = tmp_path / "log"
    shutil.copytree(DATA / f"ingest-log-v{request.param}", place)
    return request.param, str(place)


def test_every_file_is_read(stored: tuple[int, str]) -> None:
    source = IngestSource(stored[1], UID, SCHEMA, bounded=False)
    rows = [source.read(split, None).poll(100).batch for split in source.plan(frozenset())]
    assert [batch.column("n").to_pylist() for batch in rows] == [f for b in BATCHES for f in b]


def test_a_lane_tells_the_time_that_the_log_knows(stored: tuple[int, str]) -> None:
    source = LanedIngestSource(stored[1], UID, SCHEMA, lanes=1)
    (split,) = source.plan(frozenset())
    reader = source.read(split, None)
    polled = [reader.poll(100) for _ in range(4)]
    assert [each.batch.column("n").to_pylist() for each in polled] == [
        f for b in BATCHES for f in b
    ]
    started_us = int(START.timestamp()) * 1_000_000
    times = [started_us + max(batch) * 60_000_000 for batch in NUMBERS]
    told = [each.watermark_us for each in polled if each.watermark_us is not None]
    assert told == ([] if stored[0] == 1 else times)


def test_the_slots_have_the_format_that_they_say(stored: tuple[int, str]) -> None:
    storage = open_storage(stored[1])
    paths = storage.list(f"ingest/{UID}/log")
    assert {json.loads(storage.read(path))["format"] for path in paths} == {stored[0]}
    slots = [IngestLog(storage, UID).slot(batch) for batch in range(3)]
    assert [slot is not None and len(slot.files) for slot in slots] == [2, 1, 1]
