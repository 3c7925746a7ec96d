"""The programs of pages that start a Spark session."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.pages import PAGES, ROOT, name_of, needs_spark, run_page

pytestmark = pytest.mark.spark


FIRST = ("README.md", "docs/dataframes_in.md")
"""Pages that the suite runs; all of them start a session each, and the soak runs the others."""
ON_SPARK = [
    pytest.param(page, marks=[] if name_of(page) in FIRST else [pytest.mark.soak])
    for page in PAGES
    if needs_spark(page)
]


@pytest.mark.parametrize("page", ON_SPARK, ids=lambda page: name_of(page))
def test_the_programs_of_a_page_run_on_spark_and_print_what_it_shows(
    page: Path, tmp_path: Path
) -> None:
    run_page(page, tmp_path)


@pytest.mark.soak
def test_the_tutorial_runs_on_spark_without_the_line_that_says_embedded(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "tutorial.md").read_text()
    on_spark = re.sub(r'^ *spark="embedded",.*\n', "", text, flags=re.MULTILINE)
    on_spark = on_spark.replace('Environment(spark="embedded", ', "Environment(")
    assert on_spark.count('spark="embedded"') == 1  # where it says what to leave out
    page = tmp_path / "tutorial.md"
    page.write_text(on_spark)
    run_page(page, tmp_path)
