"""The tables of settings in the pages name every setting, with its default."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

import mainstay as ms
from mainstay.testing import run
from tests.pages import ROOT

TABLES: list[tuple[str, Callable[..., Any]]] = [
    ("running.md", ms.Environment),
    ("running.md", ms.Snapshots),
    ("running.md", ms.Restart),
    ("running.md", ms.RocksDB),
    ("running.md", ms.Postgres),
    ("ha.md", ms.HighAvailability),
    ("rest.md", ms.Ui),
    ("rest.md", ms.Otlp),
    ("testing.md", run),
]


def spelled(default: Any) -> str:
    """A default as a page spells it."""
    if default is inspect.Parameter.empty:
        return ""
    return f"`{json.dumps(default) if isinstance(default, str) else repr(default)}`"


def shown(page: str, name: str) -> dict[str, str]:
    """The settings and defaults of the table below the heading of a class or function."""
    text = (ROOT / "docs" / page).read_text()
    section = re.split(rf"^##+ `{name}`$", text, flags=re.MULTILINE)[1]
    section = re.split(r"^#", section, flags=re.MULTILINE)[0]
    rows = re.findall(r"^\| `(\w+)` \| *(`[^`]*`)? *\|", section, re.MULTILINE)
    return dict(rows)


@pytest.mark.parametrize(
    ("page", "described"), TABLES, ids=lambda each: getattr(each, "__name__", str(each))
)
def test_a_table_of_settings_has_exactly_those_there_are(
    page: str, described: Callable[..., Any]
) -> None:
    parameters = inspect.signature(described).parameters.values()
    there_are = {parameter.name: spelled(parameter.default) for parameter in parameters}
    assert shown(page, described.__name__) == there_are
