"""Handles with a version: read as they were written, and refused where they are not known."""

from __future__ import annotations

import pytest

from mainstay.connectors.bases.json_handles import read_handle, write_handle
from mainstay.errors import SinkError


def test_a_handle_holds_its_version_first_and_what_it_was_given() -> None:
    data = write_handle(1, {"directory": "out", "parts": []})
    assert data == b'{"version": 1, "directory": "out", "parts": []}'
    assert read_handle(data, 1, "file") == {"directory": "out", "parts": []}


def test_a_handle_of_another_version_is_refused_with_a_remedy() -> None:
    data = write_handle(2, {})
    with pytest.raises(SinkError, match=r"a file sink has version 2.*knows version 1\. Use the"):
        read_handle(data, 1, "file")
