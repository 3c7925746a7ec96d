"""Structured logs: one JSON object a line, with the job, attempt, epoch, operator and subtask."""

from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mainstay as ms
from mainstay import logs
from mainstay.drive.output_record import OutputRecord
from mainstay.drive.printed import Printed, PrintedLine
from mainstay.errors import GraphError

FIELDS = ("job", "attempt", "epoch", "operator", "subtask")


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """Where all is logged as JSON; afterwards the loggers are as they were."""
    root, found = logging.getLogger(), io.StringIO()
    handlers, level, shown = list(root.handlers), root.level, warnings.showwarning
    logs.configure("json", stream=found)
    yield found
    logging.captureWarnings(False)
    root.handlers[:], root.level, warnings.showwarning = handlers, level, shown


def documents(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_record_is_one_line_with_all_fields(stream: io.StringIO) -> None:
    logging.getLogger("author").warning("two\nlines and %s", "a value")
    (found,) = documents(stream)
    assert found["message"] == "two\nlines and a value"
    assert (found["level"], found["logger"]) == ("WARNING", "author")
    assert found["at"].endswith("+00:00")
    assert [found[name] for name in FIELDS] == [None] * 5


def test_an_exception_and_a_field_that_json_has_no_form_for_are_texts(stream: io.StringIO) -> None:
    try:
        raise LookupError("no such order")
    except LookupError:
        logging.getLogger("author").exception("failed", extra={"operator": Path("/x")})
    (found,) = documents(stream)
    assert found["operator"] == "/x"
    assert found["exception"].endswith("LookupError: no such order")


def test_a_warning_of_python_is_a_record(stream: io.StringIO) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(True)
        warnings.warn("beware", stacklevel=1)
    (found,) = documents(stream)
    assert found["logger"] == "py.warnings"
    assert "beware" in found["message"]


def test_a_line_of_a_worker_says_who_printed_it(stream: io.StringIO) -> None:
    record = OutputRecord("orders", lambda: None)
    record.printed(Printed(3, 1, (PrintedLine(1.0, "stdout", "hello", "totals", 1),)))
    (found,) = documents(stream)
    assert [found[name] for name in FIELDS] == ["orders", 3, None, "totals", 1]
    assert (found["worker"], found["stream"]) == (1, "stdout")


class Logging(ms.KeyedProcess):
    def process(self, row: Any, ctx: Any) -> Any:
        logging.getLogger("author").warning("row %d", row.n)
        yield (row.n,)


def test_what_a_function_logs_has_its_job_and_operator(stream: io.StringIO, tmp_path: Path) -> None:
    env = ms.Environment(spark="embedded", parallelism=1, snapshots=ms.Snapshots(tmp_path))
    rows = env.source(ms.connectors.Rows("n long", [(1,), (2,)]), uid="in")
    rows.key_by("n").process(Logging(), "n long", uid="log").sink(ms.connectors.Memory(), uid="out")
    assert env.start("orders").wait(60, progress=False) == "finished"
    found = documents(stream)
    own = [each for each in found if each["logger"] == "author"]
    assert [each["message"] for each in own] == ["row 1", "row 2"]
    assert {
        tuple(each[name] for name in ("job", "attempt", "operator", "subtask")) for each in own
    } == {("orders", 1, "log", 0)}
    running = next(each for each in found if each["message"] == "job 'orders': running")
    assert (running["job"], running["attempt"], running["operator"]) == ("orders", 1, None)


def test_a_handler_that_is_there_gets_the_format_and_keeps_its_place(stream: io.StringIO) -> None:
    root = logging.getLogger()
    before = list(root.handlers)
    logs.configure("text")
    assert root.handlers == before
    logging.getLogger("author").warning("plain")
    assert stream.getvalue().endswith(" WARNING author: plain\n")


def test_an_unknown_format_is_refused_with_those_there_are() -> None:
    with pytest.raises(GraphError, match=r"'jsn' is unknown; choose text or json.*'json'\?"):
        logs.configure("jsn")


PROGRAM = textwrap.dedent("""
    import sys
    import mainstay as ms
    env = ms.Environment(spark="embedded", snapshots=ms.Snapshots(sys.argv[1]))
    rows = env.source(ms.connectors.Rows("n long", [(1,)]), uid="in")
    rows.sink(ms.connectors.Memory(), uid="out")
    env.start("orders").wait(60, progress=False)
""")


def test_the_environment_asks_for_it(tmp_path: Path) -> None:
    def run(format: str) -> Any:
        environment = {**os.environ, "MAINSTAY_LOG_FORMAT": format}
        command = [sys.executable, "-c", PROGRAM, str(tmp_path / format)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)

    told = [json.loads(line) for line in run("json").stderr.splitlines()]
    assert "job 'orders': running" in [each["message"] for each in told]
    assert {each["job"] for each in told} == {"orders"}
    refused = run("xml")
    assert refused.returncode == 1
    assert "MAINSTAY_LOG_FORMAT: the log format 'xml' is unknown" in refused.stderr
