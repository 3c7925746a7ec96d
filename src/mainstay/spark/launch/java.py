"""The Java that Spark is started with."""

from __future__ import annotations

import os
import re
import shutil

from mainstay.errors import SparkSetupError
from mainstay.spark.launch.commands import asked

OLDEST_JAVA = 17


def require_java() -> None:
    """Refuse a machine without a Java that Spark can use, before Spark is asked."""
    home = os.environ.get("JAVA_HOME")
    found = (home and shutil.which("java", path=f"{home}/bin")) or shutil.which("java")
    embedded = 'or run without Spark: Environment(spark="embedded").'
    if not found:
        raise SparkSetupError(
            f"Spark needs Java {OLDEST_JAVA} or newer and none was found. Install a JDK and set "
            f"JAVA_HOME, {embedded}"
        )
    version = _java_version(asked([found, "-version"]))
    if version is not None and version < OLDEST_JAVA:
        raise SparkSetupError(
            f"Spark needs Java {OLDEST_JAVA} or newer and {found} is Java {version}. Install a "
            f"newer JDK and set JAVA_HOME to it, {embedded}"
        )


def _java_version(text: str) -> int | None:
    """The number in what ``java -version`` prints; versions before 9 are called 1.x there."""
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match.group(1)) if match else None
