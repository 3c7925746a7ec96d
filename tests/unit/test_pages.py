"""What the pages show is what runs. Pages that need Spark are in tests/spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pages import (
    CONNECTORS,
    PAGES,
    compile_page,
    has_programs,
    name_of,
    needs_spark,
    run_page,
)

WITHOUT_SPARK = [page for page in PAGES if has_programs(page) and not needs_spark(page)]


@pytest.mark.parametrize("page", WITHOUT_SPARK, ids=name_of)
def test_the_programs_of_a_page_run_and_print_what_it_shows(page: Path, tmp_path: Path) -> None:
    run_page(page, tmp_path)


# Most of these need a server, or a data source of the reader's.
@pytest.mark.parametrize("page", CONNECTORS, ids=name_of)
def test_the_programs_of_a_connector_compile_and_import_what_is_there(page: Path) -> None:
    compile_page(page)


def test_a_program_that_prints_something_else_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n")
    with pytest.raises(AssertionError, match="printed was\n2"):
        run_page(page, tmp_path)


def test_a_block_that_is_skipped_is_compiled(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text('<!-- skip: next "no server" -->\n\n```python\n1 / 0\n```\n')
    run_page(page, tmp_path)
    page.write_text('<!-- skip: next "no server" -->\n\n```python\n1 +\n```\n')
    with pytest.raises(SyntaxError):
        run_page(page, tmp_path)
