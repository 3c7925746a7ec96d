"""Tests that share something slow run in one process, when several processes run tests."""

from __future__ import annotations

import pytest


def test_a_test_is_known_by_its_group(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("loadgroup", False):
        pytest.skip("tests are not dealt out by groups here")
    assert request.node.nodeid.endswith("@unit/test_groups")


def test_a_group_is_the_one_of_the_file(request: pytest.FixtureRequest) -> None:
    (mark,) = request.node.iter_markers("xdist_group")
    assert mark.args == ("unit/test_groups",)
