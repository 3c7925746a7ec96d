"""What the pages show is what runs. Pages that need Spark are in tests/spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pages import (
    EXEMPT,
    PAGES,
    ROOT,
    compile_page,
    has_programs,
    is_exempt,
    name_of,
    needs_spark,
    run_page,
)

WITH_PROGRAMS = [page for page in PAGES if has_programs(page)]
WITHOUT_SPARK = [page for page in WITH_PROGRAMS if not needs_spark(page) and not is_exempt(page)]


@pytest.mark.parametrize("page", WITHOUT_SPARK, ids=name_of)
def test_the_programs_of_a_page_run_and_print_what_it_shows(page: Path, tmp_path: Path) -> None:
    run_page(page, tmp_path)


@pytest.mark.parametrize("page", EXEMPT)
def test_the_programs_of_a_page_that_needs_a_server_compile_and_import_what_is_there(
    page: str,
) -> None:
    compile_page(ROOT / page)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_hides_no_program(page: Path) -> None:
    assert "invisible-code" not in page.read_text()


def test_a_program_that_prints_something_else_is_noticed(tmp_path: Path) -> None:
    page = _page(tmp_path, "```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n")
    with pytest.raises(AssertionError, match="printed was\n2"):
        run_page(page, tmp_path)


def test_a_program_that_needs_what_the_page_does_not_show_is_noticed(tmp_path: Path) -> None:
    page = _page(tmp_path, "One\n\n```python\nx = 1\n```\n\n```python\nprint(x, env)\n```\n")
    with pytest.raises(AssertionError, match=r"page\.py\", line 8(?s:.*)'env' is not defined"):
        run_page(page, tmp_path)


@pytest.mark.parametrize("module", ["tests", "examples"])
def test_a_program_that_needs_the_checkout_is_noticed(tmp_path: Path, module: str) -> None:
    page = _page(tmp_path, f"```python\nimport {module}\n```\n")
    with pytest.raises(AssertionError, match=f"No module named '{module}'"):
        run_page(page, tmp_path)


def test_the_blocks_of_a_page_are_one_program_in_an_empty_folder(tmp_path: Path) -> None:
    first = "```python\nimport os\nprint(os.listdir())\n```\n```text\n[]\n```\n"
    page = _page(tmp_path, first + "```python\nprint(os.name)\n```\n```text\n…\n```\n")
    run_page(page, tmp_path)


def test_a_block_that_is_skipped_is_compiled(tmp_path: Path) -> None:
    skip = '<!-- skip: next "no server" -->\n\n'
    page = _page(tmp_path, skip + "```python\n1 / 0\n```\n\n```python\nprint(2)\n```\n")
    run_page(page, tmp_path)
    page = _page(tmp_path, skip + "```python\n1 +\n```\n")
    with pytest.raises(SyntaxError):
        run_page(page, tmp_path)


def _page(folder: Path, text: str) -> Path:
    page = folder / "page.md"
    page.write_text(text)
    return page
