"""Hot keys: a sample of slices says which keys have most rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from mainstay.runtime.worker.hot_keys import EVERY_S, KEPT, LEAST, MOST_LETTERS, HotKeys


def slices(keys: list[Any], rows: int) -> list[pa.RecordBatch]:
    whole = pa.record_batch({"n": pa.array(range(len(keys))), "k": pa.array(keys)})
    return [whole.slice(start, rows) for start in range(0, len(keys), rows)]


class Looking(HotKeys):
    """Looks at every slice, as one that takes long."""

    worked_s = 0.0

    def see(self, batch: pa.RecordBatch, port: int = 0) -> None:
        self.worked_s += EVERY_S
        self.look(batch, port, self.worked_s)


def shares(keys: list[Any], rows: int = 50) -> dict[str, float]:
    found = Looking({0: (1,)})
    for each in slices(keys, rows):
        found.see(each)
    return dict(found.shares())


def test_a_key_has_about_its_part_of_the_rows() -> None:
    keys = ["hot" if n % 3 == 0 else f"cold {n}" for n in range(20_000)]
    found = shares(keys)
    assert list(found) == ["hot"]
    assert found["hot"] == pytest.approx(1 / 3, abs=0.05)


def test_keys_that_repeat_in_step_with_the_slices_are_sampled_fairly() -> None:
    found = shares([n % 4 for n in range(40_000)], rows=64)
    assert sorted(found) == ["0", "1", "2", "3"]
    assert all(share == pytest.approx(0.25, abs=0.05) for share in found.values())


def test_a_row_of_a_long_slice_counts_as_much_as_one_of_a_short_slice() -> None:
    found = Looking({0: (1,)})
    long, short = slices(["long"] * 900, 900)[0], slices(["short"] * 100, 100)[0]
    for _ in range(200):
        found.see(long)
        found.see(short)
    assert dict(found.shares())["long"] == pytest.approx(0.9, abs=0.01)


def test_slices_between_two_looks_count_for_those_that_are_looked_at() -> None:
    found = HotKeys({0: (1,)})
    few, many = slices(["few"] * 100, 100)[0], slices(["many"] * 100, 100)[0]
    for n in range(200):
        found.look(few, 0, n * 2 * EVERY_S)
        for _ in range(2):
            found.look(many, 0, n * 2 * EVERY_S)
        found.look(many, 0, (n * 2 + 1) * EVERY_S)
    assert dict(found.shares())["many"] == pytest.approx(0.75, abs=0.01)


def test_many_keys_with_few_rows_each_are_not_hot() -> None:
    assert shares(list(range(20_000))) == {}


def test_few_samples_say_nothing() -> None:
    assert shares(["a"] * (LEAST // 8)) == {}


def test_only_what_was_lately_counts() -> None:
    assert list(shares(["old"] * 20_000 + ["new"] * (KEPT * 50))) == ["new"]


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (None, "null"),
        (7, "7"),
        (b"\xff\x00", "ff00"),
        ("x" * 1000, "x" * MOST_LETTERS + "…"),
        ({"a": 1}, "{'a': 1}"),
    ],
)
def test_a_key_is_shown_as_text(key: Any, text: str) -> None:
    type_ = pa.array([key]).type if key is not None else pa.string()
    found = Looking({0: (1,)})
    batch = pa.record_batch({"n": pa.array([0] * 100), "k": pa.array([key] * 100, type_)})
    for _ in range(LEAST):
        found.see(batch)
    assert found.shares() == ((text, 1.0),)


def test_a_key_of_several_columns_has_the_parts_of_both() -> None:
    found = Looking({0: (1, 0)})
    batch = pa.record_batch({"n": pa.array([1] * 10), "k": pa.array(["a"] * 10)})
    for _ in range(LEAST):
        found.see(batch)
    assert found.shares() == (("a, 1", 1.0),)


def test_an_input_that_is_not_divided_by_key_is_not_sampled() -> None:
    found = Looking({0: (1,)})
    for each in slices(["a"] * 10_000, 50):
        found.see(each, port=1)
    assert found.shares() == ()
