"""Which cells of the table are tried where: a few of each kind in the suite, all in the soak."""

from __future__ import annotations

from typing import Any

import pytest

from tests.callbacks.conducts import ERRORS, Conduct
from tests.callbacks.kind import Kind
from tests.callbacks.table import KINDS

IN_SUITE = 2
"""How many errors of each kind the suite tries. They differ from kind to kind."""

Cell = tuple[Kind, Conduct]


def cells(kinds: tuple[Kind, ...] = KINDS) -> list[Cell]:
    """The whole table, without what is no error to the one who calls."""
    return [(kind, error) for kind in kinds for error in ERRORS if error.name not in kind.takes]


def is_in_suite(kind: Kind, error: Conduct) -> bool:
    number = KINDS.index(kind) * IN_SUITE
    chosen = [ERRORS[(number + step) % len(ERRORS)] for step in range(IN_SUITE)]
    return error in chosen


def marked(cell: Cell, *, in_suite: bool) -> Any:
    marks = () if in_suite else (pytest.mark.soak,)
    return pytest.param(*cell, id=f"{cell[0].name}-{cell[1].name}", marks=marks)


EMBEDDED = [marked(cell, in_suite=is_in_suite(*cell)) for cell in cells()]
