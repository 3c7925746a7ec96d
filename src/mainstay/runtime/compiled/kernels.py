"""What runs kernels: machine code where a drive has it, the interpreter in a simulation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from mainstay.runtime.compiled import arithmetic
from mainstay.runtime.compiled.program import Program

Kernel = Callable[..., None]
"""Takes the arguments of a program, and raises ``Trap`` or ``Full``."""


class Kernels(Protocol):
    """Makes kernels of programs."""

    def load(self, program: Program) -> Kernel:
        """The kernel of a program. It may take seconds, and is called in the background."""


class InterpretedKernels:
    """Kernels that the interpreter runs: as slow as it is, and the same in all they do."""

    def load(self, program: Program) -> Kernel:
        names = vars(arithmetic) | {"fpower": _power}
        exec(compile(program.text, f"<kernel of {program.name}>", "exec"), names)
        kernel: Any = names["kernel"]
        return kernel  # type: ignore[no-any-return]


def _power(a: float, b: float) -> float:
    """What is too large is an error to the interpreter, and infinite to machine code."""
    try:
        return arithmetic.fpower(a, b)
    except OverflowError:
        raise arithmetic.Trap from None
