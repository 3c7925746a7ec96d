"""What one access to keyed state costs on the heap backend, beside the same on a bare dict.

The loop sets the key of the row at hand for every access, as the keyed operator does, and the
backend is relieved after every slice of rows, as a task does.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import mainstay as ms
from benchmarks.report import Size, Table, median
from mainstay.state.backends.heap.backend import HeapBackend
from mainstay.state.declaration import StateDeclaration
from mainstay.state.keyed import KeyContext
from mainstay.state.values import ValueType

KEYS = 10_000
ROUNDS = 20
SLICE = 2_000

Loop = Callable[[list[int]], None]
"""Accesses state once for every key."""


def measure(size: Size) -> list[Table]:
    table = Table(
        "State access",
        ["access", "ns"],
        f"Nanoseconds per access over {KEYS:,} keys of type long, the setting of the key included.",
    )
    keys = list(range(size.of(KEYS)))
    for name, make in LOOPS.items():
        table.add(name, f"{median([_per_access(make(), keys, size) for _ in range(5)]):.0f}")
    return [table]


def _per_access(loop: Loop, keys: list[int], size: Size) -> float:
    slices = [keys[start : start + SLICE] for start in range(0, len(keys), SLICE)]
    loop(keys)
    rounds = size.of(ROUNDS)
    began = time.perf_counter()
    for _ in range(rounds):
        for some in slices:
            loop(some)
    return (time.perf_counter() - began) / (rounds * len(keys)) * 1e9


def _state(declaration: StateDeclaration) -> tuple[KeyContext, Any, Callable[[], None]]:
    """A handle as a function of a job gets it, the context that holds its key, and the relief."""
    context = KeyContext()
    info = declaration.info()
    backend = HeapBackend([info], ValueType.of("long"), 128, context)
    return context, backend.handles[info.name], backend.relieve


def _empty() -> Loop:
    context = KeyContext()

    def loop(keys: list[int]) -> None:
        for context.current_key in keys:
            pass

    return loop


def _dict_get_update() -> Loop:
    context, totals = KeyContext(), dict[int, int]()

    def loop(keys: list[int]) -> None:
        for context.current_key in keys:
            totals[context.current_key] = totals.get(context.current_key, 0) + 1

    return loop


def _get() -> Loop:
    context, total, relieve = _state(ms.ValueState("long"))

    def loop(keys: list[int]) -> None:
        for context.current_key in keys:
            total.get()
        relieve()

    return loop


def _update() -> Loop:
    context, total, relieve = _state(ms.ValueState("long"))

    def loop(keys: list[int]) -> None:
        for context.current_key in keys:
            total.update(1)
        relieve()

    return loop


def _get_update() -> Loop:
    context, total, relieve = _state(ms.ValueState("long"))

    def loop(keys: list[int]) -> None:
        for context.current_key in keys:
            total.update((total.get() or 0) + 1)
        relieve()

    return loop


def _list_add() -> Loop:
    context, events, relieve = _state(ms.ListState("long"))

    def loop(keys: list[int]) -> None:
        for context.current_key in keys:
            events.add(1)
        relieve()

    return loop


def _map_put() -> Loop:
    context, by_page, relieve = _state(ms.MapState("long", "long"))

    def loop(keys: list[int]) -> None:
        for context.current_key in keys:
            by_page.put(7, 1)
        relieve()

    return loop


LOOPS: dict[str, Callable[[], Loop]] = {
    "the loop alone": _empty,
    "dict get + set": _dict_get_update,
    "ValueState get": _get,
    "ValueState update": _update,
    "ValueState get + update": _get_update,
    "ListState add": _list_add,
    "MapState put": _map_put,
}
