"""Starting a job on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mainstay.drive.remote_job import RemoteJob
from mainstay.errors import SparkSetupError
from mainstay.runtime.options import (
    JobOptions,
    RestartOptions,
    RestoreOptions,
    SnapshotOptions,
)
from mainstay.runtime.spec import JobSpec, Tuning
from mainstay.spark.launcher import SparkLauncher
from mainstay.spark.session import check_session, local_session


def start_on_spark(
    name: str,
    spec: JobSpec,
    *,
    session: Any,
    directory: str,
    snapshots: SnapshotOptions,
    restart: RestartOptions,
    restore: RestoreOptions,
    tuning: Tuning | None = None,
) -> RemoteJob:
    """Start a job on a given session, or on a local one of its own."""
    own = session or local_session(spec.workers)
    check_session(own, spec.workers)
    launcher = SparkLauncher(own, name)
    options = JobOptions(name, name, snapshots, restart, restore, tuning or Tuning())
    return RemoteJob(name, spec, options, _shared(directory, own), launcher)


def _shared(directory: str, session: Any) -> str:
    """The directory as all processes of the application can name it."""
    if "://" in directory:
        if directory.startswith("memory://"):
            raise SparkSetupError(
                "snapshots in memory:// cannot be shared by the workers' processes. Use a "
                "directory or an object store."
            )
        return directory
    return str(Path(directory).absolute())
