"""Copies of state files on a host: whole or none, within a bound, and never in anybody's way."""

from __future__ import annotations

import errno
import multiprocessing
import os
import time
from collections import namedtuple
from pathlib import Path

import pytest

from mainstay.snapshot import local_copies
from mainstay.snapshot.checked import reference
from mainstay.snapshot.copied_storage import CopiedStorage, local_link, with_copies, write_file
from mainstay.snapshot.local_copies import CopySettings, LocalCopies, open_copies
from mainstay.snapshot.manifest import FileRef
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.snapshot.metered import MeteredStorage
from mainstay.snapshot.storage import BytesLike

A, B, C = (f"state/count/a0001/s0000-{name}.msty" for name in "abc")
LARGE = 1 << 20


class Counting(MemoryStorage):
    """Notes what is read."""

    def __init__(self) -> None:
        super().__init__()
        self.read_paths: list[str] = []

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        self.read_paths.append(path)
        return super().read(path, start, length)


@pytest.fixture
def inner() -> Counting:
    return Counting()


def opened(folder: Path, most_bytes: int = LARGE, place: str = "s3://b/job") -> LocalCopies:
    found = open_copies(CopySettings(str(folder), most_bytes), "words-1", place)
    assert found is not None
    return found


def files_of(folder: Path) -> list[Path]:
    return [file for file in (folder / "cache").rglob("*") if file.is_file()]


def copy_of(folder: Path, path: str) -> Path:
    (found,) = (folder / "cache").glob(f"*/{path}")
    return found


def set_used(folder: Path, path: str, *, ago_s: float) -> None:
    used = time.time() - ago_s
    os.utime(copy_of(folder, f"{path}~"), (used, used))


def test_what_was_written_is_read_from_this_host(tmp_path: Path, inner: Counting) -> None:
    CopiedStorage(inner, opened(tmp_path)).write(A, b"0123456789")
    later = CopiedStorage(inner, opened(tmp_path))
    assert later.read(A, 3, 4) == b"3456"
    assert later.read(A, 8) == b"89"
    assert later.read(A, 20, 4) == b""
    assert later.read(A) == inner.read(A) == b"0123456789"
    assert inner.read_paths == [A]  # by the test itself
    assert later.read_bytes() == (16, 0)


def test_what_was_read_whole_is_there_the_next_time(tmp_path: Path, inner: Counting) -> None:
    inner.write(A, b"whole")
    inner.write(B, b"seen to its end")
    storage = CopiedStorage(inner, opened(tmp_path))
    for _ in range(2):
        assert storage.read(A) == b"whole"
        assert storage.read(B, 0, 100) == b"seen to its end"
    assert inner.read_paths == [A, B]
    assert storage.read_bytes() == (20, 20)


def test_a_host_knows_how_much_it_has_without_reading_it(tmp_path: Path, inner: Counting) -> None:
    CopiedStorage(inner, opened(tmp_path)).write(A, b"0123456789")
    CopiedStorage(inner, opened(tmp_path)).write(B, b"01234")
    refs = [reference(A, b"0123456789"), reference(B, b"01234"), reference(C, b"never written")]
    assert opened(tmp_path).held_bytes(refs) == 15
    copy_of(tmp_path, A).write_bytes(b"torn")
    copy_of(tmp_path, f"{B}~").unlink()
    assert opened(tmp_path).held_bytes(refs) == 0
    assert inner.read_paths == []


def test_what_was_read_in_part_is_not_kept(tmp_path: Path, inner: Counting) -> None:
    inner.write(A, b"0123456789")
    storage = CopiedStorage(inner, opened(tmp_path))
    assert storage.read(A, 0, 5) == storage.read(A, 0, 5) == b"01234"
    assert inner.read_paths == [A, A]


def test_only_state_is_kept(tmp_path: Path, inner: Counting) -> None:
    storage = CopiedStorage(inner, opened(tmp_path))
    storage.write("epochs/0000000001-a0001.json", b"{}")
    assert storage.create("log/0000000000", b"{}")
    assert storage.read("log/0000000000") == b"{}"
    assert files_of(tmp_path) == []


@pytest.mark.parametrize("damage", [b"", b"01234", b"01234x6789", b"0123456789 and more"])
def test_a_copy_that_is_not_whole_is_fetched_again(
    tmp_path: Path, inner: Counting, damage: bytes
) -> None:
    CopiedStorage(inner, opened(tmp_path)).write(A, b"0123456789")
    copy_of(tmp_path, A).write_bytes(damage)
    storage = CopiedStorage(inner, opened(tmp_path))
    assert storage.read(A) == b"0123456789"
    assert inner.read_paths == [A]
    assert copy_of(tmp_path, A).read_bytes() == b"0123456789"


@pytest.mark.parametrize("note", ["", "10", "10 crc32:00000000", "nonsense"])
def test_a_copy_whose_note_is_torn_is_none(tmp_path: Path, inner: Counting, note: str) -> None:
    CopiedStorage(inner, opened(tmp_path)).write(A, b"0123456789")
    copy_of(tmp_path, f"{A}~").write_text(note)
    assert CopiedStorage(inner, opened(tmp_path)).read(A) == b"0123456789"
    assert inner.read_paths == [A]


def test_a_copy_without_a_note_is_none(tmp_path: Path, inner: Counting) -> None:
    CopiedStorage(inner, opened(tmp_path)).write(A, b"right")
    copy_of(tmp_path, A).write_bytes(b"wrong")
    copy_of(tmp_path, f"{A}~").unlink()
    assert CopiedStorage(inner, opened(tmp_path)).read(A) == b"right"


def test_copies_of_another_place_or_lineage_are_not_taken(tmp_path: Path) -> None:
    opened(tmp_path).put(A, b"of this one")
    assert opened(tmp_path, place="s3://b/copied").get(A) is None
    forked = open_copies(CopySettings(str(tmp_path)), "words-2", "s3://b/job")
    assert forked is not None
    assert forked.get(A) is None


def test_what_is_deleted_is_deleted_here_too(tmp_path: Path, inner: Counting) -> None:
    storage = CopiedStorage(inner, opened(tmp_path))
    storage.write(A, b"spilled")
    storage.delete(A)
    assert [file.name for file in files_of(tmp_path)] == ["lock"]
    assert inner.list("") == []


# ---------------------------------------------------------------- room


def test_what_was_not_used_for_the_longest_time_goes_first(tmp_path: Path) -> None:
    copies = opened(tmp_path, 100)
    copies.put(A, b"a" * 40)
    copies.put(B, b"b" * 40)
    set_used(tmp_path, A, ago_s=100.0)
    set_used(tmp_path, B, ago_s=200.0)
    copies.put(C, b"c" * 40)
    assert copies.get(B) is None
    assert (copies.get(A), copies.get(C)) == (b"a" * 40, b"c" * 40)


def test_what_an_epoch_names_is_kept_before_others(tmp_path: Path) -> None:
    copies = opened(tmp_path, 100)
    copies.put(A, b"a" * 40)
    copies.put(B, b"b" * 40)
    for path in (A, B):
        set_used(tmp_path, path, ago_s=100.0)
    copies.use([A])
    copies.put(C, b"c" * 40)
    assert (copies.get(A), copies.get(B)) == (b"a" * 40, None)


def test_what_nobody_used_for_weeks_is_removed(tmp_path: Path) -> None:
    copies = opened(tmp_path)
    copies.put(A, b"a")
    copies.put(B, b"b")
    set_used(tmp_path, A, ago_s=8 * 24 * 3600.0)
    copies.make_room()
    assert (copies.get(A), copies.get(B)) == (None, b"b")


def test_jobs_of_a_host_share_the_bound(tmp_path: Path) -> None:
    older, newer = opened(tmp_path, 100), opened(tmp_path, 100, "s3://b/other")
    older.put(A, b"a" * 60)
    set_used(tmp_path, A, ago_s=100.0)
    newer.put(A, b"n" * 60)
    assert older.get(A) is None
    assert newer.get(A) == b"n" * 60


def test_a_file_beyond_the_bound_is_not_kept(tmp_path: Path) -> None:
    copies = opened(tmp_path, 100)
    copies.put(A, b"a" * 200)
    assert copies.get(A) is None


def test_copies_leave_at_least_as_much_free_as_they_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage(1000, 950, 50))
    copies = opened(tmp_path, 1000)
    copies.put(A, b"a" * 80)
    assert copies.get(A) is None
    copies.put(B, b"b" * 40)
    assert copies.get(B) == b"b" * 40


def test_what_no_epoch_builds_on_any_more_is_removed(tmp_path: Path, inner: Counting) -> None:
    storage = CopiedStorage(inner, opened(tmp_path))
    storage.write(A, b"a")
    storage.write(B, b"b")
    storage.named("count", [A, B])
    for _ in range(2):
        storage.named("count", [B])
        storage.write(C, b"c")
        assert storage.copies.get(A) == b"a"  # an epoch that comes to nothing may bring it back
    storage.named("count", [B])
    storage.write(C, b"c")
    assert storage.copies.get(A) is None
    assert storage.copies.get(B) == b"b"
    assert inner.read(A) == b"a"


def test_a_file_that_operators_share_is_kept_while_one_of_them_builds_on_it(
    tmp_path: Path, inner: Counting
) -> None:
    storage = CopiedStorage(inner, opened(tmp_path))
    storage.write(A, b"both")
    storage.named("one", [A])
    storage.named("other", [A])
    for _ in range(3):
        storage.named("one", [B])
        storage.write(C, b"c")
    assert storage.copies.get(A) == b"both"
    for _ in range(3):
        storage.named("other", [B])
        storage.write(C, b"c")
    assert storage.copies.get(A) is None


def test_a_part_of_a_shared_file_is_held_where_the_file_is(tmp_path: Path, inner: Counting) -> None:
    storage = CopiedStorage(inner, opened(tmp_path))
    storage.write(A, b"header, first, second")
    part = FileRef(A, 5, "crc32:0", start=8)
    assert storage.copies.held_bytes([part]) == 5
    assert storage.read(A, part.start, part.size_bytes) == b"first"
    assert not inner.read_paths


def test_what_this_host_lacks_is_fetched_ahead_and_counted_as_read_from_storage(
    tmp_path: Path, inner: Counting
) -> None:
    storage = CopiedStorage(inner, opened(tmp_path))
    storage.write(A, b"here")
    inner.write(B, b"there")
    files = [reference(A, b"here"), reference(B, b"there"), reference(B, b"there")]
    fetches = storage.fetches(files)
    assert len(fetches) == 1
    fetches[0]()
    assert storage.read(B) == b"there"
    assert inner.read_paths == [B]
    assert storage.read_bytes() == (0, len(b"there"))
    assert MeteredStorage(inner).fetches(files) == []


def test_what_was_given_up_half_way_is_removed_in_time(tmp_path: Path) -> None:
    copies = opened(tmp_path)
    copies.put(A, b"a")
    folder = copy_of(tmp_path, A).parent
    stray, draft = folder / "stray", copy_of(tmp_path, A).parents[3] / "~1-1"
    for left in (stray, draft):
        left.write_bytes(b"half")
    copies.make_room()
    assert stray.exists()
    assert draft.exists()
    for left in (stray, draft):
        os.utime(left, (1000.0, 1000.0))
    copies.make_room()
    assert not stray.exists()
    assert not draft.exists()
    assert copies.get(A) == b"a"


def _keep_many(folder: str, number: int) -> None:
    copies = open_copies(CopySettings(folder, 20_000), "words-1", "s3://b/job")
    assert copies is not None
    for turn in range(150):
        name = f"state/count/a0001/s{number:04d}-{turn}.msty"
        copies.put(name, bytes([number]) * 1000)
        found = copies.get(name)
        assert found is None or found == bytes([number]) * 1000
        shared = copies.get(f"state/count/a0001/shared-{turn}")
        assert shared in (None, b"same")
        copies.put(f"state/count/a0001/shared-{turn}", b"same")


def test_processes_share_copies_without_harm(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_keep_many, args=(str(tmp_path), n)) for n in (1, 2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    copies = opened(tmp_path, 20_000)
    copies.make_room()
    left = [file for file in files_of(tmp_path) if file.name != "lock"]
    assert 0 < sum(file.stat().st_size for file in left if not file.name.endswith("~")) <= 20_000
    for file in left:
        if not file.name.endswith("~"):
            path = str(file.relative_to(tmp_path / "cache")).partition("/")[2]
            assert copies.get(path) == file.read_bytes()


# ---------------------------------------------------------------- a disk that refuses


class Full(LocalCopies):
    """On a disk that is full."""

    def _put(self, path: str, data: BytesLike, file: Path | None) -> None:
        if self._cache.joinpath("full").exists():
            raise OSError(errno.ENOSPC, "No space left on device")
        super()._put(path, data, file)


def test_a_full_disk_costs_the_copies_and_nothing_else(
    tmp_path: Path, inner: Counting, caplog: pytest.LogCaptureFixture
) -> None:
    opened(tmp_path).put(A, b"of a job that was here before")
    copies = Full(tmp_path / "cache", "job", LARGE)
    storage = CopiedStorage(inner, copies)
    storage.write(A, b"a")
    (tmp_path / "cache" / "full").touch()
    storage.write(B, b"b")
    storage.write(C, b"c")
    assert [inner.read(path) for path in (A, B, C)] == [b"a", b"b", b"c"]
    assert opened(tmp_path).get(A) is None
    assert copies.get(A) is None
    assert storage.read(A) == b"a"
    (warning,) = caplog.records
    assert "No space left" in warning.getMessage()


def test_a_folder_of_somebody_else_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    opened(tmp_path).put(A, b"a")
    monkeypatch.setattr("os.getuid", lambda: 12345)
    assert open_copies(CopySettings(str(tmp_path)), "words-1", "s3://b/job") is None
    assert "no directory of this user alone" in caplog.text


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_a_folder_that_others_can_reach_into_is_left_alone(
    tmp_path: Path, mode: int, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(mode)
    storage = with_copies(MemoryStorage(), "s3://b/job", CopySettings(str(tmp_path)), "words-1")
    assert type(storage) is MeteredStorage
    storage.write(A, b"a")
    assert storage.read(A) == b"a"
    assert storage.read_bytes() == (0, 1)
    assert "no directory of this user alone" in caplog.text


def test_a_link_in_the_place_of_the_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "cache").symlink_to(tmp_path / "elsewhere")
    assert open_copies(CopySettings(str(tmp_path)), "words-1", "s3://b/job") is None


def test_a_folder_that_cannot_be_made_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert open_copies(CopySettings(str(tmp_path / "file")), "words-1", "s3://b/job") is None


def test_a_copy_that_cannot_be_read_is_fetched(
    tmp_path: Path, inner: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    CopiedStorage(inner, opened(tmp_path)).write(A, b"a")
    storage = CopiedStorage(inner, opened(tmp_path))

    def fail(*_: object) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Path, "read_bytes", fail)
    assert storage.read(A) == b"a"
    assert inner.read_paths == [A]


# ---------------------------------------------------------------- links


@pytest.fixture
def sst(tmp_path: Path) -> Path:
    file = tmp_path / "000001.sst"
    file.write_bytes(b"rows")
    return file


def test_a_file_that_never_changes_is_linked(tmp_path: Path, inner: Counting, sst: Path) -> None:
    storage = CopiedStorage(inner, opened(tmp_path))
    write_file(storage, A, b"rows", sst)
    assert copy_of(tmp_path, A).samefile(sst)
    link = local_link(storage, reference(A, b"rows"))
    assert link is not None
    assert link.samefile(sst)
    assert storage.read_bytes() == (4, 0)
    link.replace(tmp_path / "moved away")
    assert storage.read(A) == b"rows"


def test_writing_a_linked_file_again_leaves_nothing_behind(
    tmp_path: Path, inner: Counting, sst: Path
) -> None:
    storage = CopiedStorage(inner, opened(tmp_path))
    for _ in range(2):
        write_file(storage, A, b"rows", sst)
    names = sorted(file.name for file in files_of(tmp_path))
    assert names == ["lock", Path(A).name, f"{Path(A).name}~"]


def test_a_file_of_another_device_is_copied(
    tmp_path: Path, inner: Counting, sst: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(local_copies.os, "link", refuse)
    storage = CopiedStorage(inner, opened(tmp_path))
    write_file(storage, A, b"rows", sst)
    assert storage.read(A) == b"rows"
    assert not copy_of(tmp_path, A).samefile(sst)
    assert local_link(storage, reference(A, b"rows")) is None


def test_a_file_that_a_manifest_does_not_mean_is_not_linked(
    tmp_path: Path, inner: Counting, sst: Path
) -> None:
    storage = CopiedStorage(inner, opened(tmp_path))
    write_file(storage, A, b"rows", sst)
    assert local_link(storage, reference(A, b"others")) is None
    assert local_link(storage, reference(B, b"rows")) is None
    assert local_link(inner, reference(A, b"rows")) is None


def test_without_copies_a_file_is_written_as_any_other(inner: Counting, sst: Path) -> None:
    write_file(inner, A, b"rows", sst)
    assert inner.read(A) == b"rows"
