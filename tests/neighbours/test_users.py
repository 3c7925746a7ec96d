"""Another user of the machine: what he put in our way is not trusted, and he sees no secrets."""

from __future__ import annotations

import logging
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mainstay.snapshot.local_root as local_root
from mainstay.registry.entry import Entry
from mainstay.registry.folder import read_entries, write_entry
from mainstay.snapshot.local_copies import CopySettings, open_copies
from mainstay.snapshot.local_root import default_root
from mainstay.state.backends.rocksdb.directory import new_directory
from tests.neighbours.users import as_nobody

UMASKS = (0o000, 0o022, 0o077)


@pytest.fixture
def shared_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory for the temporary files of all users, that both processes use.

    It is made after those of pytest, which goes by the same setting.
    """
    # Folders above are those of the user who runs the tests.
    place = Path(tempfile.mkdtemp(prefix="mainstay-users-", dir="/var/tmp"))
    place.chmod(0o1777)
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    yield place
    shutil.rmtree(place)


def squatted(shared_tmp: Path) -> Path:
    """The folder that this user would take, made by another before."""
    name = f"{local_root.NAME}-{os.getuid()}"

    def make() -> None:
        folder = Path(tempfile.gettempdir()) / name
        folder.mkdir()
        folder.chmod(0o777)
        (folder / "cache").mkdir()

    as_nobody(make)
    return shared_tmp / name


def check_squatted_is_refused(shared_tmp: Path) -> None:
    folder = squatted(shared_tmp)
    with pytest.raises(Exception, match=f"{folder.name}.*no directory of this user alone. Remove"):
        default_root()


def test_a_folder_that_another_user_has_squatted_is_refused_by_name(shared_tmp: Path) -> None:
    check_squatted_is_refused(shared_tmp)


@pytest.mark.mutation
def test_trusting_any_folder_is_noticed(shared_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_root, "is_private", lambda folder: True)
    with pytest.raises(pytest.fail.Exception):
        check_squatted_is_refused(shared_tmp)


def test_a_link_in_the_place_of_our_folder_is_refused(shared_tmp: Path, tmp_path: Path) -> None:
    (shared_tmp / f"{local_root.NAME}-{os.getuid()}").symlink_to(tmp_path)
    with pytest.raises(Exception, match="no directory of this user alone"):
        default_root()


def test_state_in_a_squatted_folder_is_refused_and_copies_are_done_without(
    shared_tmp: Path, caplog: pytest.LogCaptureFixture
) -> None:
    squatted(shared_tmp)
    with pytest.raises(Exception, match=r"RocksDB\(directory=\.\.\.\)"):
        new_directory(None, "state")
    with caplog.at_level(logging.WARNING):
        assert open_copies(CopySettings(), "lineage", "/somewhere") is None
    assert "not kept on this host" in caplog.text


@pytest.mark.parametrize("umask", UMASKS)
def test_two_users_have_folders_of_their_own_that_the_other_cannot_read(
    shared_tmp: Path, umask: int
) -> None:
    ours = default_root()
    theirs = as_nobody(lambda: str(new_directory(None, "state").parent.parent), umask)
    assert theirs != str(ours)
    assert stat.S_IMODE(os.stat(theirs).st_mode) == 0o700
    with pytest.raises(RuntimeError, match="PermissionError"):
        as_nobody(lambda: os.listdir(ours), umask)


def entry(token: str) -> Entry:
    return Entry("job", os.getpid(), None, "host", "http://localhost:1", token, "/place", 0.0)


@pytest.mark.parametrize("umask", UMASKS)
def test_the_token_of_a_job_is_for_its_user_alone(shared_tmp: Path, umask: int) -> None:
    folder = shared_tmp / "registry"
    before = os.umask(umask)
    try:
        file = write_entry(entry("secret"), folder)
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    with pytest.raises(RuntimeError, match="PermissionError"):
        as_nobody(lambda: file.read_text())


def test_a_registry_that_another_user_has_made_is_not_read(shared_tmp: Path, caplog: Any) -> None:
    folder = shared_tmp / "registry"

    def make() -> None:
        write_entry(entry("a trap"), folder)
        folder.chmod(0o777)
        for file in folder.iterdir():
            file.chmod(0o666)

    as_nobody(make)
    with caplog.at_level(logging.WARNING):
        assert read_entries(folder) == []
    assert "another user" in caplog.text
