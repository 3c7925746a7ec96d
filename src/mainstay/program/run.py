"""``mainstay run``: an ordinary program, with settings of the command line and a page."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mainstay.api.overrides import Overrides, overriding
from mainstay.drive.exit_codes import CHANGE_IT, DONE, FAILED, exit_code
from mainstay.drive.streams import is_terminal, tell
from mainstay.program.execution import execute, show_error
from mainstay.registry.registering import register
from mainstay.runtime.status import Status

INTERRUPTED = 130
"""What a shell shows of a program that Ctrl-C has ended."""


@dataclass(slots=True)
class Run:
    """One run of a program, and the jobs that it has started."""

    file: Path
    arguments: Sequence[str]
    jobs: list[Any] = field(default_factory=list)

    def run(self, overrides: Overrides) -> int:
        """To the end of the program and of its jobs; returns the exit code."""
        if shown := overrides.shown():
            say(f"from the command line: {shown}")
        if overrides.spark_master is not None:
            # What Spark takes for a session whose program names no master.
            is_connect = overrides.spark_master.startswith("sc://")
            os.environ["SPARK_REMOTE" if is_connect else "MASTER"] = overrides.spark_master
        with overriding(replace(overrides, started=self._started)):
            return self._ended()

    def _ended(self) -> int:
        try:
            execute(self.file, self.arguments)
            for job in self.jobs:
                if job.exit_code is None:
                    job.wait()
        except KeyboardInterrupt:
            return INTERRUPTED
        except SystemExit as end:
            return self._code_of(end)
        except Exception as error:
            show_error(self.file, error)
            return self._code() or exit_code(Status.FAILED, error) or FAILED
        return self._told()

    def _told(self) -> int:
        """Say how its jobs have ended, or that there was none."""
        if not self.jobs:
            say(
                f"{self.file} has started no job. Call env.start(...) when it is run, below "
                "`if __name__ == '__main__':` for example."
            )
            return CHANGE_IT
        for job in self.jobs:
            say(repr(job).strip("<>").replace("Job", "job", 1))
        return self._code()

    def _code(self) -> int:
        """That of the first job that did not end well."""
        return next((job.exit_code for job in self.jobs if job.exit_code), DONE)

    def _code_of(self, end: SystemExit) -> int:
        if end.code is None:
            return self._code()
        if isinstance(end.code, int):
            return end.code
        tell(str(end.code))
        return FAILED

    def _started(self, env: Any, job: Any) -> None:
        self.jobs.append(job)
        if job.url is None:
            register(job.name, None, os.fspath(env.snapshots.dir), job.insight.started_at)
            return
        # A log is read by others, so the token is not for it.
        page = job.url if is_terminal(sys.stderr) else job.url.partition("#")[0]
        say(f"job {job.name!r} is at {page}")


def say(text: str) -> None:
    tell(f"mainstay: {text}")
