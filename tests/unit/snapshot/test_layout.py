from __future__ import annotations

import itertools
import re

import pytest

from mainstay.snapshot.layout import (
    LOG_PREFIX,
    MANIFEST_PREFIX,
    STATE_PREFIX,
    attempt_of,
    log_slot,
    manifest_path,
    safe_name,
    segment_path,
    slot_index,
)

AWKWARD_UIDS = [
    "",
    ".",
    "..",
    "...",
    "%",
    "%2E",
    "%2e",
    "%-",
    "a/b",
    "a%2Fb",
    "a b",
    "a+b",
    "~",
    "%7E",
    "#1",
    "a#1",
    "größe",
    "\N{SNOWMAN}",
    "\ud800",
    "a\n",
    "a\x00",
    "x" * 200,
    "x" * 201,
    "x" * 202,
    "\N{SNOWMAN}" * 100,
    "\N{SNOWMAN}" * 101,
]


def test_a_slot_is_spelled_with_ten_digits() -> None:
    assert log_slot(42) == "log/0000000042"


@pytest.mark.parametrize("index", [0, 42, 10**10 - 1, 10**10])
def test_a_slot_path_gives_back_its_index(index: int) -> None:
    assert log_slot(index).startswith(LOG_PREFIX)
    assert slot_index(log_slot(index)) == index


@pytest.mark.parametrize("path", ["log/42", "log/", "log/0000000042.tmp", "epochs/0000000042"])
def test_what_is_no_slot_has_no_index(path: str) -> None:
    assert slot_index(path) is None


def test_a_manifest_carries_its_epoch_and_attempt() -> None:
    assert manifest_path(7, 3) == "epochs/0000000007-a0003.json"
    assert manifest_path(7, 3).startswith(MANIFEST_PREFIX)


def test_a_segment_lies_below_its_operator_and_attempt() -> None:
    path = segment_path("count words", 1, 3, "a3-s1-e7")
    assert path == "state/count%20words/a0003/s0001-a3-s1-e7.msty"
    assert path.startswith(STATE_PREFIX)


@pytest.mark.parametrize("attempt", [1, 9999, 10000])
def test_the_attempt_is_known_from_a_path(attempt: int) -> None:
    assert attempt_of(manifest_path(7, attempt)) == attempt
    assert attempt_of(segment_path("a1", 5, attempt, "a9-s9-e9")) == attempt


@pytest.mark.parametrize("path", ["log/0000000001", "state/a0001", "epochs/x", "other/a0001/x"])
def test_other_paths_have_no_attempt(path: str) -> None:
    assert attempt_of(path) is None


@pytest.mark.parametrize("uid", ["words", "count_words-2.1", "A.b", ".hidden"])
def test_a_plain_uid_is_its_own_name(uid: str) -> None:
    assert safe_name(uid) == uid


@pytest.mark.parametrize("uid", AWKWARD_UIDS)
def test_an_awkward_uid_becomes_one_safe_path_segment(uid: str) -> None:
    name = safe_name(uid)
    assert re.fullmatch(r"[A-Za-z0-9_.%-]+", name)
    assert name.strip(".")
    assert len(name) <= 200
    assert attempt_of(segment_path(uid, 0, 7, "a7-s0-e1")) == 7


def test_different_uids_have_different_names() -> None:
    short = ["".join(letters) for letters in itertools.product(".%2E-~", repeat=3)]
    uids = {*AWKWARD_UIDS, *short, safe_name("x" * 201)}
    assert len({safe_name(uid) for uid in uids}) == len(uids)
