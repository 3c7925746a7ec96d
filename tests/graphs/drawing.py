"""Draws whole graphs, as lists of steps that can be printed and run again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

from tests.graphs import ends, joining, keyed, rowwise, several, windows
from tests.graphs.operators import KINDS, MOST_ROWS, Flow, Step

__all__ = ["drawn_graph", "flows_of", "smaller"]

_PARTS = (ends, joining, keyed, rowwise, several, windows)
"""Importing them registers their kinds."""
OWN_GROUPS = (5, 7, 200)


def drawn_graph(seed: int) -> list[Step]:
    """The graph of a seed. Every stream that nobody reads has a sink, and some others do."""
    random = Random(f"graph-{seed}")
    steps: list[Step] = []
    flows: list[Flow] = []
    for number in range(random.choice([1, 1, 2, 2, 3])):
        params = KINDS["source"].draw(random, ())
        _add(steps, flows, Step("source", (), {**params, "first": 1 + 1000 * number}))
    wanted = len(steps) + random.choice([1, 2, 3, 3, 5, 5, 8, 12])
    for _ in range(100):
        if len(steps) >= wanted:
            break
        step = _drawn_step(random, flows)
        if step is not None:
            _add(steps, flows, step)
    return steps + _sinks(random, steps, len(flows))


def _drawn_step(random: Random, flows: Sequence[Flow]) -> Step | None:
    names = sorted(KINDS)
    (name,) = random.choices(names, [KINDS[each].weight for each in names])
    kind = KINDS[name]
    newest = range(max(0, len(flows) - 4), len(flows))
    inputs = tuple(
        random.choice(newest if random.random() < 0.7 else range(len(flows)))
        for _ in range(kind.arity)
    )
    read = [flows[number] for number in inputs]
    if not kind.fits(read):
        return None
    params = kind.draw(random, read) | _settings(random)
    if any(len(flow.rows) > MOST_ROWS for flow in kind.model(params, read)):
        return None
    return Step(name, inputs, params)


def _settings(random: Random) -> dict[str, Any]:
    """Settings of an operator, which most do not have."""
    found: dict[str, Any] = {}
    if random.random() < 0.15:
        found["parallelism"] = random.randint(1, 4)
    if random.random() < 0.1:
        found["max_parallelism"] = random.choice(OWN_GROUPS)
    return {"settings": found} if found else {}


def _add(steps: list[Step], flows: list[Flow], step: Step) -> None:
    steps.append(step)
    flows += KINDS[step.kind].model(step.params, [flows[number] for number in step.inputs])


def _sinks(random: Random, steps: Sequence[Step], streams: int) -> list[Step]:
    read = {number for step in steps for number in step.inputs}
    ends = [number for number in range(streams) if number not in read or random.random() < 0.15]
    ends += [number for number in ends if random.random() < 0.1]
    return [Step("sink", (number,)) for number in ends]


def flows_of(steps: Sequence[Step]) -> list[Flow]:
    """All streams of a graph, as the model has them."""
    flows: list[Flow] = []
    for step in steps:
        flows += KINDS[step.kind].model(step.params, [flows[number] for number in step.inputs])
    return flows


# ---------------------------------------------------------------- making a graph smaller


def smaller(steps: Sequence[Step]) -> list[list[Step]]:
    """Graphs with a step less, whose readers read what it has read, and with fewer rows."""
    found = [each for at in range(len(steps)) if (each := _without(steps, at)) is not None]
    for at, step in enumerate(steps):
        if step.kind == "source" and step.params["count"] > 1:
            count = step.params["count"] // 2
            less = replace(step, params={**step.params, "count": count})
            found.append([*steps[:at], less, *steps[at + 1 :]])
        if "settings" in step.params:
            bare = {name: each for name, each in step.params.items() if name != "settings"}
            found.append([*steps[:at], replace(step, params=bare), *steps[at + 1 :]])
    return [each for each in found if _is_sound(each)]


def _without(steps: Sequence[Step], at: int) -> list[Step] | None:
    counts = [
        len(KINDS[step.kind].model(step.params, _read(steps, n))) for n, step in enumerate(steps)
    ]
    first = sum(counts[:at])
    gone, step = range(first, first + counts[at]), steps[at]
    if gone and not step.inputs:
        readers = {number for each in steps for number in each.inputs}
        if readers & set(gone):
            return None
    instead = step.inputs[0] if step.inputs else -1

    def moved(number: int) -> int:
        return instead if number in gone else number - (counts[at] if number >= gone.stop else 0)

    kept = [each for n, each in enumerate(steps) if n != at]
    return [replace(each, inputs=tuple(map(moved, each.inputs))) for each in kept]


def _read(steps: Sequence[Step], at: int) -> list[Flow]:
    flows = flows_of(steps[:at])
    return [flows[number] for number in steps[at].inputs]


def _is_sound(steps: Sequence[Step]) -> bool:
    if not any(step.kind == "source" for step in steps) or len(steps) < 2:
        return False
    flows: list[Flow] = []
    for step in steps:
        read = [flows[number] for number in step.inputs]
        if not KINDS[step.kind].fits(read):
            return False
        flows += KINDS[step.kind].model(step.params, read)
    read_by = {number for step in steps for number in step.inputs}
    return all(number in read_by for number in range(len(flows)))
