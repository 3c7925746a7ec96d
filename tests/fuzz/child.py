"""Reads what it is asked to, and answers: a process of its own, because a reader may crash.

A question is a line of JSON with the arguments of ``Files``, or with records and their format. An
answer has the rows, how many records were put aside or left out, and the error that ended it.
"""

from __future__ import annotations

import base64
import json
import sys
from typing import Any

from mainstay.connectors import Files
from mainstay.connectors.files import text_blocks
from mainstay.connectors.formats import records as formats
from mainstay.errors import MainstayError

MOST_POLLS = 100_000


def read_file(asked: dict[str, Any]) -> dict[str, Any]:
    text_blocks.BLOCK_BYTES = asked["block_bytes"]
    source = Files(
        asked["path"],
        schema=asked["schema"],
        format=asked["format"],
        malformed=asked["policy"],
        batch_rows=asked["batch_rows"],
    )
    rows: list[dict[str, Any]] = []
    skipped = 0
    for split in source.plan(frozenset()):
        reader = source.read(split, None)
        for _ in range(MOST_POLLS):
            polled = reader.poll(asked["max_rows"])
            rows += [] if polled.batch is None else polled.batch.to_pylist()
            if polled.finished:
                break
        else:
            raise AssertionError("the split has no end")
        skipped += reader.skipped
        reader.close()
    bad = [row["_malformed"] for row in rows if row.get("_malformed") is not None]
    good = [row for row in rows if row.get("_malformed") is None]
    for row in good:
        row.pop("_malformed", None)
    positions = [each["position"] for each in bad]
    return {"rows": list(map(repr, good)), "bad": skipped + len(bad), "positions": positions}


def decode(asked: dict[str, Any]) -> dict[str, Any]:
    format = getattr(formats, asked["kind"])(*asked["arguments"])
    given = [None if text is None else base64.b64decode(text) for text in asked["records"]]
    decoded = format.decode(given)
    decoded.batch.validate(full=True)
    assert int(decoded.rows.sum()) == decoded.batch.num_rows
    assert not any(decoded.rows[number] for number in decoded.errors)
    rows = list(map(repr, decoded.batch.to_pylist()))
    return {"rows": rows, "bad": len(decoded.errors), "of": decoded.rows.tolist()}


def answer(asked: dict[str, Any]) -> dict[str, Any]:
    try:
        return decode(asked) if "kind" in asked else read_file(asked)
    except MainstayError as error:
        return {"error": str(error)}


def serve() -> None:
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    serve()
