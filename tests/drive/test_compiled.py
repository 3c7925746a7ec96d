"""Compiled functions in real processes: machine code, kills, and other forms of the same job."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import mainstay as ms
from mainstay.drive.compiling import compile_functions, programs_of
from mainstay.errors import MainstayError, UserFunctionError
from mainstay.native.kernels import NumbaKernels
from mainstay.runtime.compiled.run import Run
from mainstay.runtime.operators.compiled import CompiledRows
from tests.drive.compiled_ledger import CompiledLedgerJob, Digest, Plain
from tests.drive.ledger import PATIENCE_S, await_attempt

ROW = "id long, k long"
OUT = "k long, id long"


def test_every_row_counts_once_although_workers_are_killed(tmp_path: Path) -> None:
    ledger = CompiledLedgerJob(tmp_path)
    compile_functions(ledger.spec)
    job = ledger.start()
    for attempt in (1, 2):
        os.kill(await_attempt(job, attempt, 3)[attempt], signal.SIGKILL)
    assert job.wait(PATIENCE_S) == "finished"
    assert len(job.attempts()) == 3
    ledger.check()


@pytest.fixture
def itself(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows the function itself was called for, call by call."""
    called: list[int] = []
    interpret = Run._interpret

    def counted(run: Any, end: int) -> None:
        called.append(end - int(run._progress[0]))
        interpret(run, end)

    monkeypatch.setattr(Run, "_interpret", counted)
    return called


def started(folder: Path, function: ms.KeyedProcess, rows: list[Any], **how: Any) -> list[Any]:
    """What a job emits that runs in this process."""
    env = ms.Environment(
        spark="embedded",
        parallelism=1,
        snapshots=ms.Snapshots(folder / "snapshots", every="1s"),
        **how,
    )
    out = ms.connectors.Memory()
    source = env.source(ms.connectors.Rows(ROW, rows), uid="rows")
    source.key_by("k").process(function, OUT, uid="function").sink(out, uid="out")
    env.start("compiled").wait(PATIENCE_S)
    return sorted(out.rows())


def test_machine_code_takes_all_rows_but_those_that_it_cannot(
    tmp_path: Path, itself: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once(monkeypatch)
    rows = [(id, id % 7) for id in range(5_000)]
    assert started(tmp_path, Digest(), rows) == sorted((k, id) for id, k in rows)
    # One of a thousand is beyond 64 bits.
    assert itself == [1] * 5


def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are kernels before the first row comes."""

    def load(operator: CompiledRows) -> None:
        operator._loaded(NumbaKernels().load(operator._program))

    monkeypatch.setattr(CompiledRows, "_load", load)


def test_a_job_goes_on_in_the_other_form_and_with_other_backends(tmp_path: Path) -> None:
    rows: list[Any] = []
    rocks = ms.RocksDB(directory=tmp_path / "databases")
    turns = [(Digest, "heap"), (Plain, rocks), (Digest, rocks), (Digest, "heap"), (Plain, "heap")]
    for turn, (function, state) in enumerate(turns):
        rows += [(id, id % 5) for id in range(1_000 * turn, 1_000 * (turn + 1))]
        started(tmp_path, function(), rows, restore="latest-or-new", state=state)
    state = ms.connect(tmp_path / "snapshots")
    found = {key: state.query("function.sums", key=key).value for key in range(5)}
    expected = {k: [id for id, key in rows if key == k] for k in range(5)}
    assert found == {k: {"n": len(ids), "total": sum(ids)} for k, ids in expected.items()}


class Careless(ms.KeyedProcess, compiled=True):
    worst = ms.ValueState("long")

    def process(self, row: Any, ctx: Any) -> Any:
        self.worst.update(100 // (row.id - 700))
        return ctx.key, self.worst.get()


def test_an_error_is_the_authors_own_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(UserFunctionError, match="ZeroDivisionError") as raised:
        started(tmp_path, Careless(), [(id, 1) for id in range(1_000)], restart=ms.Restart(0))
    assert raised.value.uid == "function"
    assert "100 // (row.id - 700)" in str(raised.value)


def test_without_numba_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import util

    monkeypatch.setattr(util, "find_spec", lambda name: None)
    with pytest.raises(MainstayError, match=r"pip install 'mainstay\[compiled\]'"):
        started(tmp_path, Digest(), [(1, 1)])


def test_what_was_compiled_is_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSTAY_COMPILED", str(tmp_path / "compiled"))
    ledger = CompiledLedgerJob(tmp_path)
    (program,) = programs_of(ledger.spec)
    # Another text, or this process would have its kernel already.
    program = replace(program, text=f"{program.text}\n# somewhere else\n")
    kernels = NumbaKernels()
    assert not kernels.is_cached(program)
    kernels.load(program)
    assert kernels.is_cached(program)
