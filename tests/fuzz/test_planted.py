"""Defects of the kind that the fuzz is for, planted in the child: each must be found."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.fuzz import test_parquet, test_records, test_text_files
from tests.fuzz.reading import Child, ReaderDiedError, check_agreement

pytestmark = pytest.mark.mutation
Planted = Callable[..., Child]
JSON = b'{"n":1}\n{"n":2}\n'


@pytest.fixture
def planted() -> Iterator[Planted]:
    children: list[Child] = []

    def make(defect: str, patience_s: float = 60.0) -> Child:
        children.append(Child("tests.fuzz.planted", defect, patience_s=patience_s))
        return children[-1]

    yield make
    for child in children:
        child.close()


@pytest.mark.parametrize(
    ("format", "data"), [("csv", test_text_files.GOOD_CSV), ("json", test_text_files.GOOD_JSON)]
)
def test_a_reader_that_drops_a_row_at_the_border_of_a_block_is_found(
    planted: Planted, format: str, data: bytes
) -> None:
    with pytest.raises(AssertionError, match="Outcome"):
        check_agreement(planted(format), data, f"data.{format}", test_text_files.SCHEMA)


def test_a_record_of_csv_that_is_neither_row_nor_bad_is_found(
    planted: Planted, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = planted("csv")
    # As it would be if all sizes of blocks lost the same.
    monkeypatch.setattr(
        test_text_files,
        "check_agreement",
        lambda child, data, *_: child.read(
            child.write(data, "data.csv"), test_text_files.SCHEMA, block_bytes=64
        ),
    )
    with pytest.raises(AssertionError):
        test_text_files.check_csv(child, test_text_files.GOOD_CSV)


def test_an_error_of_the_library_that_names_no_file_is_found(planted: Planted) -> None:
    with pytest.raises(ReaderDiedError, match="RuntimeError"):
        test_parquet.told_of(planted("parquet"), test_parquet.GOOD[:-4])


def test_a_bad_record_that_takes_a_good_one_along_is_found(planted: Planted) -> None:
    good = test_records.RECORDS["Json"]
    with pytest.raises(AssertionError):
        test_records.check_apart(planted("decoding"), "Json", [good, b"{"])


@pytest.mark.parametrize(
    ("defect", "patience_s", "said"),
    [("crash", 60.0, "Segmentation fault"), ("hang", 1.0, "no answer after 1 s")],
)
def test_a_reader_that_dies_is_found_and_another_takes_its_place(
    planted: Planted, defect: str, patience_s: float, said: str
) -> None:
    child = planted(defect, 60.0)
    path = child.write(JSON, "data.json")
    assert child.read(path, "n long", "fail").rows == ["{'n': 1}", "{'n': 2}"]
    child._patience_s = patience_s
    with pytest.raises(ReaderDiedError, match=said):
        child.read(path, "n long", "skip")
    child._patience_s = 60.0
    assert child.read(path, "n long", "fail").rows == ["{'n': 1}", "{'n': 2}"]
