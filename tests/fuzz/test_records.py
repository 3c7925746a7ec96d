"""Records of a log that are null, cut off or garbage: each is rows or bad, by itself."""

from __future__ import annotations

import base64
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstay.schema.ipc import to_ipc
from tests.fuzz.damage import damaged
from tests.fuzz.reading import Child, Outcome
from tests.roundtrips.kinds import examples

SCHEMA = "n long, x double, name string"
BATCH = pa.RecordBatch.from_pylist(
    [{"n": 1, "x": 1.5, "name": "a"}, {"n": None, "x": None, "name": None}]
)
RECORDS: dict[str, bytes] = {
    "Json": b'{"n":1,"x":1.5,"name":"a","u":[{}]}',
    "ArrowIpc": to_ipc([BATCH], BATCH.schema),
    "Raw": "text ä".encode(),
}
ARGUMENTS: dict[str, list[str]] = {"Json": [SCHEMA], "ArrowIpc": [SCHEMA], "Raw": ["v", "string"]}


def told_of(child: Child, kind: str, records: list[bytes | None]) -> Outcome:
    texts = [None if record is None else base64.b64encode(record).decode() for record in records]
    return child.ask(kind=kind, arguments=ARGUMENTS[kind], records=texts)


def check_apart(child: Child, kind: str, records: list[bytes | None]) -> None:
    """Records together are what each of them is by itself."""
    together = told_of(child, kind, records)
    apart = [told_of(child, kind, [record]) for record in records]
    assert together.error is None
    assert together.rows == [row for each in apart for row in each.rows]
    assert together.bad == sum(each.bad for each in apart)
    if kind != "ArrowIpc":
        assert len(together.rows) + together.bad == len(records)


def drawn(kind: str) -> Any:
    good = RECORDS[kind]
    garbage = st.binary(max_size=12)
    return st.lists(st.one_of(st.none(), st.just(good), damaged(good, most=2), garbage), max_size=4)


@pytest.mark.parametrize("kind", RECORDS)
def test_records_are_told_alike_together_and_apart(child: Child, kind: str) -> None:
    @settings(max_examples=examples(40))
    @given(drawn(kind))
    def check(records: list[bytes | None]) -> None:
        check_apart(child, kind, records)

    check()


def test_a_record_without_a_value_is_what_the_page_says(child: Child) -> None:
    assert told_of(child, "Json", [None]).rows == ["{'n': None, 'x': None, 'name': None}"]
    assert told_of(child, "Raw", [None]).rows == ["{'v': None}"]
    assert told_of(child, "ArrowIpc", [None]).rows == []
