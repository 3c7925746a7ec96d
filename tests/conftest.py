"""Which tests share a process: those that share what is slow to start. No test is timed.

Services that several folders of tests use are fixtures here; where one cannot be had, the tests
that ask for it are skipped, and say why.
"""

from __future__ import annotations

import ast
import itertools
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from tests.services.kafka import KafkaBroker, ServiceMissingError
from tests.services.postgres import PostgresServer, ServiceMissing, shared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# How long an example takes says something of the machine, not of the code. The suite draws the same
# examples every time, so that it fails for what a change has done; the soak looks for new ones.
settings.register_profile("suite", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None)
settings.load_profile(os.environ.get("MAINSTAY_HYPOTHESIS", "suite"))

# Jobs with a page note themselves for `mainstay jobs`; those of tests are not for its user.
_registry = tempfile.TemporaryDirectory(prefix="mainstay-registry-")
os.environ["MAINSTAY_REGISTRY"] = _registry.name

# A JVM of a test lives for seconds or minutes: most of what the second compiler would do is waste,
# and with it a third of the processors' time.
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
for _variable in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS", "SPARK_DAEMON_JAVA_OPTS"):
    os.environ.setdefault(_variable, _SHORT_LIVED)

# Python 3.11 may fail to parse while another thread does (CPython's gh-106905), as threads of jobs
# do for tracebacks. In pytest's own report of a failure that would end the whole run.
_parse = ast.parse


def _parse_again(*arguments: Any, **named: Any) -> ast.AST:
    for _ in range(100):
        try:
            return _parse(*arguments, **named)
        except SystemError:
            continue
    return _parse(*arguments, **named)


ast.parse = _parse_again  # type: ignore[assignment]

# A shell starts what runs in the background with Ctrl-C ignored, and processes hand that on: those
# that tests start and interrupt would never end.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

BY_FIXTURE = {"spark": "spark", "server": "postgres", "broker": "kafka"}
"""Who asks for a session of Spark or for a service shares it with all others that do."""
BY_FOLDER = {"page": "page", "hosts": "hosts", "spark": "spark-programs", "yarn": "yarn"}
BY_FILE = ("contract", "control", "golden", "property", "serve", "unit")
"""Tests of a file here share what the file makes once: a job, a site, a wheel."""
REAL = (
    "benchmarks",
    "connectors",
    "control",
    "drive",
    "ha",
    "hosts",
    "kubernetes",
    "neighbours",
    "page",
    "paper",
    "serve",
    "spark",
    "together",
    "unit/test_benchmarks_check.py",
    "unit/test_pages.py",
    "yarn",
)
"""Tests here start processes, a JVM, a browser or a server; a machine that stalls can fail them."""
_numbers = itertools.count(1)


# Processes that run tests side by side read the groups in the same hook.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if group := _group_of(item):
            item.add_marker(pytest.mark.xdist_group(group))
        if any(_is_in(item, place) for place in REAL):
            item.add_marker(pytest.mark.flaky(reruns=1))


def _group_of(item: pytest.Item) -> str | None:
    """The group that a test does not name itself. One without a group runs where there is room."""
    if item.get_closest_marker("xdist_group"):
        return None
    for fixture, group in BY_FIXTURE.items():
        if fixture in getattr(item, "fixturenames", ()):
            return group
    for folder, group in BY_FOLDER.items():
        if _is_in(item, folder):
            return group
    if any(_is_in(item, folder) for folder in BY_FILE):
        return item.path.relative_to(Path(__file__).parent).with_suffix("").as_posix()
    return None


def _is_in(item: pytest.Item, place: str) -> bool:
    found = Path(__file__).parent / place
    return found == item.path or found in item.path.parents


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print whole what failed at first, whether or not it passed when it was run again."""
    for report in terminalreporter.getreports("rerun"):
        terminalreporter.write_sep("=", f"failed at first, was run again: {report.nodeid}")
        terminalreporter.write_line(report.longreprtext)


# ---------------------------------------------------------------- Spark


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One local session for all tests of a process."""
    pytest.importorskip("pyspark")
    from mainstay.spark.launch.session import local_session

    session = local_session(workers=4)
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


# ---------------------------------------------------------------- Kafka


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """One broker for all tests of a process."""
    pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
    try:
        broker = KafkaBroker(tmp_path_factory.mktemp("kafka"))
    except ServiceMissingError as missing:
        pytest.skip(f"no Kafka broker: {missing}")
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def topic(broker: KafkaBroker) -> Callable[..., str]:
    """Makes a topic that no other test has."""

    def make(partitions: int = 1, **config: str) -> str:
        return broker.create(f"topic{next(_numbers)}", partitions, **config)

    return make


# ---------------------------------------------------------------- PostgreSQL


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """One private server for all tests of a process; each leaves it without transactions."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    try:
        server = shared()
    except ServiceMissing as missing:
        pytest.skip(str(missing))
    yield server
    server.end_transactions()


@pytest.fixture
def dsn(server: PostgresServer) -> str:
    """A schema of its own for every test."""
    return server.schema()
