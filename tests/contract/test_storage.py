"""What every storage must do, whichever it is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest
from obstore.store import HTTPStore, LocalStore

from mainstay.connectors.ingest.log import DataFile, IngestLog
from mainstay.errors import OutcomeUnknownError, SnapshotStorageError
from mainstay.snapshot.commitlog import Begin, ClaimOutcome, History, claim_slot
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.snapshot.object_storage import ObjectStorage, open_storage
from mainstay.snapshot.savepoint import Savepoint, publish, read_savepoint
from mainstay.snapshot.storage import NotFound, Storage
from mainstay.state.keygroups import HASH_ID
from tests.services.s3 import S3Server
from tests.services.s3_proxy import (
    BUSY,
    CONFLICT,
    CREATE,
    DELETE,
    DROPPED,
    GET,
    LIST,
    LOST,
    PUT,
    SLOW,
    THROTTLED,
    S3Proxy,
)

T = TypeVar("T")


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    """Listings come in pages of a few keys."""
    server = S3Server(page_keys=3)
    yield server
    server.close()


@pytest.fixture(scope="module")
def forwarding(s3: S3Server) -> Iterator[S3Proxy]:
    proxy = S3Proxy(s3.port)
    yield proxy
    proxy.close()


@pytest.fixture
def proxy(s3: S3Server, forwarding: S3Proxy) -> S3Proxy:
    """In front of an empty bucket."""
    forwarding.heal()
    forwarding.forget()
    s3.objects.clear()
    return forwarding


@pytest.fixture
def bucket(proxy: S3Proxy, monkeypatch: pytest.MonkeyPatch) -> ObjectStorage:
    """An empty bucket of a server that can fail."""
    for name, value in proxy.environment.items():
        monkeypatch.setenv(name, value)
    return open_storage("s3://bucket/job")


@pytest.fixture
def shaky(bucket: ObjectStorage, proxy: S3Proxy) -> ObjectStorage:
    """A bucket behind a network in which every tenth request goes wrong, and some are slow."""
    for fault in (BUSY, THROTTLED, DROPPED, LOST):
        proxy.inject(fault, times=None, chance=0.025)
    proxy.inject(CONFLICT, kind=CREATE, times=None, chance=0.1)
    proxy.inject(SLOW, times=None, chance=0.03, delay_s=0.05)
    return bucket


@pytest.fixture(
    params=["memory", "obstore-local", "obstore-memory", "obstore-file-url", "s3", "shaky-s3"]
)
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    if request.param == "memory":
        return MemoryStorage()
    if request.param == "obstore-memory":
        return open_storage("memory:///")
    if request.param.endswith("s3"):
        name = "bucket" if request.param == "s3" else "shaky"
        found: Storage = request.getfixturevalue(name)
        return found
    folder = tmp_path / "made on demand"
    return open_storage(str(folder) if request.param == "obstore-local" else folder.as_uri())


def together(*calls: Callable[[], T]) -> list[T]:
    """Run calls at the same moment, each on a thread of its own."""
    barrier = threading.Barrier(len(calls))

    def run(call: Callable[[], T]) -> T:
        barrier.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


def test_what_is_written_is_read_back(storage: Storage) -> None:
    storage.write("state/a/b", b"some bytes")
    assert storage.read("state/a/b") == b"some bytes"
    assert type(storage.read("state/a/b")) is bytes


@pytest.mark.parametrize("data", [b"abc", bytearray(b"abc"), memoryview(b"abc")])
def test_any_bytes_like_object_can_be_stored(
    storage: Storage, data: bytes | bytearray | memoryview
) -> None:
    storage.write("written", data)
    assert storage.create("created", data)
    assert storage.read("written") == storage.read("created") == b"abc"


def test_a_file_may_be_empty(storage: Storage) -> None:
    storage.write("empty", b"")
    assert storage.read("empty") == b""
    assert storage.read("empty", 0, 10) == b""
    assert storage.list("") == ["empty"]


def test_a_file_of_many_megabytes_is_stored_whole(storage: Storage) -> None:
    data = bytes(range(256)) * (12 << 12)
    storage.write("large", data)
    assert storage.create("large-created", data)
    assert not storage.create("large-created", b"other")
    assert storage.read("large") == storage.read("large-created") == data


def test_writing_again_replaces_the_file(storage: Storage) -> None:
    storage.write("f", b"a first and longer one")
    storage.write("f", b"second")
    assert storage.read("f") == b"second"


def test_reading_what_is_absent_names_the_path(storage: Storage) -> None:
    with pytest.raises(NotFound, match="state/absent"):
        storage.read("state/absent")
    with pytest.raises(NotFound, match="state/absent"):
        storage.read("state/absent", 3, 5)
    with pytest.raises(NotFound, match="state/absent"):
        storage.read("state/absent", 0, 0)


def test_a_range_is_what_a_slice_would_give(storage: Storage) -> None:
    data = b"0123456789"
    storage.write("digits", data)
    for start in (0, 1, 5, 9, 10, 11, 100):
        for length in (None, 0, 1, 5, 10, 11, 100):
            expected = data[start:] if length is None else data[start : start + length]
            assert storage.read("digits", start, length) == expected, (start, length)


def test_creating_what_is_absent_stores_it(storage: Storage) -> None:
    assert storage.create("log/0", b"mine") is True
    assert storage.read("log/0") == b"mine"


def test_creating_what_exists_leaves_it_alone(storage: Storage) -> None:
    storage.write("log/0", b"theirs")
    assert storage.create("log/0", b"mine") is False
    assert storage.read("log/0") == b"theirs"


def test_of_two_racing_creators_exactly_one_wins(storage: Storage) -> None:
    for index in range(20):
        path = f"log/{index}"
        claims = [b"left" * 1000, b"right" * 1000]
        won = together(*(partial(storage.create, path, data) for data in claims))
        assert sorted(won) == [False, True]
        assert storage.read(path) == claims[won.index(True)]


def test_what_was_deleted_can_be_created_again(storage: Storage) -> None:
    assert storage.create("log/0", b"first")
    storage.delete("log/0")
    assert storage.create("log/0", b"second")
    assert storage.read("log/0") == b"second"


def test_listing_is_sorted_and_relative_to_the_root(storage: Storage) -> None:
    for path in ["log/2", "log/10", "log/1", "state/x/a/1", "state/x/b", "state/xy"]:
        storage.write(path, b"")
    assert storage.list("log/") == ["log/1", "log/10", "log/2"]
    assert storage.list("state/") == ["state/x/a/1", "state/x/b", "state/xy"]
    assert len(storage.list("")) == 6


def test_a_prefix_is_a_folder_and_not_the_beginning_of_a_name(storage: Storage) -> None:
    storage.write("state/x/1", b"")
    storage.write("state/xy/1", b"")
    assert storage.list("state/x") == storage.list("state/x/") == ["state/x/1"]


def test_listing_an_absent_folder_gives_nothing(storage: Storage) -> None:
    assert storage.list("nowhere/") == []


def test_a_deleted_file_is_gone(storage: Storage) -> None:
    storage.write("a/b", b"")
    storage.delete("a/b")
    assert storage.list("") == []
    with pytest.raises(NotFound):
        storage.read("a/b")


def test_deleting_what_is_absent_is_no_error(storage: Storage) -> None:
    storage.delete("never/was")
    assert storage.list("") == []


def test_deleting_several_files_deletes_each_that_is_there(storage: Storage) -> None:
    for number in range(12):
        storage.write(f"many/{number}", b"x")
    # Absent ones among them hold none of the others up.
    storage.delete("many/99", *(f"many/{number}" for number in range(10)), "never/was", "many/10")
    assert storage.list("") == ["many/11"]


def test_deleting_nothing_does_nothing(storage: Storage) -> None:
    storage.write("kept", b"x")
    storage.delete()
    assert storage.list("") == ["kept"]


def test_names_with_percent_signs_are_kept(storage: Storage) -> None:
    storage.write("state/a%2Fb/%", b"kept")
    assert storage.list("state/") == ["state/a%2Fb/%"]
    assert storage.read("state/a%2Fb/%") == b"kept"


def test_a_reader_never_sees_half_a_file(storage: Storage) -> None:
    versions = [bytes([letter]) * (1 << 20) for letter in b"ab"]
    storage.write("f", versions[0])
    done = threading.Event()

    def write_both_many_times() -> set[bytes]:
        try:
            for turn in range(30):
                storage.write("f", versions[turn % 2])
        finally:
            done.set()
        return set()

    def read_until_done() -> set[bytes]:
        seen = {storage.read("f")}
        while not done.is_set():
            seen.add(storage.read("f"))
        return seen

    _, seen = together(write_both_many_times, read_until_done)
    assert seen <= set(versions)


def test_a_relative_path_stays_put_when_the_working_directory_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    storage = open_storage("snapshots/job")
    monkeypatch.chdir(tmp_path.parent)
    storage.write("f", b"x")
    assert (tmp_path / "snapshots" / "job" / "f").read_bytes() == b"x"


def test_a_file_url_may_contain_escaped_characters(tmp_path: Path) -> None:
    open_storage((tmp_path / "with space").as_uri()).write("f", b"x")
    assert (tmp_path / "with space" / "f").read_bytes() == b"x"


def test_a_file_in_place_of_the_folder_is_refused_by_name(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_bytes(b"")
    for path in (taken, taken / "below"):
        with pytest.raises(SnapshotStorageError, match=str(path)):
            open_storage(str(path))


@pytest.mark.parametrize(
    "url", ["ftp://host/x", "", "file://elsewhere/x", "http://host/x", "file://"]
)
def test_a_storage_that_cannot_be_opened_is_refused_by_name(url: str) -> None:
    with pytest.raises(SnapshotStorageError, match=repr(url)):
        open_storage(url)


def test_cloud_urls_are_understood() -> None:
    assert "bucket/jobs" in repr(open_storage("s3://bucket/jobs"))
    assert "bucket/jobs" in repr(open_storage("gs://bucket/jobs"))


def test_a_folder_that_may_not_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = open_storage(str(tmp_path))
    # Permission bits do not hold back the superuser, so the refusal is simulated.
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(SnapshotStorageError, match=str(tmp_path)) as failure:
        storage.create("log/0", b"")
    assert not isinstance(failure.value, OutcomeUnknownError)
    with pytest.raises(SnapshotStorageError, match=str(tmp_path)):
        storage.write("f", b"")
    assert storage.list("") == []


def test_a_failed_write_names_the_operation_and_the_path(tmp_path: Path) -> None:
    storage = open_storage(str(tmp_path))
    storage.write("log", b"a file where a folder should be")
    with pytest.raises(SnapshotStorageError, match=r"cannot write 'log/0' in .*Not a directory"):
        storage.write("log/0", b"")


def test_a_create_that_failed_half_way_leaves_its_outcome_open(tmp_path: Path) -> None:
    storage = open_storage(str(tmp_path))
    storage.write("log", b"a file where a folder should be")
    with pytest.raises(OutcomeUnknownError, match="log/0"):
        storage.create("log/0", b"")


def test_an_impossible_path_is_a_certain_failure(tmp_path: Path) -> None:
    with pytest.raises(SnapshotStorageError, match=r"\.\./up") as failure:
        open_storage(str(tmp_path)).create("../up", b"")
    assert not isinstance(failure.value, OutcomeUnknownError)
    assert list(tmp_path.parent.glob("up")) == []


def test_a_store_without_conditional_create_is_refused_for_the_log() -> None:
    storage = ObjectStorage(HTTPStore.from_url("http://localhost:1"), "http://localhost:1")
    with pytest.raises(SnapshotStorageError, match="commit log rests on") as failure:
        storage.create("log/0", b"")
    assert not isinstance(failure.value, OutcomeUnknownError)


def test_files_being_staged_are_not_listed(tmp_path: Path) -> None:
    storage = ObjectStorage(LocalStore(tmp_path), "local")
    storage.write("log/0", b"")
    # What a writer that died leaves behind.
    (tmp_path / "log" / "1#1").write_bytes(b"half")
    assert storage.list("log/") == ["log/0"]
    assert storage.create("log/1", b"whole")
    assert storage.read("log/1") == b"whole"


# ---------------------------------------------------------------- a remote store that falters


def test_a_file_whose_answer_was_lost_is_ours(bucket: ObjectStorage, proxy: S3Proxy) -> None:
    proxy.inject(LOST, kind=CREATE, key="log/0")
    assert bucket.create("log/0", b"mine") is True
    assert bucket.create("log/0", b"theirs") is False


def test_a_conflict_of_which_nothing_comes_is_tried_again(
    bucket: ObjectStorage, proxy: S3Proxy
) -> None:
    proxy.inject(CONFLICT, kind=CREATE, key="log/0", times=2)
    assert bucket.create("log/0", b"mine") is True
    assert bucket.read("log/0") == b"mine"


def test_a_conflict_that_never_ends_is_an_unknown_outcome(
    bucket: ObjectStorage, proxy: S3Proxy
) -> None:
    proxy.inject(CONFLICT, kind=CREATE, key="log/endless", times=1000)
    with pytest.raises(OutcomeUnknownError, match="log/endless"):
        bucket.create("log/endless", b"mine")
    assert bucket.list("") == []


def test_a_conflict_with_a_winner_is_lost(bucket: ObjectStorage, proxy: S3Proxy) -> None:
    bucket.write("log/1", b"theirs")
    proxy.inject(CONFLICT, kind=CREATE, key="log/1")
    assert bucket.create("log/1", b"mine") is False


@pytest.mark.parametrize("fault", [BUSY, THROTTLED, DROPPED, LOST])
def test_a_store_that_falters_is_asked_again(
    bucket: ObjectStorage, proxy: S3Proxy, fault: str
) -> None:
    for kind in (CREATE, PUT, GET, LIST, DELETE):
        proxy.inject(fault, kind=kind, times=2)
    assert bucket.create("log/2", b"mine") is True
    bucket.write("f", b"written")
    assert bucket.read("f") == b"written"
    assert bucket.list("") == ["f", "log/2"]
    bucket.delete("f")
    assert bucket.list("") == ["log/2"]
    assert all(proxy.count(kind=kind) >= 3 for kind in (CREATE, PUT, GET, LIST, DELETE))


def test_a_store_that_never_answers_is_given_up(
    proxy: S3Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**proxy.environment, "AWS_TIMEOUT": "50ms"}.items():
        monkeypatch.setenv(name, value)
    proxy.inject(SLOW, times=None, delay_s=0.5)
    storage = open_storage("s3://bucket/job")
    with pytest.raises(SnapshotStorageError, match="'f' in s3://bucket/job"):
        storage.read("f")
    with pytest.raises(OutcomeUnknownError, match="'f' in s3://bucket/job"):
        storage.create("f", b"mine")


def test_a_listing_of_many_pages_is_whole(bucket: ObjectStorage, proxy: S3Proxy) -> None:
    names = [f"state/{number}" for number in range(8)]
    for name in names:
        bucket.write(name, b"")
    assert bucket.list("state/") == names
    assert proxy.count(kind=LIST) == 3


@pytest.mark.parametrize("fault", [LOST, CONFLICT])
def test_an_ingest_log_is_sealed_and_committed_whatever_a_store_answers(
    bucket: ObjectStorage, proxy: S3Proxy, fault: str
) -> None:
    log = IngestLog(bucket, "orders")
    proxy.inject(fault, kind=CREATE, key="log/0000000000")
    file = DataFile("data", 1, 1, "crc32:0")
    assert log.commit(0, "query", [file]).files == (file,)
    proxy.inject(fault, kind=CREATE, key="sealed")
    log.seal()
    assert log.is_sealed


@pytest.mark.parametrize("fault", [LOST, CONFLICT])
def test_a_slot_of_the_commit_log_is_won_whatever_a_store_answers(
    bucket: ObjectStorage, proxy: S3Proxy, fault: str
) -> None:
    begin = Begin(1, "leader", None, "l1", "words", 128, "h1", 1)
    proxy.inject(fault, kind=CREATE, key="log/0000000000")
    assert claim_slot(bucket, History(), begin, "mine") is ClaimOutcome.WON


@pytest.mark.parametrize("fault", [LOST, CONFLICT])
def test_a_savepoint_is_published_whatever_a_store_answers(
    bucket: ObjectStorage, proxy: S3Proxy, fault: str
) -> None:
    savepoint = Savepoint("job", 1, 0.0, "exactly_once", 128, HASH_ID, {}, {})
    proxy.inject(fault, kind=CREATE, key="savepoint.json")
    publish(bucket, savepoint)
    assert read_savepoint(bucket, "there") == savepoint


def test_a_savepoint_that_cannot_be_published_says_what_stands_in_the_way(
    bucket: ObjectStorage, proxy: S3Proxy
) -> None:
    savepoint = Savepoint("job", 1, 0.0, "exactly_once", 128, HASH_ID, {}, {})
    proxy.inject(CONFLICT, kind=CREATE, times=None)
    with pytest.raises(OutcomeUnknownError, match=r"savepoint\.json"):
        publish(bucket, savepoint)
