"""Storage on local disks and in object stores (S3, GCS, Azure), through obstore.

``open_storage("snapshots")`` is a folder, ``open_storage("s3://bucket/jobs/a")`` a prefix of a
bucket. Credentials and endpoints come from the environment, as each cloud's own tools read them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import obstore
from obstore import exceptions as failures
from obstore.store import LocalStore, ObjectStore, from_url

from mainstay.errors import OutcomeUnknownError, SnapshotStorageError
from mainstay.masking import masked, refuse_login
from mainstay.snapshot.listing import ListedStorage, StoredFile
from mainstay.snapshot.panics import without_panics
from mainstay.snapshot.storage import BytesLike, NotFound, Paths
from mainstay.snapshot.store_access import refuse_endpoint, remedy
from mainstay.snapshot.store_client import RETRIES, client_options
from mainstay.snapshot.store_urls import meant_scheme, refuse_torn

_REMOTE_SCHEMES = ("memory", "s3", "gs", "az")

# What obstore raises: its own tree, and the built-in errors that it uses beside it.
_FAILURES = (failures.BaseError, OSError, ValueError, NotImplementedError)

_CREATE_ATTEMPTS = 5

# Failures that come before anything is stored. After any other the file may be there.
_NOTHING_STORED = (
    failures.InvalidPathError,
    failures.PermissionDeniedError,
    failures.UnauthenticatedError,
    FileNotFoundError,
    ValueError,
)


_put = without_panics(obstore.put)
_get_range = without_panics(obstore.get_range)
_head = without_panics(obstore.head)
_delete = without_panics(obstore.delete)


@without_panics
def _read(store: ObjectStore, path: str, **how: Any) -> bytes:
    return bytes(obstore.get(store, path, **how).bytes())


@without_panics
def _list(store: ObjectStore, prefix: str) -> list[Any]:
    return [entry for page in obstore.list(store, prefix=prefix or None) for entry in page]


def open_existing(url_or_path: str) -> ListedStorage:
    """The storage at a place that is only looked at: a local folder is not made if absent."""
    refuse_login(url_or_path, SnapshotStorageError)
    refuse_torn(url_or_path, SnapshotStorageError)
    scheme, separator, _ = url_or_path.partition("://")
    if not separator or scheme == "file":
        path = _path_of_file_url(url_or_path) if separator else url_or_path
        if path and not os.path.lexists(os.path.expanduser(path)):
            raise SnapshotStorageError(
                f"there is no folder {url_or_path!r}. Name one that exists, or the URL of a store."
            )
    return open_storage(url_or_path)


def open_storage(url_or_path: str) -> ObjectStorage:
    """The storage at a local path (made if absent) or a file, memory, s3, gs or az URL."""
    refuse_login(url_or_path, SnapshotStorageError)
    refuse_torn(url_or_path, SnapshotStorageError)
    scheme, separator, _ = url_or_path.partition("://")
    if not separator:
        return _open_folder(url_or_path, url_or_path)
    if scheme == "file":
        return _open_folder(_path_of_file_url(url_or_path), url_or_path)
    if scheme not in _REMOTE_SCHEMES:
        raise SnapshotStorageError(
            f"cannot open the storage {url_or_path!r}: {scheme}:// is not supported. "
            "Give a local path or a file://, s3://, gs:// or az:// URL."
            f"{meant_scheme(scheme)}"
        )
    if scheme != "memory" and not urlsplit(url_or_path).netloc:
        raise SnapshotStorageError(
            f"cannot open the storage {url_or_path!r}: it names no bucket. "
            f"Write it as in {scheme}://bucket/folder."
        )
    refuse_endpoint(url_or_path)
    try:
        return ObjectStorage(_store(url_or_path, scheme), url_or_path)
    except _FAILURES as error:
        raise _cannot_open(url_or_path, error) from error


def _store(url: str, scheme: str) -> ObjectStore:
    if scheme == "memory":
        return from_url(url)
    options: Any = client_options(scheme)
    return from_url(url, client_options=options, retry_config=RETRIES)


class ObjectStorage:
    """The storage contract over one obstore store."""

    _may_be_ours = True
    """Whether a file that is already there may be this call's own, stored by an earlier try."""

    def __init__(self, store: ObjectStore, name: str) -> None:
        self._store = store
        self._name = name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r})"

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        try:
            return self._get(path, start, length)
        except FileNotFoundError as error:
            raise NotFound(self._message("read", path, error)) from error
        except _FAILURES as error:
            raise SnapshotStorageError(self._message("read", path, error)) from error

    def write(self, path: str, data: BytesLike) -> None:
        try:
            _put(self._store, path, memoryview(data).cast("B"), mode="overwrite")
        except _FAILURES as error:
            raise SnapshotStorageError(self._message("write", path, error)) from error

    def create(self, path: str, data: BytesLike) -> bool:
        view = memoryview(data).cast("B")
        for _ in range(_CREATE_ATTEMPTS):
            if self._try_to_create(path, view):
                return True
            found = self._found(path)
            if found is not None:
                return self._may_be_ours and found == bytes(view)
        raise OutcomeUnknownError(
            f"cannot create {path!r} in {self._name}: the store says that it is there, and then "
            "that it is not."
        )

    def _found(self, path: str) -> bytes | None:
        """What is stored where the store says that something is.

        A store may say so because another conditional request is under way (409 in S3), of which
        nothing need come; or because it lost its answer to us, and met our own file when the client
        asked again.
        """
        try:
            return self.read(path)
        except NotFound:
            return None
        except SnapshotStorageError as error:
            raise OutcomeUnknownError(str(error)) from error

    def _try_to_create(self, path: str, view: memoryview) -> bool:
        try:
            _put(self._store, path, view, mode="create", use_multipart=False)
        except failures.AlreadyExistsError:
            return False
        except (failures.NotSupportedError, NotImplementedError) as error:
            raise SnapshotStorageError(
                f"the storage {self._name} cannot create {path} only if it is absent, which the "
                f"commit log rests on. Use a local disk, S3, GCS or Azure."
            ) from error
        except _NOTHING_STORED as error:
            raise SnapshotStorageError(self._message("create", path, error)) from error
        except _FAILURES as error:
            raise OutcomeUnknownError(self._message("create", path, error)) from error
        return True

    def list(self, prefix: str) -> Paths:
        try:
            return sorted(entry["path"] for entry in _list(self._store, prefix))
        except _FAILURES as error:
            raise SnapshotStorageError(self._message("list", prefix, error)) from error

    def entries(self, prefix: str) -> tuple[StoredFile, ...]:
        try:
            found = [
                StoredFile(entry["path"], entry["size"], entry["last_modified"].timestamp())
                for entry in _list(self._store, prefix)
            ]
        except _FAILURES as error:
            raise SnapshotStorageError(self._message("list", prefix, error)) from error
        return tuple(sorted(found, key=lambda file: file.path))

    def delete(self, *paths: str) -> None:
        if not paths:
            return
        try:
            # Stores that can are asked once for many.
            _delete(self._store, list(paths))
        except FileNotFoundError:
            # What came behind an absent file may still be there.
            for path in paths if len(paths) > 1 else ():
                self.delete(path)
        except _FAILURES as error:
            raise SnapshotStorageError(self._message("delete", paths[0], error)) from error

    def _get(self, path: str, start: int, length: int | None) -> bytes:
        if start == 0 and length is None:
            return _read(self._store, path)
        if length == 0:
            _head(self._store, path)
            return b""
        try:
            return self._get_range(path, start, length)
        except failures.BaseError:
            # Stores refuse a range that begins at or past the end; the contract does not.
            if _head(self._store, path)["size"] <= start:
                return b""
            raise

    def _get_range(self, path: str, start: int, length: int | None) -> bytes:
        if length is not None:
            return bytes(_get_range(self._store, path, start=start, length=length))
        return _read(self._store, path, options={"range": {"offset": start}})

    def _message(self, verb: str, path: str, error: Exception) -> str:
        return f"cannot {verb} {path!r} in {self._name}: {_first_line(error)}"


class LocalStorage(ObjectStorage):
    """A folder of a local disk. Obstore makes writes atomic there; this makes them durable."""

    _may_be_ours = False

    def __init__(self, root: Path) -> None:
        super().__init__(LocalStore(root, mkdir=True), str(root))
        self._root = root

    def write(self, path: str, data: BytesLike) -> None:
        self._require_writable("write", path)
        super().write(path, data)
        try:
            self._sync(path)
        except OSError as error:
            raise SnapshotStorageError(self._message("write", path, error)) from error

    def create(self, path: str, data: BytesLike) -> bool:
        self._require_writable("create", path)
        created = super().create(path, data)
        try:
            # Also when another caller created it: nobody may build on a slot that a power cut
            # could still take away.
            self._sync(path)
        except OSError as error:
            raise OutcomeUnknownError(self._message("create", path, error)) from error
        return created

    def _require_writable(self, verb: str, path: str) -> None:
        if not os.access(self._root, os.W_OK | os.X_OK):
            raise SnapshotStorageError(
                f"cannot {verb} {path!r} in {self._name}: the folder is missing or this user may "
                f"not write to it. Grant write permission or choose another folder."
            )

    def _sync(self, path: str) -> None:
        """Flush a file and every folder between it and the root, any of which may be new."""
        if os.name != "posix":
            return  # Folders cannot be flushed there, and files only by their writer.
        file = self._root / path.lstrip("/")
        _flush(file)
        for folder in file.relative_to(self._root).parents:
            _flush(self._root / folder)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _open_folder(path: str, name: str) -> ObjectStorage:
    if not path:
        raise SnapshotStorageError(f"cannot open the storage {name!r}: it names no folder.")
    # Absolute, so that a later change of the working directory moves nothing.
    root = Path(os.path.abspath(os.path.expanduser(path)))
    try:
        if root.exists() and not root.is_dir():
            raise NotADirectoryError("it is a file")
        return LocalStorage(root)
    except _FAILURES as error:
        raise SnapshotStorageError(
            f"cannot open the storage {name!r}: {_first_line(error)}. Name a folder that this "
            "process may make and write."
        ) from error


def _path_of_file_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.netloc not in ("", "localhost"):
        raise SnapshotStorageError(
            f"cannot open the storage {url!r}: it names the host {parts.netloc!r}. "
            f"Write a local folder as file:///folder."
        )
    return unquote(parts.path)


def _cannot_open(name: str, error: Exception) -> SnapshotStorageError:
    return SnapshotStorageError(f"cannot open the storage {name!r}: {_first_line(error)}")


def _first_line(error: Exception) -> str:
    # Obstore appends a dump of its internals below the first line.
    line = masked(str(error).partition("\n")[0])
    return f"{line}{remedy(line)}"
