"""CSV and JSON files that are damaged, odd or huge, under every policy for malformed records.

No crash, no hang; what is told does not depend on policy, block, batch or poll; records are rows or
bad, and none is neither.
"""

from __future__ import annotations

import gzip

import pytest
from hypothesis import example, given, settings

from tests.fuzz.damage import damaged
from tests.fuzz.reading import Child, check_agreement
from tests.roundtrips.kinds import examples

DEEP = b"[" * 10_000 + b"]" * 10_000
Case = tuple[str, bytes, int, int]
JSON: dict[str, Case] = {
    "nesting of 10,000 levels in a field that nobody reads": (
        "a double",
        b'{"a":1,"u":' + DEEP + b'}\n{"a":"NaN"}\n',
        2,
        0,
    ),
    "nesting of 10,000 levels beside a map": (
        "a map<string,long>",
        b'{"u":' + DEEP + b'}\n{"a":{"x":2}}\n',
        1,
        1,
    ),
    "nesting that is never closed": ("a long", b'{"a":' + b"[" * 100_000 + b'\n{"a":2}\n', 1, 1),
    "a name twice": ("a long", b'{"a":1,"a":2}\n{"a":3}\n', 1, 1),
    "a name twice that nobody reads, beside a NaN": (
        "a double",
        b'{"a":1,"u":1,"u":2}\n{"a":"NaN"}\n{"a":"NaN","u":1,"u":2}\n',
        3,
        0,
    ),
    "a name twice in a map": ("a map<string,long>", b'{"a":{"x":1,"x":2}}\n{"a":{"y":3}}\n', 1, 1),
    "names of a map that stand for one key": (
        "a map<double,int>",
        b'{"a":{"1":1,"1.0":2}}\n{"a":{"1":1,"NaN":2}}\n',
        1,
        1,
    ),
    "a number beyond doubles": ("a double", b'{"a":1e400}\n{"a":3}\n', 1, 1),
    "a number beyond floats": ("a float", b'{"a":1e39}\n{"a":-1e39}\n{"a":Infinity}\n', 1, 2),
    "a number beyond floats in an array": ("a array<float>", b'{"a":[1,1e39]}\n{"a":[1]}\n', 1, 1),
    "numbers that are none, as literals": (
        "a double",
        b'{"a":NaN}\n{"a":Infinity}\n{"a":-Infinity}\n{"a":nan}\n',
        3,
        1,
    ),
    "null in a field that is not null": (
        "a struct<x:int not null>",
        b'{"a":{"x":null}}\n{"a":{}}\n{"a":{"x":1}}\n{"a":null}\n',
        2,
        2,
    ),
    "null in a field that is not null, in an array": (
        "a array<struct<x:int not null>>",
        b'{"a":[{"x":null}]}\n{"a":[{"x":1},null]}\n',
        1,
        1,
    ),
    "half of a surrogate": ("a string", b'{"a":"\\ud800"}\n{"a":"b"}\n', 1, 1),
    "half of a surrogate in a map": (
        "a map<string,string>",
        b'{"a":{"x":"\\ud800"}}\n{"a":{}}\n',
        1,
        1,
    ),
    "nothing": ("a long", b"", 0, 0),
    "empty lines": ("a long", b"\n\n \n", 0, 0),
    "a byte order mark": ("a long", b'\xef\xbb\xbf{"a":1}\n{"a":2}', 2, 0),
    "a mark in the middle": ("a long", b'{"a":1}\n\xef\xbb\xbf{"a":2}\n', 1, 1),
    "another encoding": ("a string", b'{"a":"\xe9"}\n{"a":"b"}\n', 1, 1),
    "line ends of three kinds": ("a long", b'{"a":1}\r\n{"a":2}\n{"a":3}\r', 3, 0),
    "two objects on a line": ("a long", b'{"a":1}{"a":2}\n{"a":3}\n', 1, 1),
    "an object on two lines": ("a long", b'{"a":\n1}\n{"a":3}\n', 1, 2),
    "a line of 10 MB": ("a string", b'{"a":"' + b"x" * 10_000_000 + b'"}\n{"a":"b"}\n', 2, 0),
}
CSV: dict[str, Case] = {
    "numbers beyond doubles": ("a double", b"a\n1e400\n-1e400\ninf\n-Infinity\n nan \n", 3, 2),
    "numbers beyond floats": ("a float", b"a\n1e39\n1.5\n+inf\n", 2, 1),
    "hexadecimal digits": ("a double", b"a\n0x10\n1.5\n", 1, 1),
    "mixed line ends": ("a long, b string", b'a,b\r\n1,x\n2,y\r3,z\r\n\r\n4,"q\r\nr"\n', 4, 0),
    "a quote that is never closed": ("a long, b string", b'a,b\n1,"x\n2,y\n', 1, 0),
    "too few fields and too many": ("a long, b string", b"a,b\n1\n2,y\n3,z,w\n4,\n", 2, 2),
    "a mark before a quoted name": ("a long", b'\xef\xbb\xbf"a",b\n1,x\n', 1, 0),
    "nothing": ("a long", b"", 0, 0),
    "a header alone": ("a long", b"a", 0, 0),
    "a zero byte": ("a long, b string", b"a,b\n1,x\0y\n\0,z\n", 1, 1),
    "another encoding": ("a long, b string", b"a,b\n1,\xe9\n2,z\n", 1, 1),
    "separators of Unicode": ("a string", "a\nx\u2028y\nx\x85y\n".encode(), 2, 0),
    "a line of 10 MB": ("a long, b string", b"a,b\n1," + b"x" * 10_000_000 + b"\n2,y\n", 2, 0),
    "a field of many lines": ("a long, b string", b'a,b\n1,"' + b"x\n" * 9999 + b'"\n2,y\n', 2, 0),
}
CASES = [
    pytest.param(format, *case, id=f"{format}: {name}")
    for format, cases in (("json", JSON), ("csv", CSV))
    for name, case in cases.items()
]


@pytest.mark.parametrize(("format", "schema", "data", "rows", "bad"), CASES)
def test_every_record_is_a_row_or_bad_under_every_policy(
    child: Child, format: str, schema: str, data: bytes, rows: int, bad: int
) -> None:
    told = check_agreement(child, data, f"data.{format}", schema)
    assert told is not None
    assert (len(told.rows), told.bad) == (rows, bad)


WHOLE: dict[str, tuple[str, bytes]] = {
    "a packed file that is cut off": ("json.gz", gzip.compress(b'{"a":1}\n' * 50)[:-9]),
    "a packed file that is none": ("csv.gz", b"a\n1\n"),
    "UTF-16": ("csv", "a\n1\n".encode("utf-16")),
    "a name twice in a header": ("csv", b"a,a\n1,2\n"),
    "a header in another encoding": ("csv", b"a,\xe9\n1,2\n"),
    "no such column": ("csv", b"b\n1\n"),
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_file_that_cannot_be_read_at_all_is_an_error_that_names_it(
    child: Child, name: str
) -> None:
    extension, data = WHOLE[name]
    assert check_agreement(child, data, f"data.{extension}", "a long") is None


GOOD_JSON = b"".join(
    b'{"name":"%c","n":%d,"x":%d.5,"more":{"u":[%d]}}\n' % (97 + n, n, n, n) for n in range(7)
)
GOOD_CSV = b"name,n,x\n" + b"".join(b'"%c, %d",%d,%d.5\n' % (97 + n, n, n, n) for n in range(7))
SCHEMA = "name string, n long, x double"


@settings(max_examples=examples(60))
@given(damaged(GOOD_JSON))
@example(b'{"n":1,"u":0,"u":1}\n{"x":"NaN"}\n')
def test_damaged_json_is_told_alike_and_every_line_counted(child: Child, data: bytes) -> None:
    told = check_agreement(child, data, "data.json", SCHEMA)
    if told is not None:
        lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
        assert len(told.rows) + told.bad == sum(bool(line.strip()) for line in lines)


def csv_records(text: str) -> int:
    """How many records a CSV text has, by a count of its own: a quote means something where a field
    begins, or within one that began so; a line without a letter is no record."""
    count, before, in_quotes, has_letter = 0, "", False, False
    for letter in text.replace("\r\n", "\n").replace("\r", "\n"):
        if letter == "\n" and not in_quotes:
            count += has_letter
            before, has_letter = "", False
            continue
        has_letter = True
        if letter == '"' and (in_quotes or before in ("", ",", "closed")):
            in_quotes = not in_quotes
            before = "inside" if in_quotes else "closed"
        elif not in_quotes:
            before = letter
    return count + has_letter


def check_csv(child: Child, data: bytes) -> None:
    told = check_agreement(child, data, "data.csv", SCHEMA)
    if told is not None:
        text = data.removeprefix(b"\xef\xbb\xbf").decode("latin-1")
        assert len(told.rows) + told.bad == max(0, csv_records(text) - 1)


@settings(max_examples=examples(60))
@given(damaged(GOOD_CSV))
def test_damaged_csv_is_told_alike_and_every_record_counted(child: Child, data: bytes) -> None:
    check_csv(child, data)


@settings(max_examples=examples(25))
@given(damaged(GOOD_JSON.replace(b"more", b"m")))
def test_damaged_json_with_maps_is_told_alike(child: Child, data: bytes) -> None:
    check_agreement(child, data, "data.json", "n long, m map<string,array<float>>")
