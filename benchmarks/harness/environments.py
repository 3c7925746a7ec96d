"""An interpreter for every system: this one, or one of a virtual environment made for a peer.

A peer that cannot be had is not an error: it is :class:`Missing`, with the reason, and the report
says so.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.systems import Environment

_STAMP = ".installed"


@dataclass(frozen=True, slots=True)
class Ready:
    """It can be measured with this interpreter."""

    python: str
    version: str


@dataclass(frozen=True, slots=True)
class Missing:
    """It cannot, and why not."""

    reason: str


def prepare(environment: Environment, cache: Path, may_install: bool) -> Ready | Missing:
    """Find the environment, or make it in ``cache`` when that is allowed."""
    for program in environment.programs:
        if shutil.which(program) is None:
            return Missing(f"it needs {program!r} on the path")
    if not environment.packages:
        return _ready(Path(sys.executable), environment)
    home = cache / environment.name
    python = home / "bin" / "python"
    if not _is_installed(home, environment):
        if not may_install:
            return Missing("its environment is not in the cache; leave out --no-install")
        try:
            _install(home, python, environment)
        except subprocess.CalledProcessError as error:
            return Missing(f"pip install {' '.join(environment.packages)}: {_cause(error)}")
    return _ready(python, environment)


def _is_installed(home: Path, environment: Environment) -> bool:
    stamp = home / _STAMP
    return stamp.is_file() and stamp.read_text(encoding="utf-8") == "\n".join(environment.packages)


def _install(home: Path, python: Path, environment: Environment) -> None:
    venv.create(home, clear=True, with_pip=True)
    command = [str(python), "-m", "pip", "install", "--quiet", *environment.packages]
    subprocess.run(command, check=True, capture_output=True, text=True)
    # Written last, so an interrupted installation is done again.
    (home / _STAMP).write_text("\n".join(environment.packages), encoding="utf-8")


def _ready(python: Path, environment: Environment) -> Ready | Missing:
    question = "import sys; from importlib.metadata import version; print(version(sys.argv[1]))"
    asked = [str(python), "-c", question, environment.distribution]
    found = subprocess.run(asked, capture_output=True, text=True)
    if found.returncode:
        return Missing(f"{environment.distribution} is not installed for {python.name}")
    return Ready(str(python), f"{environment.distribution} {found.stdout.strip()}")


def _cause(error: subprocess.CalledProcessError) -> str:
    lines = [line for line in str(error.stderr).splitlines() if line.strip()]
    return lines[-1] if lines else f"exit code {error.returncode}"
