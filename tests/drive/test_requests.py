"""What an epoch costs in requests is what the page on storage says."""

from __future__ import annotations

import re

import pytest

from tests.drive.request_counts import EPOCHS, requests_of_epochs
from tests.pages import ROOT
from tests.services.s3_proxy import CREATE, DELETE, GET, HEAD, LIST, PUT, S3Proxy

COLUMNS = (CREATE, PUT, GET, LIST, DELETE)


JOBS = [(1, 1), (1, 4), (1, 16), (10, 4)]
WIDE = (20, 16)
WIDE_EPOCHS = 8
"""So many lie between two merges of a chain."""


def shown() -> dict[tuple[int, int], dict[str, float]]:
    """The table of the page: by operators and parallelism, how many requests of each kind."""
    text = (ROOT / "docs" / "storage.md").read_text()
    line = r"^\| (\d+) \| (\d+) \|" + r" ([\d.]+) \|" * len(COLUMNS) + "$"
    rows = re.findall(line, text, re.MULTILINE)
    return {
        (int(o), int(p)): dict(zip(COLUMNS, map(float, cells), strict=True))
        for o, p, *cells in rows
    }


def test_the_page_has_a_row_for_each_job() -> None:
    assert sorted(shown()) == sorted([*JOBS, WIDE])


@pytest.mark.parametrize(("operators", "parallelism"), JOBS)
def test_an_epoch_takes_the_requests_that_the_page_says(
    proxy: S3Proxy, operators: int, parallelism: int
) -> None:
    found = requests_of_epochs(proxy, operators, parallelism)
    by_kind = dict.fromkeys((*COLUMNS, HEAD), 0)
    for (kind, _), number in found.items():
        by_kind[kind] += number
    # Each subtask stores what has changed, and the coordinator the manifest.
    assert by_kind[PUT] >= (parallelism + 1) * EPOCHS
    assert by_kind[HEAD] == 0
    if operators > 1:
        # How many segments come together depends on how fast the store is; a file for each
        # operator and subtask would be this many.
        assert by_kind[PUT] < operators * parallelism * EPOCHS / 2
        return
    for kind, expected in shown()[operators, parallelism].items():
        # Work in the background may fall just before or just after what is counted.
        assert abs(by_kind[kind] / EPOCHS - expected) <= 0.1 * expected + 0.5, (kind, found)


def test_an_epoch_of_many_operators_takes_fewer_writes_than_half_of_its_subtasks(
    proxy: S3Proxy,
) -> None:
    operators, parallelism = WIDE
    found = requests_of_epochs(proxy, operators, parallelism, WIDE_EPOCHS)
    writes = sum(number for (kind, _), number in found.items() if kind == PUT) / WIDE_EPOCHS
    # A worker stores one file at least. What each of its operators merges is a file of its own.
    assert parallelism < writes < operators * parallelism / 2
