"""The savepoint: a job's state at one epoch as Parquet files that stand by themselves.

::

    savepoint.json                            what there is; written last, in one act
    state/<uid>/<state>/part-00003.parquet    keyed state: key_group, key, [map_key,] value
    operator/<uid>/<state>.parquet            operator state: subtask, unit

A folder without ``savepoint.json`` is no savepoint. Every path in it is relative to it, so a
savepoint can be moved and copied. It knows no backend and no parallelism: a job of any of both is
restored from it. Open handles of sinks are not in it: it counts only when every sink has confirmed
its epoch, and what comes later belongs to the job that goes on.

``savepoint.json`` holds the job's name, the epoch, when it was taken, the number of key-groups, the
id of the key hash, the guarantee, what the coordinator knew of the sources, and for each operator
its parallelism, the number of its key-groups where it has one of its own, the type and the column
names of its key, and its states: kind, types as DDL
(``pickle`` where none was declared: such values are binary), how operator state is redistributed,
and the files, with size, checksum, rows and key-groups; and a checksum of all that
(``sealed``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from mainstay.errors import DamagedFileError, OutcomeUnknownError, RestoreError, SavepointError
from mainstay.snapshot.checked import reference
from mainstay.snapshot.layout import safe_name
from mainstay.snapshot.manifest import FileRef, StateSchema
from mainstay.snapshot.sealed import sealed, unsealed
from mainstay.snapshot.storage import NotFound, Storage

SAVEPOINT_FORMAT = 4
SEALED_FORMAT = 2
"""Since when the description carries a checksum of itself."""
NAMESPACES_FORMAT = 3
KEY_GROUPS_FORMAT = 4
"""Where some state has a namespace, where some operator has a number of key-groups of its own; all
others are written as format 2."""
SAVEPOINT_FILE = "savepoint.json"
UNFINISHED_FILE = "_unfinished"
"""There while a savepoint is being written, so that a target is known to be taken."""


@dataclass(frozen=True, slots=True)
class SavepointFile:
    """A Parquet file with rows of one state; for keyed state, of some key-groups."""

    file: FileRef
    rows: int
    first_group: int | None = None
    last_group: int | None = None


@dataclass(frozen=True, slots=True)
class SavepointState:
    """One state of an operator: what it was declared as, and where it is."""

    schema: StateSchema
    files: tuple[SavepointFile, ...] = ()


@dataclass(frozen=True, slots=True)
class SavepointOperator:
    """One operator; ``key_names`` are the columns of its key, empty where a function made it.

    ``max_parallelism`` is the number of its key-groups where that is not the job's.
    """

    uid: str
    parallelism: int
    key_type: str | None
    key_names: tuple[str, ...]
    states: tuple[SavepointState, ...]
    max_parallelism: int | None = None


@dataclass(frozen=True, slots=True)
class Savepoint:
    """A job's state at one epoch."""

    job: str
    epoch: int
    created_at: float
    mode: str
    max_parallelism: int
    hash_id: str
    operators: Mapping[str, SavepointOperator]
    sources: Mapping[str, Any]

    def to_bytes(self) -> bytes:
        operators = {uid: _encode_operator(operator) for uid, operator in self.operators.items()}
        document = {
            "format": self._format(),
            "job": self.job,
            "epoch": self.epoch,
            "created_at": self.created_at,
            "mode": self.mode,
            "max_parallelism": self.max_parallelism,
            "hash_id": self.hash_id,
            "operators": operators,
            "sources": dict(self.sources),
        }
        return json.dumps(sealed(document), sort_keys=True, indent=1).encode()

    def key_groups(self, uid: str) -> int:
        """How many key-groups the state of an operator is in."""
        own = self.operators[uid].max_parallelism
        return self.max_parallelism if own is None else own

    def _format(self) -> int:
        """The lowest that has what is needed, for older versions to read."""
        operators = self.operators.values()
        if any(operator.max_parallelism is not None for operator in operators):
            return KEY_GROUPS_FORMAT
        states = (state for operator in operators for state in operator.states)
        has_namespaces = any(state.schema.namespace is not None for state in states)
        return NAMESPACES_FORMAT if has_namespaces else SEALED_FORMAT

    @staticmethod
    def from_bytes(data: bytes) -> Savepoint:
        try:
            document = json.loads(data)
            found = document["format"]
            if isinstance(found, int) and 1 <= found <= SAVEPOINT_FORMAT:
                document = unsealed(document, is_required=found >= SEALED_FORMAT)
                del document["format"]
                operators = document.pop("operators").items()
                decoded = {uid: _decode_operator(uid, item) for uid, item in operators}
                return Savepoint(**document, operators=decoded)
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise DamagedFileError(
                f"{SAVEPOINT_FILE} is not the description of a savepoint ({error}). Bring its "
                "original content back, or restore another savepoint."
            ) from error
        raise RestoreError(
            f"{SAVEPOINT_FILE} has savepoint format {found}; this version of Mainstay reads "
            f"formats up to {SAVEPOINT_FORMAT}. Restore it with a version that wrote it or a newer "
            "one."
        )

    def files(self) -> Iterator[SavepointFile]:
        for operator in self.operators.values():
            for state in operator.states:
                yield from state.files


# ---------------------------------------------------------------- paths


def keyed_path(uid: str, state: str, part: int) -> str:
    """The path of a part of a keyed state."""
    return f"state/{safe_name(uid)}/{safe_name(state)}/part-{part:05d}.parquet"


def operator_path(uid: str, state: str) -> str:
    """The path of an operator state."""
    return f"operator/{safe_name(uid)}/{safe_name(state)}.parquet"


# ---------------------------------------------------------------- the folder as a whole


def reserve(target: Storage, path: str) -> None:
    """Begin a savepoint in an empty folder; ``path`` is its name, for the message."""
    if target.list(""):
        raise SavepointError(
            f"there is something at {path!r} already, and a savepoint needs a folder of its own. "
            "Choose another path, or delete what is there if it is an unfinished savepoint."
        )
    target.write(UNFINISHED_FILE, b"This savepoint is being written, or was given up.\n")


def publish(target: Storage, savepoint: Savepoint) -> FileRef:
    """Make a savepoint exist: everything that it names must be stored by now."""
    data = savepoint.to_bytes()
    if not _is_created(target, data):
        raise SavepointError(f"somebody else wrote a {SAVEPOINT_FILE} there. Choose another path.")
    target.delete(UNFINISHED_FILE)
    return reference(SAVEPOINT_FILE, data)


def _is_created(target: Storage, data: bytes) -> bool:
    """Whether the description there is this one."""
    try:
        return target.create(SAVEPOINT_FILE, data) or target.read(SAVEPOINT_FILE) == data
    except OutcomeUnknownError:
        try:
            return target.read(SAVEPOINT_FILE) == data
        except NotFound:
            # It is not, so what stands in the way says more than that.
            pass
        raise


def discard(target: Storage) -> None:
    """Delete an unfinished savepoint; never one that exists."""
    paths = target.list("")
    if SAVEPOINT_FILE not in paths:
        target.delete(*paths)


def is_savepoint(storage: Storage) -> bool:
    try:
        storage.read(SAVEPOINT_FILE, 0, 1)
    except NotFound:
        return False
    return True


def read_savepoint(storage: Storage, path: str) -> Savepoint:
    """The savepoint at a place; ``path`` is its name, for the message."""
    try:
        return Savepoint.from_bytes(storage.read(SAVEPOINT_FILE))
    except NotFound as error:
        was_begun = UNFINISHED_FILE in storage.list("")
        neither = f"it has no {SAVEPOINT_FILE}, and no epoch of a job either"
        why = "it was never finished" if was_begun else neither
        raise RestoreError(
            f"there is no savepoint at {path!r}: {why}. Name the folder that job.savepoint(...) or "
            "job.stop(...) returned; or if a job has just been started there, wait for its first "
            "epoch."
        ) from error


# ---------------------------------------------------------------- JSON


def _encode_operator(operator: SavepointOperator) -> dict[str, Any]:
    own = operator.max_parallelism
    return {
        **({} if own is None else {"max_parallelism": own}),
        "parallelism": operator.parallelism,
        "key_type": operator.key_type,
        "key_names": list(operator.key_names),
        "states": [
            {**_encode_schema(state.schema), "files": [_encode_file(item) for item in state.files]}
            for state in operator.states
        ],
    }


def _encode_schema(schema: StateSchema) -> dict[str, Any]:
    return {name: kept for name, kept in asdict(schema).items() if not schema.is_left_out(name)}


def _encode_file(item: SavepointFile) -> dict[str, Any]:
    document = {**asdict(item.file), "rows": item.rows}
    if item.first_group is not None:
        document["key_groups"] = [item.first_group, item.last_group]
    return document


def _decode_operator(uid: str, document: dict[str, Any]) -> SavepointOperator:
    return SavepointOperator(
        uid=uid,
        parallelism=document["parallelism"],
        key_type=document["key_type"],
        key_names=tuple(document["key_names"]),
        states=tuple(_decode_state(item) for item in document["states"]),
        max_parallelism=document.get("max_parallelism"),
    )


def _decode_state(document: dict[str, Any]) -> SavepointState:
    files = tuple(_decode_file(item) for item in document.pop("files"))
    return SavepointState(StateSchema(**document), files)


def _decode_file(document: dict[str, Any]) -> SavepointFile:
    rows = document.pop("rows")
    first, last = document.pop("key_groups", (None, None))
    return SavepointFile(FileRef(**document), rows, first, last)
