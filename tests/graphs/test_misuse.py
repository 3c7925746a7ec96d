"""Whatever the API is called with, it refuses with an error of its own or builds what can run."""

from __future__ import annotations

import pytest

import mainstay as ms
from tests.graphs.misuse import check_misuse
from tests.simulation.shares import soaked

SUITE = 60


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_misuse_is_refused_with_an_error_of_mainstay() -> None:
    refused = sum(check_misuse(seed) for seed in range(SUITE))
    assert refused > SUITE


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("seeds", soaked("misuse", SUITE))
def test_much_misuse_is_refused_with_an_error_of_mainstay(seeds: range) -> None:
    for seed in seeds:
        check_misuse(seed)


@pytest.mark.mutation
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_name_that_is_looked_up_unchecked_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    sound, sides = ms.Stream.side, {"odd", "third"}

    def unchecked(stream: ms.Stream, name: str) -> ms.Stream:
        sides.remove(name)
        sides.add(name)
        return sound(stream, name)

    monkeypatch.setattr(ms.Stream, "side", unchecked)
    with pytest.raises(AssertionError, match=r"side of .*Error"):
        test_misuse_is_refused_with_an_error_of_mainstay()
