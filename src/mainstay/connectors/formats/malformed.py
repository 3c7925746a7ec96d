"""Malformed records: what a source does with input that does not fit its schema.

A source takes ``malformed="fail" | "skip" | "side"``. With "fail", the default, the first bad
record ends the attempt with an error that names its position. With "skip" it is left out and
counted. With "side" it stays in its place, as a row in which every column is null but one:
``_malformed``, which says where the record was, what is wrong with it, and what its bytes are.

::

    self.schema = Malformed.with_column(schema, policy)     # in the source
    batch = settle(policy, good, {3: BadRecord("orders-0@17", "no JSON", b"{")})   # in a reader

Bad rows keep their place among the good ones: what a split gives has to be the same rows in the
same order whenever it is read, however the polls happen to cut it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mainstay.errors import GraphError, SourceError
from mainstay.spelling import did_you_mean, one_of, unended

MALFORMED_COLUMN = "_malformed"
POLICIES = ("fail", "skip", "side")


@dataclass(frozen=True, slots=True)
class BadRecord:
    """One record that does not fit. ``position`` is what a person finds it by."""

    position: str
    error: str
    raw: bytes


def malformed_type() -> pa.StructType:
    """The type of the column ``_malformed``."""
    return pa.struct([("position", pa.string()), ("error", pa.string()), ("raw", pa.binary())])


class Malformed:
    """What a policy means for the source that has it."""

    @staticmethod
    def check(policy: str, source: str) -> None:
        """Refuse a policy that there is not; ``source`` is the name of the source's class."""
        if policy not in POLICIES:
            raise GraphError(
                f"{source}(malformed={policy!r}) must be one of {one_of(POLICIES)}."
                f"{did_you_mean(policy, POLICIES)}"
            )

    @staticmethod
    def with_column(schema: pa.Schema, policy: str) -> pa.Schema:
        """The schema of the source's rows. With "side" every column may be null."""
        if policy != "side":
            return schema
        if MALFORMED_COLUMN in schema.names:
            raise GraphError(
                f"a source with malformed='side' adds the column {MALFORMED_COLUMN!r}, and the "
                "schema has one of that name already. Give that column another name."
            )
        fields = [field.with_nullable(True) for field in schema]
        return pa.schema([*fields, pa.field(MALFORMED_COLUMN, malformed_type())])

    @staticmethod
    def column_of(policy: str) -> str | None:
        """What a source sets as its ``malformed_column``."""
        return MALFORMED_COLUMN if policy == "side" else None


def settle(policy: str, good: pa.RecordBatch, bad: Mapping[int, BadRecord]) -> pa.RecordBatch:
    """The rows that a poll gives for its records, of which some are bad.

    ``bad`` has the bad records by their number among all records of the poll, ``good`` the rows of
    the others, in order and without the column ``_malformed``.
    """
    if policy == "fail" and bad:
        raise unreadable(bad[min(bad)])
    return _with_bad_rows(good, bad) if policy == "side" else good


def unreadable(record: BadRecord) -> SourceError:
    """The error that ends an attempt for a bad record."""
    is_encoded = "UTF-8" in record.error or "UTF8" in record.error
    remedy = "Convert it to UTF-8, as in iconv -f LATIN1 -t UTF-8" if is_encoded else ""
    return SourceError(
        f"the record at {record.position} does not fit the schema: {unended(record.error)}. "
        f"{remedy or 'Correct the schema'}, or give the source malformed='skip' to leave such "
        "records out, or malformed='side' to have them in a stream of their own."
    )


def _with_bad_rows(good: pa.RecordBatch, bad: Mapping[int, BadRecord]) -> pa.RecordBatch:
    schema = Malformed.with_column(good.schema, "side")
    if not bad:
        nothing = pa.nulls(good.num_rows, malformed_type())
        return pa.RecordBatch.from_arrays([*good.columns, nothing], schema=schema)
    count = good.num_rows + len(bad)
    is_bad = np.zeros(count, dtype=bool)
    is_bad[list(bad)] = True
    # Taking "no row" gives a row of nulls.
    places = pa.array(np.cumsum(~is_bad) - 1, mask=is_bad)
    columns = [column.take(places) for column in good.columns]
    told = [_told(bad.get(number)) for number in range(count)]
    return pa.RecordBatch.from_arrays([*columns, pa.array(told, malformed_type())], schema=schema)


def _told(record: BadRecord | None) -> dict[str, str | bytes] | None:
    if record is None:
        return None
    return {"position": record.position, "error": record.error, "raw": record.raw}
