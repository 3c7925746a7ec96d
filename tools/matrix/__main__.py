"""Tries the wheel of this checkout with every Python and every PySpark that can be had.

``python -m tools.matrix`` (or ``make matrix``) makes an environment for each combination, one after
the other, runs the checks of ``checks.py`` there, and removes it. The table is printed and written
to ``.matrix/table.md``; results of earlier runs stay in it. It needs an index of packages.
"""

from __future__ import annotations

import argparse
import datetime
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.package import build
from tools.matrix import debian, environments, interpreters, sparks
from tools.matrix.checks import checks, run_check
from tools.matrix.environments import Environment
from tools.matrix.interpreters import PYTHONS, Interpreter
from tools.matrix.results import FAILED, MISSING, PASSED, Result, Results, packages, table
from tools.matrix.sparks import ROOT, Spark

HOME = ROOT / ".matrix"
"""Wheels of PySpark, folders of Debian, logs and results."""


def main() -> int:
    """0 when every combination that was tried has passed."""
    asked = _asked()
    HOME.mkdir(exist_ok=True)
    results = Results(HOME / "results.json")
    pythons = {version: _interpreter(version, asked.debian) for version in asked.pythons}
    tried = []
    with tempfile.TemporaryDirectory(dir=HOME) as folder:
        wheel, _ = build(Path(folder))
        for release in _releases(asked.sparks):
            spark = sparks.spark(release, HOME / "wheels")
            for version, python in pythons.items():
                tried.append(_result(version, python, spark, wheel, asked.keep))
                results.add(tried[-1])
    text = f"{table(list(results))}\n{packages(list(results))}"
    (HOME / "table.md").write_text(text)
    print(text)
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


def _result(
    version: str, python: Interpreter | str, spark: Spark, wheel: Path, keep: bool
) -> Result:
    """Try one combination, if it can be had."""
    today = datetime.date.today().isoformat()
    why = spark.refuses(version) or (python if isinstance(python, str) else None)
    if isinstance(python, str) or why is not None:
        print(f"Python {version}, PySpark {spark.release}: {MISSING}: {why}", flush=True)
        return Result(version, spark.release, MISSING, today, why or "")
    print(f"Python {python.release}, PySpark {spark.release}", flush=True)
    environment = environments.make(python, HOME / "environments" / f"{version}-{spark.version}")
    try:
        installed = environment.install(wheel, spark)
        if installed.code != 0:
            return Result(python.release, spark.release, FAILED, today, installed.text.strip())
        failed = _failures(environment, HOME / "logs" / environment.folder.name)
        outcome = FAILED if failed else PASSED
        found = environment.packages()
        return Result(python.release, spark.release, outcome, today, "; ".join(failed), found)
    finally:
        if not keep:
            environment.remove()


def _failures(environment: Environment, logs: Path) -> list[str]:
    """Run every check; returns the first line of each that failed. What they print is kept."""
    shutil.rmtree(logs, ignore_errors=True)
    failed = []
    for check in checks(logs / "programs"):
        began = time.monotonic()
        ended = run_check(check, environment, logs / "work")
        (logs / f"{check.name.replace(' ', '_')}.log").write_text(ended.text)
        why = check.why_failed(ended)
        print(f"  {check.name}: {why or PASSED} ({time.monotonic() - began:.0f} s)", flush=True)
        if why is not None:
            failed.append(f"{check.name}: {why}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
