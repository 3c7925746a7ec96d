"""What an epoch costs in requests is what the page on storage says."""

from __future__ import annotations

import re

import pytest

from tests.drive.request_counts import EPOCHS, requests_of_epochs
from tests.pages import ROOT
from tests.services.s3_proxy import CREATE, DELETE, GET, HEAD, LIST, PUT, S3Proxy

COLUMNS = (CREATE, PUT, GET, LIST, DELETE)


def shown() -> dict[int, dict[str, float]]:
    """The table of the page: by parallelism, how many requests of each kind."""
    text = (ROOT / "docs" / "storage.md").read_text()
    rows = re.findall(r"^\| (\d+) \|" + r" ([\d.]+) \|" * len(COLUMNS) + "$", text, re.MULTILINE)
    return {int(p): dict(zip(COLUMNS, map(float, cells), strict=True)) for p, *cells in rows}


def test_the_page_has_a_row_for_each_parallelism() -> None:
    assert sorted(shown()) == [1, 4, 16]


@pytest.mark.parametrize("parallelism", [1, 4, 16])
def test_an_epoch_takes_the_requests_that_the_page_says(proxy: S3Proxy, parallelism: int) -> None:
    found = requests_of_epochs(proxy, parallelism)
    by_kind = dict.fromkeys((*COLUMNS, HEAD), 0)
    for (kind, _), number in found.items():
        by_kind[kind] += number
    # Each subtask stores what has changed, and the coordinator the manifest.
    assert by_kind[PUT] >= (parallelism + 1) * EPOCHS
    assert by_kind[HEAD] == 0
    for kind, expected in shown()[parallelism].items():
        # Work in the background may fall just before or just after what is counted.
        assert abs(by_kind[kind] / EPOCHS - expected) <= 0.1 * expected + 0.5, (kind, found)
