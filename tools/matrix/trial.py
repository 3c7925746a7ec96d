"""One combination: an environment is made, the checks are run, and it is removed."""

from __future__ import annotations

import datetime
import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path

from tools.matrix import environments
from tools.matrix.checks import checks, run_check
from tools.matrix.environments import Environment
from tools.matrix.floors import constraints
from tools.matrix.interpreters import Interpreter
from tools.matrix.results import FAILED, MISSING, PASSED, Result
from tools.matrix.sparks import Spark


@dataclass(frozen=True, slots=True)
class Trial:
    """How a wheel is tried."""

    wheel: Path
    home: Path
    """Where environments and logs go."""
    with_oldest: bool
    """Whether with the oldest packages that the wheel allows, not with the newest."""
    keep: bool

    def of(self, version: str, python: Interpreter | str, spark: Spark) -> Result:
        """Try a Python, or say why there is none."""
        why = spark.refuses(version) or (python if isinstance(python, str) else None)
        today = datetime.date.today().isoformat()
        found = Result(version, spark.release, MISSING, today, are_oldest=self.with_oldest)
        if isinstance(python, str) or why is not None:
            print(f"Python {version}, PySpark {spark.release}: {MISSING}: {why}", flush=True)
            return replace(found, why=why or "")
        print(f"Python {python.release}, PySpark {spark.release}", flush=True)
        name = f"{version}-{spark.version}{'-oldest' if self.with_oldest else ''}"
        environment = environments.make(python, self.home / "environments" / name)
        try:
            return self._tried(environment, spark, replace(found, python=python.release))
        finally:
            if not self.keep:
                environment.remove()

    def _tried(self, environment: Environment, spark: Spark, found: Result) -> Result:
        logs = self.home / "logs" / environment.folder.name
        shutil.rmtree(logs, ignore_errors=True)
        logs.mkdir(parents=True)
        bounds = logs / "constraints.txt"
        bounds.write_text(constraints(self.wheel) if self.with_oldest else "")
        installed = environment.install(self.wheel, spark, bounds)
        (logs / "install.log").write_text(installed.text)
        if installed.code != 0:
            return replace(found, outcome=FAILED, why=f"installing: {_error(installed.text)}")
        failed = _failures(environment, logs)
        outcome = FAILED if failed else PASSED
        why = "; ".join(failed)
        return replace(found, outcome=outcome, why=why, packages=environment.packages())


def _error(text: str) -> str:
    """What pip says is wrong; above it are warnings."""
    lines = text.strip().splitlines() or [""]
    return next((line for line in lines if line.startswith("ERROR")), lines[-1])


def _failures(environment: Environment, logs: Path) -> list[str]:
    """Run every check; returns the first line of each that failed. What they print is kept."""
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
