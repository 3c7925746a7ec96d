"""Tries the wheel of this checkout with every Python and every PySpark that can be had.

``python -m tools.matrix`` (or ``make matrix``) makes an environment for each combination, one after
the other, runs the checks of ``checks.py`` there, and removes it. The table is printed; results of
earlier runs, on whatever machine, stay in it. It needs an index of packages.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.package import build
from tools.matrix import debian, interpreters, sparks
from tools.matrix.interpreters import PYTHONS, Interpreter
from tools.matrix.results import FAILED, FILE, Results, packages, table
from tools.matrix.sparks import ROOT
from tools.matrix.trial import Trial

HOME = ROOT / ".matrix"
"""Wheels of PySpark, folders of Debian, and logs."""


def main() -> int:
    """0 when every combination that was tried has passed."""
    asked = _asked()
    HOME.mkdir(exist_ok=True)
    results = Results(FILE)
    pythons = {version: _interpreter(version, asked.debian) for version in asked.pythons}
    tried = []
    with tempfile.TemporaryDirectory(dir=HOME) as folder:
        wheel, _ = build(Path(folder))
        trial = Trial(wheel, HOME, asked.oldest, asked.keep)
        for release in _releases(asked.sparks):
            spark = sparks.spark(release, HOME / "wheels")
            for version, python in pythons.items():
                tried.append(trial.of(version, python, spark))
                results.add(tried[-1])
    print(f"{table(list(results))}\n{packages(list(results))}")
    return any(result.outcome == FAILED for result in tried)


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.matrix", description=__doc__)
    parser.add_argument("--pythons", nargs="+", default=PYTHONS, metavar="3.12")
    parser.add_argument("--sparks", nargs="+", default=[], metavar="4.2", help="all by default")
    parser.add_argument(
        "--debian",
        action="store_true",
        help="get a Python that is missing from a newer Debian: 280 MB in a folder; needs root",
    )
    parser.add_argument(
        "--oldest",
        action="store_true",
        help="install the oldest packages that pyproject.toml allows; with an old Python",
    )
    parser.add_argument("--keep", action="store_true", help="leave the environments")
    return parser.parse_args()


def _releases(wanted: list[str]) -> list[str]:
    released = sparks.released()
    unknown = [version for version in wanted if version not in released]
    if unknown:
        sys.exit(f"no PySpark {', '.join(unknown)}; there are {', '.join(released)}")
    return [release for version, release in released.items() if version in (wanted or released)]


def _interpreter(version: str, from_debian: bool) -> Interpreter | str:
    """A Python, or why there is none."""
    found = interpreters.find(version)
    if found is not None:
        return found
    missing = f"no python{version} of pyenv or on the path"
    reason = debian.why_not(version) if from_debian else "--debian was not given"
    if reason is not None:
        return f"{missing}; {reason}"
    return debian.interpreter(version, HOME / "debian", [ROOT, _pip_cache()])


def _pip_cache() -> Path:
    command = [sys.executable, "-m", "pip", "cache", "dir"]
    return Path(subprocess.run(command, capture_output=True, text=True).stdout.strip())


if __name__ == "__main__":
    sys.exit(main())
