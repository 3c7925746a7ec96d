"""Committed rows printed where the job was started: to see what a stream gives.

::

    stream.sink(Console(), uid="out")

    out, epoch 7: 1,204 rows
      customer │ total
      alice    │ 12
      bob      │ 7
      … and 1,202 more

Only the rows that are printed go through snapshots, so it may stand behind any stream. A commit
that is repeated after a crash of the driver is printed again.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

import pyarrow as pa

from mainstay.connectors.bases.row_handles import read_row_handle, write_row_handle
from mainstay.errors import GraphError
from mainstay.own_frames import made_with_own_frames
from mainstay.runtime.connector import Sink, SinkContext, SinkWriter
from mainstay.schema import batch_to_rows, row_class

FORMAT = 1
_UNSHOWN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""What would end the line, or steer the terminal."""
WIDEST = 60
"""Letters of a value that are printed."""

_METADATA = b"mainstay.console"
_printing = threading.Lock()


@made_with_own_frames
class Console(Sink):
    """Prints the first ``limit`` rows of an epoch, and how many more there are."""

    is_global = True

    def __init__(self, limit: int = 20) -> None:
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
            raise GraphError(f"Console(limit={limit!r}) must be a number of at least 1.")
        self.limit = limit
        self._printed: set[str] = set()

    def open(self, context: SinkContext) -> SinkWriter:
        return _ConsoleWriter(context, self.limit)

    def commit_epoch(self, epoch: int, handles: Sequence[bytes]) -> None:
        shares = [_Share(handle) for handle in handles]
        with _printing:
            new = [share for share in shares if share.name not in self._printed]
            for at in sorted({share.epoch for share in new}):
                self._print(at, [share for share in new if share.epoch == at])
            # Handles come again until they are confirmed, and not after later ones.
            self._printed = {share.name for share in shares}

    def _print(self, epoch: int, shares: list[_Share]) -> None:
        total = sum(share.total for share in shares)
        table = pa.concat_tables([share.rows for share in shares], promote_options="default")
        lines = shown(table.slice(0, self.limit))
        more = total - min(self.limit, table.num_rows)
        tail = [f"… and {more:,} more"] if more else []
        noun = "row" if total == 1 else "rows"
        head = f"{shares[0].uid}, epoch {epoch}: {total:,} {noun}"
        # One write, so that what others print does not come between.
        _write(sys.stdout, "\n".join([head, *(f"  {line}" for line in [*lines, *tail]), ""]))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_printed": set()}


class _ConsoleWriter(SinkWriter):
    """Counts rows, and keeps the first of an epoch."""

    def __init__(self, context: SinkContext, limit: int) -> None:
        self._context = context
        self._limit = limit
        self._kept: list[pa.RecordBatch] = []
        self._total = 0

    def write(self, batch: pa.RecordBatch) -> None:
        room = self._limit - self._total
        if room > 0:
            self._kept.append(batch.slice(0, room))
        self._total += batch.num_rows

    def prepare(self, epoch: int) -> bytes | None:
        kept, self._kept = self._kept, []
        total, self._total = self._total, 0
        if not total:
            return None
        context = self._context
        name = f"{context.attempt}-{context.subtask}-{epoch}"
        about = [context.uid, name, epoch, total]
        return write_row_handle(_METADATA, FORMAT, about, pa.Table.from_batches(kept))


class _Share:
    """What one subtask has to show of an epoch."""

    def __init__(self, handle: bytes) -> None:
        about, rows = read_row_handle(handle, _METADATA, FORMAT, "console")
        self.uid, self.name, self.epoch, self.total = about
        self.rows = rows.replace_schema_metadata(None)


def shown(table: pa.Table) -> Iterator[str]:
    """A table as lines of text, columns under each other."""
    batches = table.to_batches()
    values = [
        tuple(row) for batch in batches for row in batch_to_rows(batch, row_class(batch.schema))
    ]
    cells = [
        list(map(_cell, table.schema.names)),
        *([_cell(value) for value in row] for row in values),
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield " │ ".join(padded).rstrip()


def _cell(value: Any) -> str:
    text = "null" if value is None else str(value)
    text = _UNSHOWN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 1]}…"


def _write(to: TextIO | None, text: str) -> None:
    # A process without standard output has nobody to show rows to; ``print`` says nothing either.
    if to is not None:
        to.write(text)
        to.flush()
