"""The jars that Flink needs to read Parquet, which its Python package does not bring."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ARTIFACTS = (
    "org.apache.flink:flink-sql-parquet:2.3.0",
    "org.apache.hadoop:hadoop-client-api:3.4.1",
    "org.apache.hadoop:hadoop-client-runtime:3.4.1",
    "commons-logging:commons-logging:1.3.0",
)


def missing(directory: Path) -> list[str]:
    """The artifacts whose jars are not in the directory."""
    return [each for each in ARTIFACTS if not (directory / _jar(each)).is_file()]


def fetch(directory: Path) -> str | None:
    """Bring what is missing with Maven; why not, if it cannot be had."""
    wanted = missing(directory)
    if wanted and shutil.which("mvn") is None:
        return "the jars of its Parquet format are fetched with 'mvn', which is not on the path"
    for artifact in wanted:
        asked = [f"-Dartifact={artifact}", f"-DoutputDirectory={directory.resolve()}"]
        found = subprocess.run(
            ["mvn", "-q", "-B", "dependency:copy", *asked], capture_output=True, text=True
        )
        if found.returncode:
            return f"mvn could not fetch {artifact}: {found.stdout.strip()[:200]}"
    return None


def _jar(artifact: str) -> str:
    _, name, version = artifact.split(":")
    return f"{name}-{version}.jar"
