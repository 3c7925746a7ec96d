"""The child with a defect: the first row of every block but the first is lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import IO

from mainstay.connectors.files import csv_reading, text_blocks
from mainstay.connectors.files.text_blocks import Block, Layout, block_of
from tests.fuzz.child import serve

_sound = text_blocks.blocks_of


def _losing(file: IO[bytes], layout: Layout) -> Iterator[Block]:
    for number, block in enumerate(_sound(file, layout)):
        if number == 0:
            yield block
            continue
        rest = block.data.split(b"\n", 1)[1]
        yield replace(block_of(block.line + 1, rest, layout), line=block.line + 1)


if __name__ == "__main__":
    csv_reading.blocks_of = _losing
    serve()
