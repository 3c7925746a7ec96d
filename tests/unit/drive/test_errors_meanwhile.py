"""What is seen of a job that fails and goes on."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors import Memory
from mainstay.connectors import Sequence as Numbers
from mainstay.errors import JobFailedError, SchemaError, UserFunctionError
from tests.unit.drive.failing import PATIENCE_S, RETRY, Plain, Raising, await_true, start


class OnceAWhile(Plain):
    """Raises until it is told that it may work, in every attempt."""

    healed = threading.Event()

    def process(self, row: Any, ctx: Any) -> Any:
        if not OnceAWhile.healed.is_set():
            raise LookupError("no such order")
        return super().process(row, ctx)

    def __reduce__(self) -> Any:
        return OnceAWhile, ()


def test_a_failed_attempt_is_seen_everywhere_until_the_job_makes_progress(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    OnceAWhile.healed.clear()
    restart = ms.Restart(max_failures=1, backoff="1s")
    job = start(tmp_path, OnceAWhile(), restart=restart)
    await_true(job, lambda: job.status == "restarting")
    await_true(job, lambda: "attempt 1 failed" in caplog.text)
    status = job.wait(0)
    assert status == "restarting"
    assert {status: 1}["restarting"] == 1
    (problem,) = job.problems()
    reason = "LookupError: no such order"
    for text in (str(problem), str(status), f"{status}", repr(status), caplog.text):
        assert reason in text
        assert "attempt 1 failed: operator 'function', subtask" in text
        assert "attempt 2 " in text
        assert "from the beginning" in text
    (warning,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "\n    raise LookupError" in warning.getMessage(), "the author's own frames"
    OnceAWhile.healed.set()
    assert job.wait(PATIENCE_S) == "finished"
    assert job.problems() == []
    assert str(job.wait()) == "finished"


def test_the_last_failure_says_why_nothing_more_is_tried(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job = start(tmp_path, Raising())
    with pytest.raises(UserFunctionError):
        job.wait(PATIENCE_S)
    (line,) = caplog.messages
    assert line.endswith(
        "LookupError: no such order; it is not tried again, because the job has no restarts "
        "(restart=Restart() gives it some)"
    )


class Misspelt(Plain):
    def process(self, row: Any, ctx: Any) -> Any:
        return ctx.kye, row.n


def test_restarts_are_not_advised_for_a_mistake_that_none_heals(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(UserFunctionError, match="kye"):
        start(tmp_path, Misspelt()).wait(PATIENCE_S)
    (line,) = caplog.messages
    assert line.endswith("not tried again, because the job has no restarts")


def test_a_misspelt_name_ends_a_job_soon_however_many_empty_epochs_there_are(
    tmp_path: Path,
) -> None:
    settings = ms.Snapshots(tmp_path, every="5ms")
    env = ms.Environment(
        spark="embedded", snapshots=settings, restart=ms.Restart(max_failures=50, backoff="1ms")
    )
    numbers = env.source(Numbers(end=1000, rows_per_second=20), uid="in").map(
        lambda row: (row.id, row.id), "k long, n long", uid="pairs"
    )
    numbers.key_by("k").process(Misspelt(), "k long, n long", uid="function").sink(
        Memory(), uid="out"
    )
    job = env.start("misspelt")
    with pytest.raises(UserFunctionError, match="kye"):
        job.wait(PATIENCE_S)
    # A reader's first position may once be taken for progress.
    assert len(job.attempts()) in (3, 4)
    assert any(record.status == "complete" for record in job.snapshots())


def test_the_first_restart_says_how_to_have_none_and_no_other_does(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(UserFunctionError):
        start(tmp_path, Raising(), restart=RETRY).wait(PATIENCE_S)
    told = ["Restart(max_failures=0) ends a job at its first failure" in m for m in caplog.messages]
    assert told == [True, False, False]


class Text(Plain):
    def process(self, row: Any, ctx: Any) -> Any:
        return ctx.key, "many"


class Listing(Plain):
    def process(self, row: Any, ctx: Any) -> Any:
        return [ctx.key, 1]


def test_a_value_of_another_type_is_told_once_with_the_class_and_the_author_s_line(
    tmp_path: Path,
) -> None:
    with pytest.raises(JobFailedError) as raised:
        start(tmp_path, Text()).wait(PATIENCE_S)
    error = raised.value
    line = Text.process.__code__.co_firstlineno
    assert str(error).startswith(
        "job 'errors' failed: SchemaError: operator 'function', column 'n'"
    )
    assert str(error).endswith(f'File "{__file__}", line {line}, in process')
    assert isinstance(error.original, SchemaError)
    shown = "".join(traceback.format_exception(error))
    assert shown.count("does not fit the declared type long") == 1
    assert "concurrent" not in shown


def test_a_list_that_is_meant_as_a_row_is_explained(tmp_path: Path) -> None:
    with pytest.raises(
        JobFailedError, match=r"[012] is not a row.* several rows: for one row, return"
    ):
        start(tmp_path, Listing()).wait(PATIENCE_S)


class Interrupting(Plain):
    def process(self, row: Any, ctx: Any) -> Any:
        raise KeyboardInterrupt


def test_an_interrupt_that_a_function_raises_names_its_operator(tmp_path: Path) -> None:
    with pytest.raises(UserFunctionError, match=r"operator 'function', .*: KeyboardInterrupt"):
        start(tmp_path, Interrupting()).wait(PATIENCE_S)


UNCONFIGURED = """
import mainstay as ms
from mainstay.connectors import Memory, Rows

class Raising(ms.Process):
    def process(self, row, ctx):
        {statement}

env = ms.Environment(spark="embedded", parallelism=1, snapshots=ms.Snapshots("./snapshots"))
rows = env.source(Rows("n long", [(1,)]), uid="in")
rows.process(Raising(), "n long", uid="function").sink(Memory(), uid="out")
env.start("plain").wait()
"""


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("return 'many'", "the value 'many' of type str"),
        ("raise LookupError('no such order')", "subtask 0: LookupError: no such order"),
    ],
)
def test_a_terminal_shows_the_reason_of_a_failure_once(
    tmp_path: Path, statement: str, reason: str
) -> None:
    script = tmp_path / "plain.py"
    script.write_text(UNCONFIGURED.format(statement=statement))
    ended = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, cwd=tmp_path
    )
    assert ended.stderr.count(reason) == 1, ended.stderr
    assert "attempt 1 failed; it is not tried again, because" in ended.stderr


def test_a_warning_is_seen_without_any_configuration_of_logging(tmp_path: Path) -> None:
    program = f"""
import mainstay as ms
from mainstay.connectors import Memory, Rows

class Raising(ms.Process):
    def process(self, row, ctx):
        raise LookupError("no such order")

env = ms.Environment(spark="embedded", parallelism=1, snapshots=ms.Snapshots({str(tmp_path)!r}),
                     restart=ms.Restart(max_failures=1, backoff="1ms"))
rows = env.source(Rows("n long", [(1,)]), uid="in")
rows.process(Raising(), "n long", uid="function").sink(Memory(), uid="out")
env.start("plain").wait()
"""
    script = tmp_path / "plain.py"
    script.write_text(program)
    ended = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    told = ended.stderr
    assert ended.returncode == 1
    assert "job 'plain': attempt 1 failed: operator 'function', subtask 0: LookupError" in told
    assert "attempt 2 begins in 0.0 s, from the beginning" in told
    assert told.rstrip().endswith("LookupError: no such order")
    assert "mainstay/runtime" not in told, "the frames of the runtime are not shown"
    assert told.count('raise LookupError("no such order")') == 2
