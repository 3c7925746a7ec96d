"""What kernels compute with, over nasty numbers: Python's own results or a trap, and the same as
machine code."""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from mainstay.runtime.compiled import arithmetic
from mainstay.runtime.compiled.kernels import InterpretedKernels
from mainstay.runtime.compiled.program import Program
from tests.compiled.driving import bits

WHOLE = (
    0, 1, -1, 2, -2, 3, 7, -7, 10, 62, 63, 64, 1000, 86_400_000_000, 3037000499, -3037000500,
    (1 << 31) - 1, -(1 << 31), (1 << 53) - 1, 1 << 53, (1 << 53) + 1, -(1 << 53), -(1 << 53) - 1,
    1 << 62, (1 << 62) + 1, -(1 << 62), (1 << 63) - 2, (1 << 63) - 1, -(1 << 63), -(1 << 63) + 1,
)  # fmt: skip
PARTS = (
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 2.0, 3.0, -3.0, 10.0, 0.1, 0.3, 1e-5, 1e16,
    1e22, 2.0**52 + 0.5, 2.0**53, -(2.0**53) - 2, 2.0**63, -(2.0**63), 2.0**63 - 1024, 1e100,
    1e308, -1e308, 1.7976931348623157e308, 5e-324, -5e-324, 2.2250738585072014e-308, 1e-200,
    1e-162, 709.0, 711.0, -745.0, 1024.0, -1074.0, 3.4028234663852886e38, 3.4028235677973366e38,
    1e39, 16777217.0, math.pi, math.inf, -math.inf, math.nan,
)  # fmt: skip


def _single(a: float) -> float:
    told: float = struct.unpack("<f", struct.pack("<f", a))[0]
    return told


# What Python does, and what it is given: whole numbers (i) or floats (f).
EXPECTED: dict[str, tuple[str, Callable[..., Any]]] = {
    "add": ("ii", operator.add),
    "sub": ("ii", operator.sub),
    "mul": ("ii", operator.mul),
    "neg": ("i", operator.neg),
    "absolute": ("i", abs),
    "floordiv": ("ii", operator.floordiv),
    "mod": ("ii", operator.mod),
    "truediv": ("ii", operator.truediv),
    "shl": ("ii", operator.lshift),
    "shr": ("ii", operator.rshift),
    "exact": ("i", float),
    "fdiv": ("ff", operator.truediv),
    "ffloordiv": ("ff", operator.floordiv),
    "ffmod": ("ff", operator.mod),
    "fpower": ("ff", operator.pow),
    "canonical": ("f", lambda a: a),
    "single": ("f", _single),
    "truncated": ("f", int),
    "floor": ("f", math.floor),
    "ceil": ("f", math.ceil),
    "rounded": ("f", round),
    "m_sqrt": ("f", math.sqrt),
    "m_exp": ("f", math.exp),
    "m_log": ("f", math.log),
    "m_log2": ("f", math.log2),
    "m_log10": ("f", math.log10),
    "m_sin": ("f", math.sin),
    "m_cos": ("f", math.cos),
    "m_tan": ("f", math.tan),
    "m_atan": ("f", math.atan),
    "m_tanh": ("f", math.tanh),
    "m_atan2": ("ff", math.atan2),
    "m_fmod": ("ff", math.fmod),
    "total_seconds": ("i", lambda us: timedelta(microseconds=us).total_seconds()),
}
_POOLS = {"i": WHOLE, "f": PARTS}


def _arguments(kinds: str) -> list[tuple[Any, ...]]:
    pools = [_POOLS[kind] for kind in kinds]
    if len(pools) == 1:
        return [(a,) for a in pools[0]]
    return [(a, b) for a in pools[0] for b in pools[1]]


def _told(function: Callable[..., Any], arguments: tuple[Any, ...]) -> str:
    """What a function gives, by its bits, or that it trapped."""
    try:
        return bits(function(*arguments))
    except arithmetic.Trap:
        return "a trap"


def _interpreted() -> dict[str, Any]:
    """The functions as kernels that are interpreted have them."""
    text = "def kernel():\n    return globals()\n"
    program = Program("a test", text, (), (), (), (), (), (), ())
    names: dict[str, Any] = InterpretedKernels().load(program)()  # type: ignore[func-returns-value]
    return names


@pytest.mark.parametrize("name", EXPECTED)
def test_is_what_python_gives_or_a_trap(name: str) -> None:
    kinds, expected = EXPECTED[name]
    function, traps, every = _interpreted()[name], 0, _arguments(kinds)
    for arguments in every:
        told = _told(function, arguments)
        if told == "a trap":
            traps += 1
        else:
            assert told == bits(expected(*arguments)), (name, arguments)
    assert traps < len(every), "it does nothing but trap"


def test_a_power_of_whole_numbers_is_what_python_gives() -> None:
    for a in WHOLE:
        for exponent in (0, 1, 2, 3, 5, 62, 63, 64):
            told = _told(arithmetic.power, (a, exponent))
            is_within = -(1 << 63) <= a**exponent < 1 << 63
            assert told == (bits(a**exponent) if is_within else "a trap"), (a, exponent)


def test_every_day_of_some_centuries_has_its_date() -> None:
    epoch = date(1970, 1, 1)
    ends = [arithmetic.FIRST_DAY, arithmetic.LAST_DAY]
    for days in [*range(-37_000, 48_000, 13), *range(-1000, 1000), *ends]:
        found = epoch + timedelta(days=days)
        assert arithmetic.civil(days) == (found.year, found.month, found.day)


def test_machine_code_computes_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    from mainstay.native import cache, kernels

    monkeypatch.setenv(cache.FOLDER, str(tmp_path))
    # One function of all, because each that is compiled by itself takes a second.
    whole = [name for name in EXPECTED if isinstance(_sample(name), int)]
    parts = [name for name in EXPECTED if name not in whole]
    module = cache.module_of(
        kernels._source(_chooser("whole_", whole, "0") + _chooser("parts_", parts, "0.0")),
        "every_function",
    )
    pure = _interpreted()
    for chooser, names in ((module.whole_, whole), (module.parts_, parts)):
        for number, name in enumerate(names):
            kinds, _ = EXPECTED[name]
            for arguments in _arguments(kinds):
                i = [a for kind, a in zip(kinds, arguments, strict=True) if kind == "i"]
                f = [a for kind, a in zip(kinds, arguments, strict=True) if kind == "f"]
                given = (number, *([*i, 0, 0])[:2], *([*f, 0.0, 0.0])[:2])
                assert _told(chooser, given) == _told(pure[name], arguments), (name, arguments)


def _sample(name: str) -> Any:
    kinds, expected = EXPECTED[name]
    return expected(*(3 if kind == "i" else 3.0 for kind in kinds))


def _chooser(name: str, names: list[str], otherwise: str) -> str:
    """The text of one function that calls those of some names, by their number."""
    lines = ["", "", "@njit", f"def {name}(which, a, b, x, y):"]
    for number, each in enumerate(names):
        kinds, _ = EXPECTED[each]
        given = ("a, b" if kinds[0] == "i" else "x, y")[: 4 if len(kinds) == 2 else 1]
        lines += [f"    if which == {number}:", f"        return {each}({given})"]
    return "\n".join([*lines, f"    return {otherwise}", "", ""])
