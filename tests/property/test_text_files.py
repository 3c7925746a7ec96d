"""CSV and JSON-lines files under every policy for malformed records, against Python's own readers.

What strict reading accepts, every policy reads alike; where it does not, the good records are read
and the others counted.
"""

from __future__ import annotations

import csv
import io
import json
import re
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from mainstay.connectors import Files
from mainstay.errors import SourceError
from tests.searching import examples

SCHEMA = "name string, n long"
Rows = list[tuple[Any, ...]]


def outcome(data: bytes, format: str, malformed: str) -> tuple[Rows, int]:
    """The rows of a file and how many records were left out, or put aside."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"data.{format}"
        path.write_bytes(data)
        source = Files(str(path), schema=SCHEMA, malformed=malformed, batch_rows=3)
        (split,) = source.plan(frozenset())
        reader = source.read(split, None)
        rows: list[dict[str, Any]] = []
        while not (polled := reader.poll(2)).finished:
            rows += polled.batch.to_pylist() if polled.batch is not None else []
        reader.close()
    bad = [row for row in rows if row.get("_malformed") is not None]
    good = [(row["name"], row["n"]) for row in rows if row.get("_malformed") is None]
    return good, reader.skipped + len(bad)


def check_policies(data: bytes, format: str) -> tuple[Rows, int] | None:
    """What lenient reading gives, and that all policies agree; None if the header is no good."""
    try:
        strict = outcome(data, format, "fail")
    except SourceError:
        strict = None
    try:
        skipped, aside = outcome(data, format, "skip"), outcome(data, format, "side")
    except SourceError:
        assert strict is None
        return None
    assert skipped == aside
    if strict is not None:
        assert skipped == strict
        assert strict[1] == 0
    else:
        assert skipped[1] > 0
    return skipped


# ---------------------------------------------------------------- CSV

_fields = st.one_of(
    st.text("ab1", max_size=3),
    st.text('ab1"', max_size=4),
    st.text('ab1",\r\n', max_size=5).map(lambda text: '"' + text.replace('"', '""') + '"'),
    st.integers(-5, 50).map(str),
)
_ends = st.sampled_from(["\n", "\r\n", "\r"])
_csv_lines = st.lists(st.tuples(st.lists(_fields, min_size=1, max_size=3), _ends), max_size=8)


def csv_text(lines: list[tuple[list[str], str]], end: str, header: str) -> str:
    return header + end + "".join(",".join(fields) + line_end for fields, line_end in lines)


def model_of_csv(text: str) -> tuple[Rows, int] | None:
    """What Python's csv module makes of it; None where it does not say what we need to know."""
    _, *records = csv.reader(io.StringIO(text, newline=""))
    rows: Rows = []
    bad = 0
    for record in filter(None, records):
        if "" in record and '""' in text:
            return None  # null, or the empty text: it tells neither
        if len(record) == 2 and re.fullmatch(r"(-?\d+)?", record[1]):
            name, n = record
            rows.append((name or None, int(n) if n else None))
        else:
            bad += 1
    return rows, bad


@settings(deadline=None, max_examples=examples(150))
@given(_csv_lines, _ends, st.sampled_from(["name,n", '"name","n"']))
@example([(["a", "1"], "\r"), (["b", "2"], "\r")], "\r", "name,n")
@example([(['a"b', "1"], "\n"), (["c", "2"], "\n")], "\n", "name,n")
@example([(['"a"b"c', "1"], "\n"), (["c", "2"], "\n")], "\n", "name,n")
@example([(['"a', "1"], "\n"), (["c", "2"], "\n")], "\n", "name,n")
def test_csv_is_read_alike_under_every_policy(
    lines: list[tuple[list[str], str]], end: str, header: str
) -> None:
    text = csv_text(lines, end, header)
    found = check_policies(text.encode(), "csv")
    expected = model_of_csv(text)
    if expected is not None:
        assert found == expected


@settings(deadline=None, max_examples=examples(150))
@given(st.binary(max_size=40))
@example(b'\r\n"\r')
@example(b"a,1\n\xff,2\nb,3\n")
def test_csv_of_any_bytes_is_read_alike_under_every_policy(data: bytes) -> None:
    check_policies(b"name,n\n" + data, "csv")


# ---------------------------------------------------------------- JSON lines

_values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False),
    st.text(max_size=4),
    st.lists(st.integers(0, 3), max_size=2),
)
_objects = st.dictionaries(st.sampled_from(["name", "n", "other"]), _values, max_size=3)
_json_lines = st.one_of(
    st.builds(lambda n, text: json.dumps({"name": text, "n": n}), st.integers(0, 9), st.text()),
    _objects.map(json.dumps),
    _values.map(json.dumps),
    st.lists(_objects, max_size=2).map(lambda objects: " ".join(map(json.dumps, objects))),
    st.text('{}[]":,an1 ', max_size=8),
)


def model_of_json(line: bytes) -> tuple[Any, ...] | None:
    """The row of a line; None if it is malformed."""
    try:
        found = json.loads(line.decode())
        assert isinstance(found, dict)
        name, n = found.get("name"), found.get("n")
        assert name is None or isinstance(name, str)
        assert n is None or (isinstance(n, int) and not isinstance(n, bool))
        assert n is None or -(2**63) <= n < 2**63
        (name or "").encode()
    except (AssertionError, ValueError):
        return None
    return name, n


@settings(deadline=None, max_examples=examples(150))
@given(st.lists(_json_lines, max_size=8), st.sampled_from(["\n", "\r\n"]))
@example(["null", '{"name":"a","n":1}'], "\n")
@example(["5", "[1]", '"a"', "true", '{"n":1}'], "\n")
@example(['{"n":1} null', "null", '{"n":2}'], "\n")
def test_json_lines_are_read_alike_under_every_policy(lines: list[str], end: str) -> None:
    data = "".join(line + end for line in lines).encode()
    models = [model_of_json(line) for line in data.split(b"\n") if line.strip()]
    rows = [row for row in models if row is not None]
    assert check_policies(data, "json") == (rows, len(models) - len(rows))


@settings(deadline=None, max_examples=examples(100))
@given(st.lists(st.binary(max_size=6), max_size=5))
@example([b"a", b"\xff"])
@example([b"\xed\xa0\x80"])
def test_texts_that_are_no_utf8_are_malformed(texts: list[bytes]) -> None:
    plain = [bytes(c for c in text if c >= 32 and c not in b'"\\') for text in texts]
    lines = [b'{"name":"' + text + b'","n":1}' for text in plain]
    models = [model_of_json(line) for line in lines]
    rows = [row for row in models if row is not None]
    data = b"\n".join(lines) + b"\n"
    assert check_policies(data, "json") == (rows, len(models) - len(rows))
