"""What docs/security.md says is true: of files, processes, storage, and of data that is code."""

from __future__ import annotations

import ast
import io
import os
import re
import shutil
import ssl
import stat
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import cloudpickle
import psutil
import pytest
from rich.console import Console

import mainstay as ms
from mainstay.connectors import Memory, Sequence
from mainstay.connectors.webhook import Webhook
from mainstay.drive.processes import ProcessLauncher
from mainstay.drive.remote_worker import Bootstrap
from mainstay.errors import DamagedFileError, GraphError, RestoreError, SparkSetupError
from mainstay.snapshot import local_root
from mainstay.snapshot.checked import read_checked, reference
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.state.backends.rocksdb import directory as rocksdb_directory
from mainstay.survey.command import Request, run_snapshots
from mainstay.transport.codec import decode, encode
from mainstay.transport.keys import AttemptKeys, KeyPair
from tests.drive.ledger import await_until

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "security.md"
PATIENCE_S = 60


# ---------------------------------------------------------------- the page


def named_tests() -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for path, name in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE.read_text()):
        found.append((path, name))
    return found


def test_every_test_that_the_page_names_is_there() -> None:
    assert len(named_tests()) > 20
    for path, name in named_tests():
        functions = re.findall(r"^def (test_\w+)", (ROOT / path).read_text(), re.M)
        assert name in functions, f"{path} has no {name}"


def test_every_sentence_of_a_table_has_a_test() -> None:
    rows = [
        line
        for line in PAGE.read_text().splitlines()
        if line.startswith("| ") and not line.startswith(("| what", "|---"))
    ]
    assert rows
    assert [row for row in rows if "`tests/" not in row] == []


# ---------------------------------------------------------------- where data becomes code

LOADING = {"pickle.loads", "pickle.load", "cloudpickle.loads", "cloudpickle.load"}
RUNNING = {"exec", "eval", "compile"}


def calls_in(path: Path) -> set[str]:
    nodes = ast.walk(ast.parse(path.read_text()))
    return {ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)}


def test_data_becomes_code_only_where_the_page_says() -> None:
    package = ROOT / "src" / "mainstay"
    becoming = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if calls_in(path) & (LOADING | RUNNING) or "pickle.loads(" in path.read_text()
    }
    part = PAGE.read_text().split("## Where data becomes")[1]
    listed = set(re.findall(r"`((?:\w+/)*\w+\.py)`", part))
    assert becoming == listed


class Touching:
    """Unpickling it leaves a trace: what anybody could write into a storage."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> Any:
        return (os.makedirs, (str(self.place), 0o777, True))


class Untyped(ms.KeyedProcess):
    last = ms.ValueState()

    def __init__(self, place: Path) -> None:
        self.place = place

    def process(self, row: Any, context: Any) -> Any:
        self.last.update(Touching(self.place))
        yield (row.id,)


def job_with_pickles(tmp_path: Path, sink: Memory | None = None, **more: Any) -> ms.Environment:
    snapshots = ms.Snapshots(tmp_path / "snapshots", every="100ms")
    env = ms.Environment(spark="embedded", parallelism=1, snapshots=snapshots, **more)
    ids = env.source(Sequence(rows_per_second=1000), uid="in")
    function = Untyped(tmp_path / "trace")
    ids.key_by("id").process(function, schema="id long", uid="f").sink(sink or Memory(), uid="out")
    return env


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """The snapshots of a job whose state leaves a trace when it is unpickled."""
    rows = Memory()
    job = job_with_pickles(tmp_path, rows).start("job")
    await_until(rows.rows, "an epoch with rows is complete")
    job.stop(tmp_path / "saved", timeout=PATIENCE_S)
    shutil.rmtree(tmp_path / "trace", ignore_errors=True)
    return tmp_path


def test_restoring_a_state_without_a_type_runs_what_the_storage_holds(hostile: Path) -> None:
    job = job_with_pickles(hostile, restore="latest").start("job")
    job.stop(timeout=PATIENCE_S)
    assert (hostile / "trace").exists()


def test_nothing_is_unpickled_where_pickles_are_not_allowed(
    hostile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    strict = {"restore": "latest", "allow_pickle": False}
    with pytest.raises(GraphError, match=r"f\.last"):
        job_with_pickles(hostile, **strict).start("job")
    # Where the program has no such state, it is the snapshot that is refused.
    monkeypatch.setattr("mainstay.api.environment.check_no_pickles", lambda graph: None)
    job = job_with_pickles(hostile, **strict).start("job")
    with pytest.raises(RestoreError, match=r"f\.last"):
        job.wait(PATIENCE_S)
    assert not (hostile / "trace").exists()


@pytest.mark.parametrize("place", ["snapshots", "saved"])
def test_looking_at_snapshots_from_the_command_line_unpickles_nothing(
    hostile: Path, place: str
) -> None:
    request = Request(verify=True, epoch=None if place == "saved" else "latest")
    console = Console(file=io.StringIO())
    assert run_snapshots(console, str(hostile / place), request, lambda question: False)
    assert not (hostile / "trace").exists()


def test_reading_state_as_columns_unpickles_nothing(hostile: Path) -> None:
    reading = pytest.importorskip("mainstay.inspect.reading")
    from tests.unit.inspect.test_reading import table_of

    assert reading is not None
    table = table_of(str(hostile / "saved"), "last", uid="f")
    assert str(table.schema.field("last").type) == "binary"
    assert not (hostile / "trace").exists()


def test_whoever_has_the_keys_of_an_attempt_can_run_code_in_it(tmp_path: Path) -> None:
    """Messages are pickles; that only holders of the keys can send them is all that protects."""
    frames = encode(Touching(tmp_path / "trace"))
    decode(frames, {}.get)
    assert (tmp_path / "trace").exists()


# ---------------------------------------------------------------- storage


def test_a_checksum_notices_damage_and_is_no_signature() -> None:
    storage = MemoryStorage()
    storage.write("file", b"ours")
    ref = reference("file", b"ours")
    storage.write("file", b"evil")
    with pytest.raises(DamagedFileError):
        read_checked(storage, ref)
    assert read_checked(storage, reference("file", b"evil")) == b"evil"


# ---------------------------------------------------------------- keys and processes


def bootstrap() -> tuple[Bootstrap, KeyPair]:
    hub = KeyPair.new()
    return Bootstrap(1, "tcp://127.0.0.1:1", AttemptKeys.new(hub.public), "memory://"), hub


def test_the_closure_of_the_spark_job_holds_the_keys_of_the_workers_and_not_of_the_hub() -> None:
    given, hub = bootstrap()
    shipped = cloudpickle.dumps(given)
    assert given.keys.worker.secret in shipped
    assert hub.secret not in shipped
    assert given.keys.worker.secret.decode() not in repr(given)


def test_the_keys_are_in_no_command_line_and_no_environment() -> None:
    given, _ = bootstrap()
    launcher = ProcessLauncher()
    launcher.start(given, 1, lambda reason: None)
    (process,) = launcher.processes[1]
    try:
        seen = psutil.Process(process.pid)
        told = " ".join([*seen.cmdline(), *seen.environ().values()])
    finally:
        process.kill()
        process.wait()
        launcher.close()
    assert given.keys.worker.secret.decode() not in told
    assert "tcp://127.0.0.1:1" not in told


def test_a_webhook_by_https_checks_the_certificate() -> None:
    url = "https://service.example/orders"
    connection: Any = Webhook(url)._connection(urlsplit(url))
    assert connection._context.verify_mode is ssl.CERT_REQUIRED
    assert connection._context.check_hostname


# ---------------------------------------------------------------- local directories

needs_modes = pytest.mark.skipif(not hasattr(os, "getuid"), reason="there are no modes here")


@needs_modes
def test_local_state_lies_where_no_other_user_can_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    directory = rocksdb_directory.new_directory(None, "db")
    root = tmp_path / f"{local_root.NAME}-{os.getuid()}"
    assert root in directory.parents
    for each in (root, directory.parent, directory):
        assert stat.S_IMODE(each.stat().st_mode) == 0o700


@needs_modes
@pytest.mark.parametrize("kind", ["open to all", "a link"])
def test_a_directory_that_others_could_have_laid_out_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    root = tmp_path / f"{local_root.NAME}-{os.getuid()}"
    if kind == "a link":
        (tmp_path / "theirs").mkdir(mode=0o700)
        root.symlink_to(tmp_path / "theirs")
    else:
        root.mkdir()
        root.chmod(0o777)
    with pytest.raises(SparkSetupError, match="of this user alone"):
        rocksdb_directory.new_directory(None, "db")


def test_the_settings_of_a_zookeeper_client_are_not_shown() -> None:
    options = {"auth_data": [("digest", "me:secret")]}
    ha = ms.HighAvailability(ms.ZooKeeper("zk:2181", options=options))
    env = ms.Environment(spark="embedded", ha=ha)
    for shown in (repr(env), repr(ha), str(ha.store)):
        assert "zk:2181" in shown
        assert "secret" not in shown
