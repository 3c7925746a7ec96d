"""The matrix of versions: what it finds and shows, and that its page says what was seen."""

from __future__ import annotations

import re
import sys
import zipfile
from pathlib import Path

import pytest

from tests.package import first_job
from tests.pages import ROOT
from tools.matrix import interpreters
from tools.matrix.checks import Check, checks, first_line, on_spark
from tools.matrix.environments import Ended, run
from tools.matrix.floors import constraints, oldest
from tools.matrix.interpreters import PYTHONS
from tools.matrix.page import written
from tools.matrix.results import (
    FAILED,
    FILE,
    MISSING,
    PASSED,
    Result,
    Results,
    packages,
    table,
)
from tools.matrix.sparks import Spark, newest, oldest_allowed

PAGE = (ROOT / "docs" / "versions.md").read_text()
PROJECT = (ROOT / "pyproject.toml").read_text()


# ---------------------------------------------------------------- what can be had


def _fake(path: Path, release: str, *, has_ensurepip: bool = True) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    end = f"echo {release}" if has_ensurepip else "exit 1"
    path.write_text(f"#!/bin/sh\n{end}\n")
    path.chmod(0o755)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any Python: fakes go to ``pyenv/versions`` and ``bin``."""
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


def test_the_newest_release_of_pyenv_is_taken(machine: Path) -> None:
    for release in ("3.12.9", "3.12.10", "3.13.0"):
        _fake(machine / "pyenv" / "versions" / release / "bin" / "python3.12", release)
    found = interpreters.find("3.12")
    assert found is not None
    assert (found.release, found.version) == ("3.12.10", "3.12")


def test_a_python_that_makes_no_environments_is_passed_over(machine: Path) -> None:
    broken = machine / "pyenv" / "versions" / "3.12.9" / "bin" / "python3.12"
    _fake(broken, "3.12.9", has_ensurepip=False)
    assert interpreters.find("3.12") is None
    _fake(machine / "bin" / "python3.12", "3.12.4")
    found = interpreters.find("3.12")
    assert found is not None
    assert found.path == str(machine / "bin" / "python3.12")


def test_the_newest_release_of_each_version_is_tried() -> None:
    listed = ["4.10.0", "4.2.1", "4.2.0", "4.1.4", "4.1.3", "4.0.5", "3.5.8"]
    assert newest(listed, "4.1") == {"4.1": "4.1.4", "4.2": "4.2.1", "4.10": "4.10.0"}


@pytest.mark.parametrize(
    ("version", "matched"), [("15", "15.0.*"), ("0.6", "0.6.*"), ("0.3.25", "0.3.25")]
)
def test_the_oldest_of_a_package_is_the_first_minor_version(version: str, matched: str) -> None:
    assert oldest(version) == matched


def test_the_oldest_packages_are_those_of_the_wheel(tmp_path: Path) -> None:
    wheel = tmp_path / "mainstay-1-py3-none-any.whl"
    asked = ["numpy>=1.24", "pandas<3,>=2.2; extra == 'spark'", "pyspark>=4.1; extra == 'spark'"]
    asked += ["pytest>=8; extra == 'dev'", "pyspark[connect]>=4.1; extra == 'connect'"]
    text = "".join(f"Requires-Dist: {each}\n" for each in asked)
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("mainstay-1.dist-info/METADATA", f"Name: mainstay\n{text}")
    assert constraints(wheel) == "numpy==1.24.*\npandas==2.2.*\n"


def test_a_wheel_says_which_pythons_can_have_it(tmp_path: Path) -> None:
    wheel = tmp_path / "pyspark-4.3.0-py2.py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        text = "Metadata-Version: 2.1\nName: pyspark\nRequires-Python: >=3.11\n"
        archive.writestr("pyspark-4.3.0.dist-info/METADATA", text)
    spark = Spark("4.3.0", wheel)
    assert spark.refuses("3.10") == "PySpark 4.3 needs Python 3.11 or newer"
    assert spark.refuses("3.11") is None


# ---------------------------------------------------------------- what is run


def test_every_check_names_tests_that_there_are(tmp_path: Path) -> None:
    for check in checks(tmp_path):
        for name in (each for each in check.arguments if each.startswith("tests/")):
            file, _, function = name.partition("::")
            assert (ROOT / file).exists(), name
            assert not function or f"def {function}(" in (ROOT / file).read_text(), name


def test_the_page_lists_the_checks_and_no_others(tmp_path: Path) -> None:
    listed = PAGE.partition("| check | what it is |\n|---|---|\n")[2].partition("\n\n")[0]
    names = [line.split(" | ")[0].removeprefix("| ") for line in listed.splitlines()]
    assert names == [check.name for check in checks(tmp_path)]


def test_the_first_job_is_tried_on_spark_with_rocksdb() -> None:
    program = on_spark()
    assert 'spark="embedded"' in first_job()
    assert 'spark="embedded"' not in program
    assert "state=ms.RocksDB(" in program
    compile(program, "on_spark.py", "exec")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("=== x ===\nE   assert 1 == 2\nFAILED tests/a.py::test_b\n", "E   assert 1 == 2"),
        ("Traceback:\n  File\nImportError: cannot import name 'x'\n", "ImportError: cannot import"),
        ("✔ fine\n✘ the books do not balance\n", "✘ the books do not balance"),
        ("Killed\n", "Killed"),
        ("", ""),
    ],
)
def test_the_line_that_says_why_is_found(text: str, line: str) -> None:
    assert first_line(text).startswith(line)


def test_a_check_that_ends_well_without_what_it_has_to_print_has_failed() -> None:
    check = Check("one", ("-c", "print(1)"), prints="2")
    assert check.why_failed(Ended(0, "1\n")) == "1"
    assert check.why_failed(Ended(0, "12\n")) is None
    assert check.why_failed(Ended(3, "")) == "ended with 3"


def test_a_command_that_does_not_end_is_ended_with_what_it_has_started(tmp_path: Path) -> None:
    program = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import sys; sys.stdin.read()'],"
        " stdin=subprocess.PIPE)\n"
        "print('started', flush=True)\n"
        "child.wait()\n"
    )
    ended = run([sys.executable, "-c", program], tmp_path, {}, 3.0)
    # The child has the pipe as well: what it prints could not be read whole while it lives.
    assert ended.code < 0
    assert ended.text.endswith("not done after 3 s")


# ---------------------------------------------------------------- what is shown


def _results() -> list[Result]:
    found = {"pyarrow": "25.0.1", "numpy": "2.2.6"}
    return [
        Result("3.10.13", "4.1.4", PASSED, "2026-01-02", packages=found),
        Result("3.10", "4.3.0", MISSING, "2026-01-02", "PySpark 4.3 needs Python 3.11 or newer"),
        Result("3.11.7", "4.3.0", FAILED, "2026-01-02", "imports: ImportError: no x", found),
    ]


def test_the_table_has_a_cell_for_every_combination() -> None:
    assert table(_results()).splitlines() == [
        "| Python | PySpark 4.1.4 | PySpark 4.3.0 |",
        "|---|---|---|",
        "| 3.10.13 | passed, 2026-01-02 | not to be had: PySpark 4.3 needs Python 3.11 or newer |",
        "| 3.11.7 | not tried | failed, 2026-01-02 |",
        *(f"| {version} | not tried | not tried |" for version in PYTHONS[2:]),
        "",
        "- Python 3.11.7, PySpark 4.3.0: imports: ImportError: no x",
    ]
    assert "| 3.10.13 | 4.1.4 | 25.0.1 | 2.2.6 |" in packages(_results())


def test_a_new_result_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    for result in reversed(_results()):
        Results(tmp_path / "results.json").add(result)
    again = Result("3.11.9", "4.3.1", PASSED, "2026-02-03")
    with_oldest = Result("3.10.13", "4.1.4", PASSED, "2026-02-03", are_oldest=True)
    for result in (with_oldest, again):
        Results(tmp_path / "results.json").add(result)
    assert list(Results(tmp_path / "results.json")) == [*_results()[:2], again, with_oldest]
    assert "\n| 3.10.13, oldest packages | passed, 2026-02-03 | not tried |" in table(
        list(Results(tmp_path / "results.json"))
    )


def test_what_is_missing_here_takes_no_place_of_what_was_tried_elsewhere(tmp_path: Path) -> None:
    tried = Result("3.14.8", "4.3.0", PASSED, "2026-01-02")
    for result in (tried, Result("3.14", "4.3.0", MISSING, "2026-02-03", "no python3.14")):
        Results(tmp_path / "results.json").add(result)
    assert list(Results(tmp_path / "results.json")) == [tried]


def test_the_oldest_packages_are_told_from_the_newest() -> None:
    oldest = Result("3.10.13", "4.1.4", FAILED, "2026-01-02", "x", {"numpy": "1.24.4"}, True)
    assert "| 3.10.13, oldest packages | 4.1.4 | 1.24.4 |" in packages([oldest])
    assert "- Python 3.10.13, oldest packages, PySpark 4.1.4: x" in table([oldest])


def test_the_page_has_all_results_that_are_kept_whichever_machine_they_are_of() -> None:
    """They are kept in the repository: a new machine adds to them."""
    kept = list(Results(FILE))
    assert [each for each in kept if each.outcome == PASSED]
    assert written(PAGE, kept) == PAGE, "run python -m tools.matrix.page"


def test_the_page_has_the_tables_anew() -> None:
    text = "One\n<!-- results -->\nold\n<!-- end of results -->\nTwo\n"
    text += "<!-- packages -->\n<!-- end of packages -->\nThree\n"
    once = written(text, _results())
    assert table(_results()) in once
    assert packages(_results()) in once
    assert "old" not in once
    assert once.startswith("One\n")
    assert once.endswith("\nThree\n")
    assert written(once, _results()) == once


# ---------------------------------------------------------------- what the documents promise


def test_the_oldest_and_the_newest_python_of_the_package_have_passed_and_none_has_failed() -> None:
    promised = re.findall(r"Programming Language :: Python :: (3\.\d+)", PROJECT)
    rows = dict(
        re.findall(
            r"^\| (3\.\d+)(?:\.\d+)? (\|.*(?:tried|had|passed|failed).*)$", PAGE, re.MULTILINE
        )
    )
    assert set(promised) <= set(rows)
    assert not [version for version in promised if "failed" in rows[version]]
    for version in (promised[0], promised[-1]):
        assert "passed" in rows[version], version


def test_the_oldest_pyspark_that_is_allowed_was_tried() -> None:
    (header,) = re.findall(r"^\| Python \| PySpark (\d+\.\d+)\.\d+ \|", PAGE, re.MULTILINE)
    assert header == oldest_allowed()
