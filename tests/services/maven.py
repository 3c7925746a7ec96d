"""Jars from Maven, kept for the next run."""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
MAVEN_S = 300.0

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>tests</groupId><artifactId>jars</artifactId><version>1</version>
<dependencies>{dependencies}</dependencies></project>
"""
_ALONE = (
    "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
)


class ServiceMissingError(Exception):
    """Why something cannot be had here; the tests that need it are skipped with it."""


@dataclass(frozen=True, slots=True)
class Jar:
    """An artifact, with all that it needs or alone."""

    group: str
    name: str
    version: str
    alone: bool = False

    @property
    def dependency(self) -> str:
        named = f"<groupId>{self.group}</groupId><artifactId>{self.name}</artifactId>"
        version = f"<version>{self.version}</version>"
        return f"<dependency>{named}{version}{_ALONE if self.alone else ''}</dependency>"


def fetched(what: str, jars: Sequence[Jar]) -> Path:
    """The directory with some jars, filled the first time it is asked for."""
    base = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    directory = base / "mainstay-tests" / what
    if directory.is_dir():
        return directory
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            raise ServiceMissingError(f"there is no {program!r} on the PATH to get {what} with")
    draft = directory.with_name(f"{directory.name}.{uuid.uuid4().hex}")
    draft.mkdir(parents=True)
    (draft / "pom.xml").write_text(
        _POM.format(dependencies="".join(jar.dependency for jar in jars))
    )
    command = ["mvn", "-B", "-q", f"{PLUGIN}:copy-dependencies", "-DincludeScope=runtime"]
    try:
        done = subprocess.run(
            [*command, f"-DoutputDirectory={draft}"],
            cwd=draft,
            capture_output=True,
            text=True,
            timeout=MAVEN_S,
        )
        if done.returncode:
            raise ServiceMissingError(f"mvn could not get {what}: {done.stdout[-400:]}")
        if not directory.exists():
            draft.rename(directory)
    except subprocess.TimeoutExpired as error:
        raise ServiceMissingError(f"mvn did not get {what} in {MAVEN_S} s") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return directory
