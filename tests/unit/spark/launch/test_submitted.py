"""What a program that spark-submit runs takes over from it."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import mainstay
from mainstay.spark.launch import submitted, workers_python
from mainstay.spark.launch.package import packed
from tests.spark.submitting import zipped


@pytest.mark.parametrize(
    ("settings", "master"),
    [
        ({"spark.master": "yarn"}, "yarn"),
        ({"spark.master": "local[3]"}, "local[3]"),
        # What spark-submit says of itself where nobody has said anything.
        ({"spark.master": "local[*]"}, None),
        ({}, None),
    ],
)
def test_the_master_of_spark_submit_is_taken(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], master: str | None
) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    monkeypatch.setattr(submitted, "_settings", lambda: settings)
    assert submitted.submitted_master() == master


def test_a_program_that_was_not_submitted_asks_no_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setattr(submitted, "_settings", lambda: pytest.fail("a JVM was asked"))
    assert submitted.submitted_master() is None


# ---------------------------------------------------------------- the package as an archive


def from_archive(archive: Path, program: str, *arguments: str) -> str:
    """What a program prints that has the package from an archive."""
    # The archive is first. What it needs may be where this package is installed.
    paths = os.pathsep.join([str(archive), *sys.path])
    check = "import mainstay; assert '.zip' in mainstay.__file__, mainstay.__file__\n"
    done = subprocess.run(
        [sys.executable, "-S", "-c", check + program, *arguments],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_package_that_came_as_an_archive_is_sent_as_the_same_one(tmp_path: Path) -> None:
    program = (
        "import pathlib, sys\n"
        "from mainstay.spark.launch.package import packed\n"
        "print(packed(pathlib.Path(sys.argv[1])).name)"
    )
    sent = from_archive(zipped(tmp_path), program, str(tmp_path))
    assert sent == packed(tmp_path).name
    with zipfile.ZipFile(tmp_path / sent) as archive:
        assert "mainstay/drive/remote_worker.py" in archive.namelist()


def test_the_page_and_the_template_are_read_from_an_archive(tmp_path: Path) -> None:
    pytest.importorskip("fastapi")
    program = (
        "import pathlib, sys\n"
        "from mainstay.serve.page_files import _read\n"
        "from mainstay.program.skeleton import write_skeleton\n"
        "write_skeleton(pathlib.Path(sys.argv[1]))\n"
        "print(len(_read()['index.html'][0]))"
    )
    length = from_archive(zipped(tmp_path), program, str(tmp_path / "project"))
    page = Path(mainstay.__file__).parent / "serve" / "page" / "index.html"
    assert int(length) == page.stat().st_size
    assert (tmp_path / "project" / "job.py").is_file()


def test_the_daemon_is_not_asked_for_where_the_package_is_in_an_archive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert workers_python.imports_this_package(sys.executable)
    inside = "/files/mainstay.zip/mainstay/__init__.py"
    monkeypatch.setattr(mainstay, "__file__", inside)
    monkeypatch.setattr(workers_python, "asked", lambda command: f"{inside}\n")
    assert not workers_python.imports_this_package(sys.executable)
