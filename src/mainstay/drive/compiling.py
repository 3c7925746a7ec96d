"""Compiled functions are compiled before a job starts, on the machine of its driver.

That takes seconds, once for each function and machine. Workers of this machine then find what was
compiled in its cache, so that a recovery never waits for it. Those of other machines compile in the
background, and call the function itself until they have.
"""

from __future__ import annotations

import time

from mainstay.drive.notices import say_at_once
from mainstay.native.kernels import NumbaKernels, check_numba
from mainstay.runtime.compiled.program import Program
from mainstay.runtime.operators.compiled import CompiledRows
from mainstay.runtime.operators.make import Make
from mainstay.runtime.spec import JobSpec


def compile_functions(spec: JobSpec) -> None:
    """Compile what is not in the cache, and say so."""
    kernels = NumbaKernels()
    for program in programs_of(spec):
        check_numba(program.name)
        if not kernels.is_cached(program):
            say_at_once(
                f"{program.name} is compiled, which takes some seconds, once on this machine"
            )
            began = time.monotonic()
            kernels.load(program)
            say_at_once(f"{program.name} was compiled in {time.monotonic() - began:.1f} s")


def programs_of(spec: JobSpec) -> list[Program]:
    """The compiled functions of a job."""
    return [
        operator.factory.arguments[-1]
        for task in spec.tasks
        for operator in task.operators
        if isinstance(operator.factory, Make)
        and issubclass(operator.factory.operator, CompiledRows)
    ]
