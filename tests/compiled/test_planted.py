"""Defects that are planted in compiled functions: the trials of drawn functions notice each."""

from __future__ import annotations

import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mainstay.plan.compiling import (
    conversions,
    emission,
    expressions,
    frame,
    operations,
    statements,
)
from mainstay.runtime.compiled import arithmetic, dense, kernels, run
from tests.compiled.test_alike import SAME, outcomes
from tests.compiled.trials import trial

MOST_SEEDS = 300
Plant = Callable[[pytest.MonkeyPatch], None]


def _wraps(patch: pytest.MonkeyPatch) -> None:
    for name, operate in (("add", operator.add), ("sub", operator.sub), ("mul", operator.mul)):

        def wrapping(a: int, b: int, operate: Any = operate) -> int:
            return int((operate(a, b) + (1 << 63)) % (1 << 64) - (1 << 63))

        patch.setattr(arithmetic, name, wrapping)


def _division_of_c(patch: pytest.MonkeyPatch) -> None:
    def floordiv(a: int, b: int) -> int:
        if b == 0:
            raise arithmetic.Trap
        return int(a / b)

    patch.setattr(arithmetic, "floordiv", floordiv)


def _modulo_of_c(patch: pytest.MonkeyPatch) -> None:
    def ffmod(a: float, b: float) -> float:
        if b == 0.0 or a - a != 0.0 or b - b != 0.0:
            raise arithmetic.Trap
        return arithmetic.math.fmod(a, b)

    patch.setattr(arithmetic, "ffmod", ffmod)


def _a_state_of_a_trapped_row(patch: pytest.MonkeyPatch) -> None:
    """What the kernel has written before it trapped stays, as if the row were not whole."""
    load = kernels.InterpretedKernels.load

    def loaded(self: kernels.InterpretedKernels, program: Any) -> Any:
        lines = program.text.split("\n")
        early = []
        for line in lines:
            early.append(line)
            name, _, value = line.strip().partition(" = ")
            if name.startswith("st") and not value.startswith(("int_", "float_", "bool_")):
                number, _, end = name[2:].partition("_")
                if end and end != "w":
                    early.append(line.replace(line.strip(), f"S{number}_{end}[g] = {value}"))
        object.__setattr__(program, "text", "\n".join(early))
        return load(self, program)

    patch.setattr(kernels.InterpretedKernels, "load", loaded)


def _a_swapped_branch(patch: pytest.MonkeyPatch) -> None:
    """Of conditional expressions: loops would not end if all were swapped."""
    choose = expressions.chosen

    def swapped(own: Any, node: Any, told: str, then: Any, other: Any) -> Any:
        is_conditional = isinstance(node, statements.ast.IfExp)
        return choose(own, node, f"(not {told})" if is_conditional else told, then, other)

    patch.setattr(expressions, "chosen", swapped)


def _no_unset_variables(patch: pytest.MonkeyPatch) -> None:
    def is_set(self: frame.Frame, name: str) -> None:
        flag = f"{self.prefix}{name}_set"
        self.write.zeros.setdefault(flag, "True")

    patch.setattr(frame.Frame, "_is_set", is_set)


def _none_is_zero(patch: pytest.MonkeyPatch) -> None:
    def there(write: Any, value: Any) -> Any:
        if value.type.kind == "none":
            write("raise Trap")
            return value
        return value.plain

    patch.setattr(operations, "there", there)


def _else_of_every_loop(patch: pytest.MonkeyPatch) -> None:
    stop = statements._break

    def left(own: Any, node: Any) -> None:
        loop = own.loops[-1]
        natural, loop.natural = loop.natural, None
        stop(own, node)
        loop.natural = natural

    patch.setitem(statements._STATEMENTS, statements.ast.Break, left)


def _state_is_not_written(patch: pytest.MonkeyPatch) -> None:
    """What the function itself has written for a trapped row is lost."""
    patch.setattr(dense.DenseState, "put", lambda self, places, kept: None)


def _rows_in_another_order(patch: pytest.MonkeyPatch) -> None:
    emitted = run.Run.emitted

    def reordered(self: run.Run) -> Any:
        return reversed(list(emitted(self)))

    patch.setattr(run.Run, "emitted", reordered)


def _negative_zero_is_zero(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(arithmetic, "float_", lambda a: float(a) + 0.0)


def _negative_is_false(patch: pytest.MonkeyPatch) -> None:
    truth = conversions.truth

    def told(write: Any, codes: Any, value: Any) -> str:
        code = truth(write, codes, value)
        return code.replace("!= 0.0", "> 0.0") if value.type.kind == "float" else code

    patch.setattr(expressions, "truth", told)


def _columns_that_are_always_there(patch: pytest.MonkeyPatch) -> None:
    stores = emission.Emission._stores

    def stored(self: Any, *given: Any) -> list[str]:
        return [
            line.partition(" = ")[0] + " = True" if "_ok[n]" in line else line
            for line in stores(self, *given)
        ]

    patch.setattr(emission.Emission, "_stores", stored)


DEFECTS: dict[str, Plant] = {
    "whole numbers wrap": _wraps,
    "a division rounds to zero": _division_of_c,
    "a remainder has the sign of C": _modulo_of_c,
    "a state is written although its row trapped": _a_state_of_a_trapped_row,
    "branches are swapped": _a_swapped_branch,
    "unset variables are zero": _no_unset_variables,
    "None is zero": _none_is_zero,
    "a state of a row that trapped is lost": _state_is_not_written,
    "rows that trapped go first": _rows_in_another_order,
    "-0.0 becomes 0.0": _negative_zero_is_zero,
    "a negative number is false": _negative_is_false,
    "what goes out is always there": _columns_that_are_always_there,
}


IN_THE_SUITE = (
    "a division rounds to zero",
    "a remainder has the sign of C",
    "a state is written although its row trapped",
    "branches are swapped",
    "unset variables are zero",
    "None is zero",
)
"""Those that few functions notice are left to the soak."""
PLANTS = [
    pytest.param(plant, id=name, marks=() if name in IN_THE_SUITE else pytest.mark.soak)
    for name, plant in DEFECTS.items()
]


@pytest.mark.mutation
@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_defect_is_noticed(
    plant: Plant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    for seed in range(MOST_SEEDS):
        if _is_noticed(seed, tmp_path):
            return
    raise AssertionError(f"{MOST_SEEDS} drawn functions are the same with it")


@pytest.mark.mutation
def test_an_else_that_comes_after_a_break_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Hardly a drawn loop has both.
    _else_of_every_loop(monkeypatch)
    compiled, own = outcomes(SAME["the else of a loop, with and without a break"], tmp_path)
    assert compiled != own


def _is_noticed(seed: int, folder: Path) -> bool:
    try:
        trial(seed, folder)
    except Exception:
        # A difference, or an error of the kernel's own text.
        return True
    return False
