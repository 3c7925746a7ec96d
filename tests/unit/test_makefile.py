"""The Makefile: what its targets install, with a Python that only notes what it is asked."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTES = '#!/bin/sh\necho "$@" >> notes\n{}\n'


def made(folder: Path, is_installed: bool) -> str:
    """What ``make demo`` asks of the Python of an environment that it has not made itself."""
    shutil.copy(ROOT / "Makefile", folder)
    shutil.copy(ROOT / "pyproject.toml", folder)
    binaries = folder / ".venv" / "bin"
    binaries.mkdir(parents=True)
    answer = "exit 0" if is_installed else 'case "$*" in *import*) exit 1;; esac'
    for name in ("python", "pip"):
        (binaries / name).write_text(NOTES.format(answer))
        (binaries / name).chmod(0o755)
    subprocess.run(["make", "demo"], cwd=folder, check=True, capture_output=True, timeout=60)
    return (folder / "notes").read_text()


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_the_demonstration_installs_nothing_where_it_is_installed(tmp_path: Path) -> None:
    notes = made(tmp_path, is_installed=True)
    assert "-m mainstay.demo" in notes
    assert "pip install" not in notes


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_the_demonstration_installs_what_is_missing(tmp_path: Path) -> None:
    notes = made(tmp_path, is_installed=False)
    assert notes.index("pip install") < notes.index("-m mainstay.demo")
