"""The child with a defect, of which the first argument is the name."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import IO, Any

from mainstay.connectors.files import csv_reading, formats, text_blocks
from mainstay.connectors.files.text_blocks import Block, Layout, block_of
from mainstay.connectors.formats import records
from tests.fuzz import child

_blocks = text_blocks.blocks_of
_decode = records.Json.decode
_answer = child.answer


def _losing(file: IO[bytes], layout: Layout) -> Iterator[Block]:
    """The first row of every block but the first is lost."""
    for number, block in enumerate(_blocks(file, layout)):
        if number == 0:
            yield block
            continue
        rest = block.data.split(b"\n", 1)[1]
        yield replace(block_of(block.line + 1, rest, layout), line=block.line + 1)


def csv() -> None:
    csv_reading.blocks_of = _losing


def json() -> None:
    formats.blocks_of = _losing


def parquet() -> None:
    """What the library says of a damaged file is not told as an error of ours."""
    sound = formats.READERS["parquet"]

    def bare(*asked: Any) -> Iterator[Any]:
        try:
            yield from sound(*asked)
        except Exception as error:
            raise RuntimeError(str(error)) from error

    formats.READERS["parquet"] = bare


def decoding() -> None:
    """A bad record takes the good one before it along."""

    def decode(format: records.Json, given: Any) -> records.Decoded:
        told = _decode(format, given)
        if not told.errors or not told.batch.num_rows or told.rows[0] == 0:
            return told
        rows = told.rows.copy()
        rows[0] = 0
        return replace(told, batch=told.batch.slice(1), rows=rows)

    records.Json.decode = decode  # type: ignore[method-assign]


def _where_lenient(harm: Callable[[], Any]) -> None:
    def answer(asked: dict[str, Any]) -> dict[str, Any]:
        if asked.get("policy") == "skip":
            harm()
        return _answer(asked)

    child.answer = answer


def crash() -> None:
    _where_lenient(lambda: os.kill(os.getpid(), signal.SIGSEGV))


def hang() -> None:
    _where_lenient(threading.Event().wait)


DEFECTS = {each.__name__: each for each in (csv, json, parquet, decoding, crash, hang)}

if __name__ == "__main__":
    DEFECTS[sys.argv[1]]()
    child.serve()
