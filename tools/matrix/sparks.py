"""The releases of PySpark: which there are, and a wheel of each.

PySpark is published as source archives of 450 MB. A wheel is built of each once, kept, and
installed into every environment; it is the same for all Pythons.
"""

from __future__ import annotations

import email
import re
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from tools.matrix.interpreters import series_of

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 1800.0


@dataclass(frozen=True, slots=True)
class Spark:
    """A release of PySpark whose wheel is there."""

    release: str
    wheel: Path

    @property
    def version(self) -> str:
        return series_of(self.release)

    def refuses(self, python: str) -> str | None:
        """Why a Python of this version cannot have it: the wheel says which can."""
        least = re.match(r">=(\d+\.\d+)", self._metadata("Requires-Python"))
        assert least is not None, f"{self.wheel} does not say which Pythons can have it"
        if _numbers(python) < _numbers(least[1]):
            return f"PySpark {self.version} needs Python {least[1]} or newer"
        return None

    def _metadata(self, field: str) -> str:
        with zipfile.ZipFile(self.wheel) as wheel:
            (name,) = (each for each in wheel.namelist() if each.endswith(".dist-info/METADATA"))
            return str(email.message_from_bytes(wheel.read(name))[field])


def released() -> dict[str, str]:
    """The newest release of each version from the oldest that pyproject.toml allows."""
    command = ["index", "versions", "--ignore-requires-python", "pyspark"]
    found = re.search(r"^Available versions: (.*)$", _pip(command), re.MULTILINE)
    assert found is not None, "the index of packages has no list of versions of pyspark"
    return newest(found[1].split(", "), oldest_allowed())


def newest(releases: list[str], oldest: str) -> dict[str, str]:
    """Of releases from the newest to the oldest the first of each version."""
    kept: dict[str, str] = {}
    for release in releases:
        if _numbers(series_of(release)) >= _numbers(oldest):
            kept.setdefault(series_of(release), release)
    return dict(sorted(kept.items(), key=lambda item: _numbers(item[0])))


def oldest_allowed() -> str:
    found = re.search(r'"pyspark>=(\d+\.\d+)"', (ROOT / "pyproject.toml").read_text())
    assert found is not None
    return found[1]


def spark(release: str, wheels: Path) -> Spark:
    """A release with its wheel, which is built where it is missing."""
    wheel = wheels / f"pyspark-{release}-py2.py3-none-any.whl"
    if not wheel.exists():
        print(f"a wheel of pyspark {release} is built, once", flush=True)
        options = ["--quiet", "--no-deps", "--ignore-requires-python", "--wheel-dir", str(wheels)]
        _pip(["wheel", *options, f"pyspark=={release}"])
    return Spark(release, wheel)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _pip(arguments: list[str]) -> str:
    command = [sys.executable, "-m", "pip", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    if done.returncode != 0:
        raise RuntimeError(f"pip {' '.join(arguments)} failed: {done.stderr}")
    return done.stdout
