"""The pages on guarantees and formats speak of tests, files and numbers that exist."""

from __future__ import annotations

import re
from importlib import import_module

import pytest

from mainstay.snapshot.layout import (
    FAILURES_PREFIX,
    LEASE_PREFIX,
    LOG_PREFIX,
    MANIFEST_PREFIX,
    STATE_PREFIX,
    STATISTICS_PREFIX,
)
from tests.pages import ROOT

GUARANTEES = (ROOT / "docs" / "guarantees.md").read_text()
TESTED = (ROOT / "docs" / "how_it_is_tested.md").read_text()
FORMATS = (ROOT / "docs" / "formats.md").read_text()
NUMBERS = {
    "commit log slot": ("mainstay.snapshot.slots", "LOG_FORMAT"),
    "manifest of an epoch": ("mainstay.snapshot.manifest", "MANIFEST_FORMAT"),
    "state file (`.msty`)": ("mainstay.snapshot.statefooter", "STATE_FILE_FORMAT"),
    "shared file (`.msts`)": ("mainstay.snapshot.shared", "SHARED_FILE_FORMAT"),
    "RocksDB checkpoint": ("mainstay.state.backends.rocksdb.checkpoint", "CHECKPOINT_FORMAT"),
    "external state": ("mainstay.state.backends.external.descriptor", "DESCRIPTOR_FORMAT"),
    "savepoint": ("mainstay.snapshot.savepoint", "SAVEPOINT_FORMAT"),
    "ingest log": ("mainstay.connectors.ingest.log", "TIMED_FORMAT"),
    "figures of epochs": ("mainstay.snapshot.statistics", "STATISTICS_FORMAT"),
    "failures": ("mainstay.snapshot.failures", "FAILURES_FORMAT"),
    "lease of a leader": ("mainstay.ha.lease", "LEASE_FORMAT"),
    "key hash": ("mainstay.state.keygroups", "HASH_ID"),
}
PROMISES = [line for line in GUARANTEES.splitlines() if line.startswith("| ") and "`tests/" in line]


FINDINGS = [line for line in TESTED.splitlines() if line.startswith("| ") and "`tests/" in line]
SUITES = (
    "roundtrips",
    "fuzz",
    "callbacks",
    "graphs",
    "histories",
    "sizes",
    "neighbours",
    "together",
    "simulation",
)


@pytest.mark.parametrize(
    "line", [*PROMISES, *FINDINGS], ids=lambda line: line.split("|")[1].strip()
)
def test_a_promise_or_a_finding_has_a_test_that_exists(line: str) -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", line)
    assert named
    for path, name in named:
        assert re.search(rf"^def {name}\(", (ROOT / path).read_text(), re.MULTILINE), name


def test_every_row_of_a_table_of_promises_names_a_test() -> None:
    rows = [line for line in GUARANTEES.splitlines() if line.startswith("| ")]
    heads = [line for line in rows if line.startswith("| what is promised")]
    assert len(rows) - len(heads) == len(PROMISES) > 30


def test_every_row_of_a_table_of_findings_names_a_test() -> None:
    rows = [line for line in TESTED.splitlines() if line.startswith("| ")]
    heads = [line for line in rows if line.startswith(("| what was found", "| what is planted"))]
    assert len(rows) - len(heads) == len(FINDINGS) > 40


@pytest.mark.parametrize("suite", SUITES)
def test_every_suite_is_on_the_page_with_a_defect_that_is_planted_in_it(suite: str) -> None:
    sections = [each for each in TESTED.split("\n## ") if f"\n`tests/{suite}`." in each]
    assert len(sections) == 1
    planted = sections[0].partition("\nPlanted:")[2]
    assert f"`tests/{suite}/" in planted


@pytest.mark.parametrize("name", NUMBERS)
def test_the_number_of_a_format_is_that_of_the_code(name: str) -> None:
    module, constant = NUMBERS[name]
    now = getattr(import_module(module), constant)
    (row,) = [line for line in FORMATS.splitlines() if line.startswith(f"| {name} |")]
    written, read, where = (cell.strip() for cell in row.strip("|").split("|")[1:])
    assert written.strip("`") == str(now)
    assert read.strip("`") in (str(now), f"1 to {now}")
    assert module.replace(".", "/") in where


def test_every_format_of_the_table_is_compared_with_the_code() -> None:
    rows = re.findall(r"^\| (.+?) \| `?[\w-]+`? \|.*src/mainstay", FORMATS, re.MULTILINE)
    assert set(rows) == set(NUMBERS)


def test_the_folders_of_a_snapshot_directory_are_on_the_page() -> None:
    prefixes = (FAILURES_PREFIX, LEASE_PREFIX, LOG_PREFIX, MANIFEST_PREFIX, STATE_PREFIX)
    for prefix in (*prefixes, STATISTICS_PREFIX):
        assert f"\n{prefix}" in FORMATS, prefix


def test_every_golden_file_is_on_the_page_and_everything_named_exists() -> None:
    data = {f"tests/golden/data/{path.name}" for path in (ROOT / "tests/golden/data").iterdir()}
    named = set(re.findall(r"`(tests/golden/[\w/.-]+)`", FORMATS))
    assert data <= named
    sources = set(re.findall(r"`(src/[\w/.]+)`", FORMATS))
    assert [path for path in named | sources if not (ROOT / path).exists()] == []
