"""The programs of pages that start a Spark session."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pages import PAGES, name_of, needs_spark, run_page

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("page", [page for page in PAGES if needs_spark(page)], ids=name_of)
def test_the_programs_of_a_page_run_on_spark_and_print_what_it_shows(
    page: Path, tmp_path: Path
) -> None:
    run_page(page, tmp_path)
