"""A YARN cluster for tests: a resource manager and two nodes in one JVM, on loopback.

The jars come from Maven Central once, in the version of the Hadoop that PySpark brings.

::

    with YarnCluster(folder) as yarn:     # raises ServiceMissingError with the reason
        yarn.environment                  # for programs that start sessions with master "yarn"
        yarn.executors()                  # processes that can be killed
        yarn.output()                     # what drivers and executors have printed
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType

import psutil

from tests.services.maven import Jar, ServiceMissingError, fetched

__all__ = ["ServiceMissingError", "YarnCluster"]

NODES = 2
START_S = 180.0
SOURCE = Path(__file__).with_name("MiniYarn.java")
BESIDE = (
    # What the mini cluster's jar needs and does not say.
    Jar("org.junit.jupiter", "junit-jupiter-api", "5.13.4"),
    Jar("org.bouncycastle", "bcprov-jdk18on", "1.84", alone=True),
    Jar("org.bouncycastle", "bcpkix-jdk18on", "1.84", alone=True),
    Jar("org.bouncycastle", "bcutil-jdk18on", "1.84", alone=True),
)
BROUGHT = (
    "hadoop-client-api-*",
    "hadoop-client-runtime-*",
    "slf4j-api-*",
    "jcl-over-slf4j-*",
    "log4j-*",
)
_EXECUTOR = "org.apache.spark.executor.YarnCoarseGrainedExecutorBackend"
_LOGGING = """rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c{1}: %m%n
"""


def spark_home() -> Path:
    try:
        import pyspark
    except ImportError as error:
        raise ServiceMissingError("PySpark, which brings a part of the jars, is missing") from error
    return Path(pyspark.__file__).parent


def _brought() -> list[Path]:
    jars = spark_home() / "jars"
    return [path for name in BROUGHT for path in sorted(jars.glob(f"{name}.jar"))]


def _hadoop_version() -> str:
    names = " ".join(path.name for path in _brought())
    found = re.search(r"hadoop-client-api-([\d.]+)\.jar", names)
    if found is None:
        raise ServiceMissingError("PySpark has no jars of Hadoop")
    return found.group(1)


def jars() -> Path:
    """The directory with the mini cluster's jars, filled the first time it is asked for."""
    version = _hadoop_version()
    mini = Jar("org.apache.hadoop", "hadoop-client-minicluster", version, alone=True)
    return fetched(f"yarn-{version}", [mini, *BESIDE])


class YarnCluster:
    """One cluster with all its files in a folder."""

    def __init__(self, folder: Path) -> None:
        if shutil.which("javac") is None:
            raise ServiceMissingError("there is no 'javac' on the PATH")
        self._home = spark_home()
        self._classes = folder / "classes"
        classpath = [self._classes, jars() / "*", *_brought()]
        self._classpath = ":".join(map(str, classpath))
        self._folder = folder
        self._conf = folder / "conf"
        self._process: subprocess.Popen[bytes] | None = None
        for each in (self._classes, self._conf, folder / "staging"):
            each.mkdir(parents=True)
        (self._classes / "log4j2.properties").write_text(_LOGGING)
        settings = "".join(f"{name} {value}\n" for name, value in self._settings().items())
        (self._conf / "spark-defaults.conf").write_text(settings)

    @property
    def environment(self) -> dict[str, str]:
        """What programs that use the cluster are run with."""
        conf = {name: str(self._conf) for name in ("HADOOP_CONF_DIR", "SPARK_CONF_DIR")}
        ours = {"SPARK_HOME": str(self._home), "SPARK_LOCAL_IP": "127.0.0.1"}
        return {**os.environ, **conf, **ours}

    def _settings(self) -> dict[str, str]:
        """Those of all sessions on it: small ones, and jars are not copied for each."""
        return {
            "spark.yarn.jars": f"local:{self._home}/jars/*",
            "spark.yarn.stagingDir": f"file://{self._folder}/staging",
            "spark.yarn.am.memory": "512m",
            "spark.driver.memory": "512m",
            "spark.executor.instances": str(NODES),
            "spark.executor.cores": "2",
            "spark.executor.memory": "512m",
            "spark.ui.enabled": "false",
        }

    # ------------------------------------------------------------ from its start to its end

    def __enter__(self) -> YarnCluster:
        classpath = ["-cp", self._classpath]
        compiling = ["javac", *classpath, "-d", str(self._classes), str(SOURCE)]
        subprocess.run(compiling, check=True, capture_output=True, timeout=START_S)
        flags = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        # Containers have their folders below the one that the cluster is started in.
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                ["java", *flags, *classpath, "MiniYarn", str(self._conf), str(NODES)],
                cwd=self._folder,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )
        self._await(self._process)
        return self

    def _await(self, process: subprocess.Popen[bytes]) -> None:
        until = time.monotonic() + START_S
        while not (self._conf / "yarn-site.xml").exists():
            if process.poll() is not None or time.monotonic() > until:
                self.__exit__(None, None, None)
                raise RuntimeError(f"YARN did not start: {self._log.read_text()[-2000:]}")
            time.sleep(0.05)  # nobody tells when a file is there

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self._process is not None:
            family = [psutil.Process(self._process.pid), *self._below()]
            for member in family:
                if member.is_running():
                    member.kill()
            psutil.wait_procs(family, timeout=10)
            self._process.wait(10)
            self._process = None

    @property
    def _log(self) -> Path:
        return self._folder / "yarn.log"

    # ------------------------------------------------------------ what runs on it

    def _below(self) -> list[psutil.Process]:
        assert self._process is not None
        return psutil.Process(self._process.pid).children(recursive=True)

    def executors(self) -> list[psutil.Process]:
        """The JVMs of executors, of whatever application."""
        return [each for each in self._below() if _is_executor(each)]

    def output(self) -> str:
        """What drivers and executors have printed, of all applications that there were."""
        found = sorted(self._folder.rglob("container_*/std*"))
        return "\n".join(file.read_text(errors="replace") for file in found)


def _is_executor(process: psutil.Process) -> bool:
    try:
        # Not the shell that has started it, which has the name in its command as well.
        return process.name() == "java" and _EXECUTOR in process.cmdline()
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return False
