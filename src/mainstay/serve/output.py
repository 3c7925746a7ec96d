"""What functions have printed, as a document."""

from __future__ import annotations

from typing import Literal

from mainstay.drive.output_record import OutputLine, OutputRecord
from mainstay.serve.documents import Document


class OutputLineDocument(Document):
    """A line that a function has printed, or logged to the terminal.

    ``operator`` is empty, and ``subtask`` null, where no operator was at work.
    """

    at: float
    attempt: int
    worker: int
    operator: str
    subtask: int | None
    stream: Literal["stdout", "stderr"]
    text: str


class OutputDocument(Document):
    """The last lines, oldest first; ``left_out`` is how many before them are not kept."""

    lines: list[OutputLineDocument]
    left_out: int


def output_of(record: OutputRecord, limit: int, attempt: int | None) -> OutputDocument:
    """The newest lines, oldest first; what is cut here counts as left out as well."""
    lines, left_out = record.lines(attempt)
    shown = lines[max(0, len(lines) - limit) :]
    return OutputDocument(
        lines=[_line(each) for each in shown], left_out=left_out + len(lines) - len(shown)
    )


def _line(found: OutputLine) -> OutputLineDocument:
    line = found.line
    return OutputLineDocument(
        at=line.at,
        attempt=found.attempt,
        worker=found.worker,
        operator=line.operator,
        subtask=line.subtask,
        stream=line.stream,
        text=line.text,
    )
