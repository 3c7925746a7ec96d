"""The bound on memory is that of each work by itself, and of the processes that it starts."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.sizes.measuring import most_used_gb, within

SIZE = 400_000_000


def take(size: int) -> None:
    assert len(bytearray(b"x") * size) == size


def take_in_a_child(size: int) -> None:
    subprocess.run([sys.executable, "-c", f"bytearray(b'x') * {size}"], check=True)


@pytest.mark.mutation
@pytest.mark.parametrize("work", [take, take_in_a_child])
def test_what_takes_too_much_is_noticed_and_what_comes_after_it_is_not(work: object) -> None:
    with pytest.raises(AssertionError, match=r"GB of 0.3 GB"):
        within(0.3, work, SIZE)  # type: ignore[arg-type]
    within(0.3, take, 1)


def test_work_has_nothing_of_the_memory_of_the_process_that_asks_for_it() -> None:
    held = bytearray(b"x") * SIZE
    assert most_used_gb(take, 1) < 0.3
    assert len(held) == SIZE
