"""The child with a defect: the first row of every block of CSV but the first is lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from mainstay.connectors.files import formats
from tests.fuzz.child import serve

_sound = formats._after


def _losing(skip: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for number, batch in enumerate(_sound(skip, batches)):
        yield batch.slice(1) if number else batch


if __name__ == "__main__":
    formats._after = _losing
    serve()
