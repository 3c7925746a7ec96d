"""The reference of the API is what the docstrings say, and has every public name."""

from __future__ import annotations

import re
from importlib import import_module

import pytest

from tools.reference import PAGES, names_of, page_of, written


@pytest.mark.parametrize("module", PAGES)
def test_the_reference_is_up_to_date(module: str) -> None:
    pytest.importorskip("pyspark")
    remedy = "run: python -m tools.reference"
    assert page_of(module).read_text() == written(module), remedy


@pytest.mark.parametrize("module", PAGES)
def test_every_public_name_has_an_entry_with_a_text(module: str) -> None:
    pytest.importorskip("pyspark")
    entries = re.split(r"^## `(\w+)`$", page_of(module).read_text(), flags=re.MULTILINE)[1:]
    texts = dict(zip(entries[::2], entries[1::2], strict=True))
    assert list(texts) == names_of(import_module(module))
    without_code = {
        name: re.sub(r"```py.*?```", "", text, flags=re.DOTALL) for name, text in texts.items()
    }
    assert [name for name, text in without_code.items() if not text.strip()] == []


def test_no_markup_of_another_language_is_left() -> None:
    for module in PAGES:
        text = re.sub(r"```py.*?```", "", page_of(module).read_text(), flags=re.DOTALL)
        assert not re.search(r":\w+:`|(?<!`)``(?!`)|::$", text, re.MULTILINE), module
