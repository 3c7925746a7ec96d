"""Redistribution: which units of operator state each subtask gets when the parallelism changes.

``split`` concatenates the units in the order of the old subtasks and deals them out in
contiguous runs that differ by one at most; the next state name starts where the last one ended,
so that many small states do not all land on the first subtasks. ``union`` shows everything to
everyone, and says which of it is whose (``OperatorUnits.own``), by the same rule: only that is
written again, so an element exists once however often the job restarts. ``broadcast`` gives new
subtask *i* the copy of old subtask *i mod copies*.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

import pyarrow as pa

from mainstay.errors import RestoreError
from mainstay.snapshot.manifest import OperatorUnits
from mainstay.state.operator import decode_units, encode_units

UnitsByName = Mapping[str, OperatorUnits]


def redistribute(old: Sequence[UnitsByName], parallelism: int) -> list[dict[str, OperatorUnits]]:
    """What each of ``parallelism`` new subtasks gets of what the old ones had."""
    new: list[dict[str, OperatorUnits]] = [{} for _ in range(parallelism)]
    start = 0
    for name in sorted({name for subtask in old for name in subtask}):
        copies = [subtask[name] for subtask in old if name in subtask]
        mode = copies[0].mode
        if mode == "split":
            shares, start = _split(name, old, parallelism, start)
        elif mode == "union":
            shares, start = _union(name, old, parallelism, start)
        elif mode == "broadcast":
            shares = _broadcast(copies, parallelism)
        else:
            raise RestoreError(f"operator state {name!r} has the unknown redistribution {mode!r}")
        for subtask, share in zip(new, shares, strict=True):
            subtask[name] = share
    return new


def _split(
    name: str, old: Sequence[UnitsByName], parallelism: int, start: int
) -> tuple[list[OperatorUnits], int]:
    if len(old) == parallelism and all(name in subtask for subtask in old):
        return [subtask[name] for subtask in old], start
    units = _concatenated([subtask[name] for subtask in old if name in subtask])
    sizes, start = _sizes(len(units), parallelism, start)
    return [_units("split", units.slice(*run)) for run in _runs(sizes)], start


def _sizes(count: int, parallelism: int, start: int) -> tuple[list[int], int]:
    """How many of some units each subtask gets, and where the next state starts."""
    base, extra = divmod(count, parallelism)
    sizes = [base] * parallelism
    for offset in range(extra):
        sizes[(start + offset) % parallelism] += 1
    return sizes, (start + extra) % parallelism


def _runs(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Where the run of each subtask begins, and its size."""
    return list(zip(accumulate(sizes[:-1], initial=0), sizes, strict=True))


def _union(
    name: str, old: Sequence[UnitsByName], parallelism: int, start: int
) -> tuple[list[OperatorUnits], int]:
    copies = [subtask[name] for subtask in old if name in subtask]
    units = _units("union", _concatenated(copies))
    if len(copies) == len(old) == parallelism:
        sizes = [copy.count for copy in copies]
    else:
        sizes, start = _sizes(units.count, parallelism, start)
    return [replace(units, own=run) for run in _runs(sizes)], start


def _broadcast(copies: Sequence[OperatorUnits], parallelism: int) -> list[OperatorUnits]:
    # A subtask that had nothing to report must not make others lose the list.
    filled = [copy for copy in copies if copy.count] or list(copies)
    return [filled[subtask % len(filled)] for subtask in range(parallelism)]


def _concatenated(copies: Sequence[OperatorUnits]) -> pa.Array:
    return pa.concat_arrays([decode_units(copy.data) for copy in copies])


def _units(mode: str, units: pa.Array) -> OperatorUnits:
    return OperatorUnits(mode, len(units), encode_units(units))
