"""The Pythons of this machine: those of pyenv, those on the path, and one in a folder of Debian."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
"""What is tried, from the oldest that pyproject.toml names."""
# An interpreter without ensurepip, as Debian packages it, makes no environment.
_RELEASE = "import ensurepip, platform, venv; print(platform.python_version())"


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python that can make environments."""

    release: str
    path: str
    entry: tuple[str, ...] = ()
    """What a command has to begin with to run where this Python is."""
    variables: dict[str, str] = field(default_factory=dict)
    """What has to be set for commands that run there."""

    @property
    def version(self) -> str:
        return series_of(self.release)


def series_of(release: str) -> str:
    """``3.12`` of ``3.12.1``."""
    return ".".join(release.split(".")[:2])


def find(version: str) -> Interpreter | None:
    """The newest Python of a version that can make environments, if there is one."""
    for path in _candidates(version):
        release = _release_of(path)
        if release is not None and series_of(release) == version:
            return Interpreter(release, path)
    return None


def _candidates(version: str) -> Iterator[str]:
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [each for each in pyenv.glob(f"{version}.*") if each.name.rpartition(".")[2].isdigit()]
    for folder in sorted(found, key=lambda each: int(each.name.rpartition(".")[2]), reverse=True):
        yield str(folder / "bin" / f"python{version}")
    for place in os.get_exec_path():
        if path := shutil.which(f"python{version}", path=place):
            yield path


def _release_of(path: str) -> str | None:
    try:
        asked = subprocess.run([path, "-c", _RELEASE], capture_output=True, text=True, timeout=60)
    except OSError:
        return None
    return asked.stdout.strip() if asked.returncode == 0 else None
