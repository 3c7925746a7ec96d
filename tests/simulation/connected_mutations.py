"""Bugs to plant in connected inputs, broadcast state and partitioners."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from mainstay.runtime.spec import Chosen, Rebalance
from mainstay.runtime.worker import assembly
from mainstay.runtime.worker.inputs.gated import GateInput
from mainstay.state import redistribution
from mainstay.state.broadcast import BroadcastMap
from tests.simulation.planting import planting

MUTATIONS, mutation = planting()


@mutation
def broadcast_state_of_a_new_subtask_is_empty() -> Iterator[None]:
    def short(copies: Any, parallelism: int) -> Any:
        nothing = redistribution._units("broadcast", redistribution._concatenated(copies)[:0])
        return [copies[n] if n < len(copies) else nothing for n in range(parallelism)]

    with patch.object(redistribution, "_broadcast", short):
        yield


@mutation
def broadcast_state_is_the_sum_of_all_copies() -> Iterator[None]:
    right = BroadcastMap.restore

    def doubled(self: Any, units: Any) -> None:
        right(self, units)
        for key, value in self._map.entries.items():
            self._map.entries[key] = 2 * value

    with patch.object(BroadcastMap, "restore", doubled):
        yield


@mutation
def in_flight_rows_of_a_partitioner_go_in_turn() -> Iterator[None]:
    right = assembly.own_rows

    def in_turn(units: Any, *arguments: Any) -> Any:
        units = [
            replace(unit, partitioning=Rebalance())
            if isinstance(unit.partitioning, Chosen)
            else unit
            for unit in units
        ]
        return right(units, *arguments)

    with patch.object(assembly, "own_rows", in_turn):
        yield


@mutation
def in_flight_rows_of_the_third_input_go_to_the_second() -> Iterator[None]:
    right = assembly.own_rows

    def misled(*arguments: Any) -> Any:
        return [(replace(unit, port=min(unit.port, 1)), b) for unit, b in right(*arguments)]

    with patch.object(assembly, "own_rows", misled):
        yield


@mutation
def the_watermark_of_the_third_input_is_ignored() -> Iterator[None]:
    right = GateInput.__init__

    def hasty(self: Any, *arguments: Any) -> None:
        right(self, *arguments)
        for number, channel in enumerate(self.gate.channels):
            if channel.port == 2:
                self._time.on_end(number)

    with patch.object(GateInput, "__init__", hasty):
        yield
