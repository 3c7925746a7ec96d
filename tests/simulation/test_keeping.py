"""Deduplication and top-n give what a plain loop gives, whatever crashes and however often the job
is rescaled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

from mainstay.runtime.operators import first, newest, top
from mainstay.runtime.operators.forgetting import Forgetting
from mainstay.runtime.operators.keeping import Keeping
from tests.simulation.keeping_cases import CASES, MODES, result_of
from tests.simulation.planting import planting
from tests.simulation.seeds import in_chunks

SEEDS = 3
FAULTS: dict[str, Any] = {"crashes": 3, "rescales": [3, 2]}


@pytest.mark.parametrize("seed", in_chunks(SEEDS, 1, suite=1))
@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CASES)
def test_crashes_and_rescales_change_nothing(name: str, mode: str, backend: str, seed: int) -> None:
    found, expected = result_of(CASES[name], seed, mode, backend, **FAULTS)
    assert found == expected


# ---------------------------------------------------------------- planted bugs

BUGS, bug = planting()


@bug
def a_key_is_remembered_before_its_row_is_emitted() -> Iterator[None]:
    """The row waits for the next batch: a marker may come between."""
    right = Keeping.emit
    held: dict[int, Any] = {}

    def late(self: Any, batch: Any, rows: Any) -> None:
        before, held[id(self)] = held.get(id(self)), (batch, rows)
        if before is not None:
            right(self, *before)

    def flush(self: Any) -> None:
        if id(self) in held:
            right(self, *held.pop(id(self)))

    with patch.object(Keeping, "emit", late), patch.object(Keeping, "end_of_input", flush):
        yield


@bug
def a_key_is_not_remembered() -> Iterator[None]:
    right = first.KeepFirst.open

    def forgetful(self: Any, context: Any) -> None:
        right(self, context)
        seen: set[Any] = set()  # of this attempt alone
        self._seen = type(
            "Seen",
            (),
            {
                "column": lambda _, keys: pa.array([key in seen or None for key in keys]),
                "put_many": lambda _, keys, values: seen.update(keys),
            },
        )()

    with patch.object(first.KeepFirst, "open", forgetful):
        yield


@bug
def a_key_is_forgotten_too_early() -> Iterator[None]:
    right = Forgetting._delete

    def early(self: Any, keys: Any, horizon: int) -> None:
        right(self, [key for key, _ in self._times.survey()], horizon + self._within_us)

    with patch.object(Forgetting, "_delete", early):
        yield


@bug
def a_batch_is_compared_with_what_is_kept_only() -> Iterator[None]:
    """The first row of a key in a batch stands for all of them."""

    def process(self: Any, batch: Any, port: int) -> None:
        keys = self.reader.column(batch)
        best = self.grouped(keys).first()
        distinct = keys.take(pa.array(best))
        is_newer = self.is_newer(distinct, batch.column(self._by).take(best))
        self.remember(distinct.filter(pa.array(is_newer)), batch, best[is_newer])
        self.emit(batch, best[is_newer])

    with patch.object(newest.KeepNewest, "process", process):
        yield


@bug
def the_bound_of_a_key_is_its_best_row() -> Iterator[None]:
    right = top.Top._keep

    def keep(self: Any, keys: Any, tops: Any, codes: Any, places: Any) -> None:
        right(self, keys, tops, codes, places)
        self._worst.put_many(keys, self._bound(tops.filter(pa.array(places == 0))))

    with patch.object(top.Top, "_keep", keep):
        yield


@bug
def a_board_begins_anew_with_each_batch() -> Iterator[None]:
    right = top.Top._enter

    def enter(self: Any, batch: Any) -> None:
        keys = self.reader.column(batch)
        distinct = keys.take(pa.array(self.grouped(keys).first()))
        self._top.put_many(distinct, pa.nulls(len(distinct), self._top.info.value.arrow))
        right(self, batch)

    with patch.object(top.Top, "_enter", enter):
        yield


NOTICED_BY = {
    "a key is remembered before its row is emitted": "first",
    "a key is not remembered": "first",
    "a key is forgotten too early": "first within a minute",
    "a batch is compared with what is kept only": "last",
    "the bound of a key is its best row": "top",
    "a board begins anew with each batch": "top",
}
"""Which case notices."""


@pytest.mark.mutation
@pytest.mark.parametrize("name", sorted(BUGS))
def test_a_planted_bug_is_caught(name: str) -> None:
    case = CASES[NOTICED_BY[name]]
    with BUGS[name]():
        for seed in range(40):
            found, expected = result_of(case, seed, "exactly_once", "heap", **FAULTS)
            if found != expected:
                return
    raise AssertionError(f"no seed notices: {name}")
