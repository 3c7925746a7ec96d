"""A trial: a drawn function, compiled and not, over the same rows."""

from __future__ import annotations

from pathlib import Path

from mainstay.plan.compiling.refusal import NotCompiledError
from mainstay.runtime.compiled.kernels import Kernels
from mainstay.schema import rows_to_batch, to_schema
from tests.compiled.driving import Driven, plain
from tests.compiled.modules import module_of
from tests.compiled.written import Drawn, drawn


def trial(seed: int, folder: Path, kernels: Kernels | None = None) -> str:
    """How the trial of a seed went: it gave rows, failed, or was refused."""
    given = drawn(seed)
    function = module_of(given.source, folder).F
    schema = to_schema(given.taken)
    batches = [rows_to_batch(rows, schema, "a trial") for rows in given.batches]
    try:
        compiled = Driven(function(), given.taken, given.key, given.given, kernels)
    except NotCompiledError:
        return "refused"
    own = Driven(plain(function)(), given.taken, given.key, given.given).after(batches)
    assert compiled.after(batches) == own, _told(given)
    return "failed" if own.error else "rows"


def _told(given: Drawn) -> str:
    return f"seed {given.seed}: {given.taken} -> {given.given}\n{given.batches}\n{given.source}"
