"""Side outputs under the simulation: their rows are part of the cut as those of any output are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest

from mainstay.runtime.edge_names import EdgeName, edge_name
from mainstay.runtime.messages import Marker
from mainstay.runtime.operators.aside import Aside
from mainstay.runtime.operators.keyed import KeyedFunction
from mainstay.runtime.spec import EdgeSpec
from mainstay.runtime.worker.channel_state import TaskChannels
from mainstay.runtime.worker.task import Task
from tests.simulation.graphs import SIDES
from tests.simulation.planting import planting
from tests.simulation.scenarios import Scenario
from tests.simulation.seeds import Chunk, check_fixed, check_many, fixed, is_noticed
from tests.simulation.shares import soaked

SEEDS = 40
CHUNK = 10


@pytest.mark.parametrize("chunk", fixed(SEEDS, CHUNK, suite=10))
def test_every_input_counts_exactly_once_whichever_output_it_takes(chunk: Chunk) -> None:
    check_fixed(Scenario.of_sides, chunk)


def test_the_seeds_draw_every_graph_and_mode() -> None:
    scenarios = [Scenario.of_sides(seed) for seed in range(SEEDS)]
    assert {s.graph for s in scenarios} == set(SIDES)
    assert {s.mode for s in scenarios} == {"exactly_once", "at_least_once", "unaligned"}


@pytest.mark.parametrize("seeds", soaked("sides", SEEDS))
def test_every_input_counts_exactly_once_over_many_seeds(seeds: range) -> None:
    check_many(Scenario.of_sides, seeds)


# ---------------------------------------------------------------- planted bugs

BUGS, bug = planting()


@bug
def side_rows_are_emitted_after_the_marker() -> Iterator[None]:
    """They wait for the next call of the function, or the end: a marker may come before."""
    held: dict[int, list[Any]] = {}

    def late(self: Any, function: Any) -> None:
        now = [(out, batch) for handle, out in self._handles for batch in handle.taken(function)]
        before, held[id(self)] = held.get(id(self), []), now
        for out, batch in before:
            out(batch)

    def flush(self: Any) -> None:
        for out, batch in held.pop(id(self._aside), []):
            out(batch)

    with patch.object(Aside, "emit", late), patch.object(KeyedFunction, "end_of_input", flush):
        yield


@bug
def in_flight_rows_of_a_side_are_given_to_the_main_edge() -> Iterator[None]:
    right = EdgeName.text.fget  # type: ignore[attr-defined]

    def mistaken(self: Any) -> Any:
        return right(self._replace(port=0, side="") if self.side else self)

    with patch.object(EdgeName, "text", property(mistaken)):
        yield


@bug
def in_flight_rows_of_a_side_are_not_kept() -> Iterator[None]:
    right = TaskChannels._log_queued

    def log_main(self: Any, cut: Any, epoch: Any, number: int) -> None:
        before = len(cut.incoming)
        right(self, cut, epoch, number)
        if edge_name(self._names[number]).side:
            del cut.incoming[before:]

    with patch.object(TaskChannels, "_log_queued", log_main):
        yield


@bug
def markers_are_not_sent_to_what_reads_a_side() -> Iterator[None]:
    def main_only(self: Any, epoch: Any) -> None:
        for edge, output in zip(self.spec.outputs, self.outputs, strict=True):
            if not edge.side:
                output.send_control(Marker(epoch))

    with patch.object(Task, "_broadcast", main_only):
        yield


@bug
def what_reads_a_side_gets_the_main_rows() -> Iterator[None]:
    with patch.object(EdgeSpec, "side", property(lambda self: "")):
        yield


@pytest.mark.mutation
@pytest.mark.parametrize("name", sorted(BUGS))
def test_a_planted_bug_is_caught(name: str) -> None:
    with BUGS[name]():
        assert is_noticed(Scenario.of_sides, 500), f"no seed notices that {name}"
