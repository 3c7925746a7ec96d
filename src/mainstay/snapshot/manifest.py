"""The manifest: everything an epoch needs to be restored, as one small JSON document.

A manifest counts only once a slot of the commit log names it (see ``commitlog``).

Words: a *segment* is the changes of one epoch in one subtask of one operator; a *base* stands
for everything before it; a *chain* is the ordered list of segments that makes up a subtask's
keyed state; a *unit* is one element of operator state, the smallest thing a rescale can move.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from mainstay.errors import RestoreError

MANIFEST_FORMAT = 8
CHECKPOINTS_FORMAT = 2
TTL_FORMAT = 3
UNITS_FORMAT = 4
SEGMENTS_FORMAT = 5
NAMESPACES_FORMAT = 6
KEY_GROUPS_FORMAT = 7
SHARED_FORMAT = 8
"""Where a segment has parts, where a state has a time to live, where units are in a file of their
own or name files, where a segment says its format, where a state has a namespace, where an operator
has a number of key-groups of its own, where files are shared. What needs nothing newer is written
as format 1."""

STATE_FILE = "state"
PARQUET = "parquet"
CHECKPOINT = "checkpoint"
EXTERNAL = "external"
"""Formats of segments: a state file, a file of a savepoint, a checkpoint of a local database, what
an external database holds."""
PARQUET_SUFFIX = ".parquet"


@dataclass(frozen=True, slots=True)
class FileRef:
    """A stored file, with what is needed to notice that it is damaged.

    ``start`` says where it begins in a file that several share (``shared.py``), and is 0 in one of
    its own.
    """

    path: str
    size_bytes: int
    checksum: str
    start: int = 0

    @property
    def is_shared(self) -> bool:
        return self.start > 0

    @property
    def name(self) -> str:
        """Tells it from all others, also from those it shares a file with."""
        return f"{self.path} at {self.start}" if self.start else self.path


@dataclass(frozen=True, slots=True)
class SegmentRef:
    """A segment (or base) file and the key-groups of it that may be applied.

    ``format`` says how its files are read. A base may be a backend's own: then ``file`` describes
    it and ``parts`` are its further files.
    """

    id: str
    file: FileRef
    first_group: int
    last_group: int
    rows: int
    is_base: bool = False
    parts: tuple[FileRef, ...] = ()
    format: str = ""
    """Empty where it follows from the files, as in all manifests of older versions."""

    def __post_init__(self) -> None:
        if not self.format:
            object.__setattr__(self, "format", self._format_of_files)

    @property
    def _format_of_files(self) -> str:
        if self.parts:
            return CHECKPOINT
        return PARQUET if self.file.path.endswith(PARQUET_SUFFIX) else STATE_FILE

    @property
    def says_format(self) -> bool:
        """Whether the format does not follow from the files, and is stored."""
        return self.format != self._format_of_files

    @property
    def is_backends_own(self) -> bool:
        """Whether only the backend that wrote it knows its files; it is merged with no others."""
        return self.format not in (STATE_FILE, PARQUET)

    @property
    def size_bytes(self) -> int:
        return self.file.size_bytes + sum(part.size_bytes for part in self.parts)

    def files(self) -> tuple[FileRef, ...]:
        """Every file that is needed to read it."""
        return (self.file, *self.parts)

    def clipped(self, first_group: int, last_group: int) -> SegmentRef | None:
        """The part of this segment inside the given key-groups, or None when there is none."""
        first, last = max(self.first_group, first_group), min(self.last_group, last_group)
        if first > last:
            return None
        return replace(self, first_group=first, last_group=last)


@dataclass(frozen=True, slots=True)
class StateSchema:
    """What a state was declared as: its kind and its types as DDL (``pickle`` where undeclared).

    With a time to live its elements are stored with a stamp each, with a namespace its rows have a
    column more.
    """

    name: str
    kind: str
    value_type: str
    map_key_type: str | None = None
    redistribute: str | None = None
    ttl_us: int | None = None
    namespace: str | None = None

    def is_left_out(self, name: str) -> bool:
        """Whether an older version would not know the field, and nothing is in it."""
        return name == "namespace" and self.namespace is None


@dataclass(frozen=True, slots=True)
class OperatorUnits:
    """The units of one operator state of one subtask: an Arrow IPC stream with one column.

    Many of them are in a file of their own, and not in the manifest; ``data`` is empty then until
    somebody has read it (``units.py``). ``own`` is for a restore, and never stored: which of them
    are the subtask's own, as the first and how many, where it is shown those of others, too.
    """

    mode: str
    count: int
    data: bytes
    file: FileRef | None = None
    own: tuple[int, int] | None = None

    @property
    def size_bytes(self) -> int:
        return len(self.data) if self.file is None else self.file.size_bytes


@dataclass(frozen=True, slots=True)
class SubtaskState:
    """What one subtask of one operator contributed to an epoch.

    ``kept`` are files that its units name, and that are needed as long as they are.
    """

    subtask: int
    chain: tuple[SegmentRef, ...] = ()
    units: Mapping[str, OperatorUnits] = field(default_factory=dict)
    kept: tuple[FileRef, ...] = ()

    def files(self) -> Iterator[FileRef]:
        """Every file that it needs."""
        for segment in self.chain:
            yield from segment.files()
        for units in self.units.values():
            if units.file is not None:
                yield units.file
        yield from self.kept


@dataclass(frozen=True, slots=True)
class OperatorState:
    """What all subtasks of one operator contributed, in the order of their numbers.

    ``key_names`` are the columns of its key, to show its state as a table; empty where a
    function made the key, and in manifests of older versions. ``max_parallelism`` is the number of
    its key-groups where that is not the job's.
    """

    uid: str
    parallelism: int
    key_type: str | None
    states: tuple[StateSchema, ...]
    subtasks: tuple[SubtaskState, ...]
    key_names: tuple[str, ...] = ()
    max_parallelism: int | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """One complete epoch of one job."""

    job: str
    lineage: str
    epoch: int
    attempt: int
    mode: str
    max_parallelism: int
    hash_id: str
    created_at: float
    operators: Mapping[str, OperatorState]
    sources: Mapping[str, Any]

    def key_groups(self, uid: str) -> int:
        """How many key-groups the state of an operator is in."""
        own = self.operators[uid].max_parallelism
        return self.max_parallelism if own is None else own

    def files(self) -> Iterator[FileRef]:
        """Every file this manifest reaches."""
        for operator in self.operators.values():
            for subtask in operator.subtasks:
                yield from subtask.files()

    def to_bytes(self) -> bytes:
        document = {"format": self._format(), **_encode(self)}
        # Indentation would take five times as long.
        return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()

    def _format(self) -> int:
        """The lowest that has what is needed, for older versions to read."""
        segments = [s for o in self.operators.values() for t in o.subtasks for s in t.chain]
        states = [state for operator in self.operators.values() for state in operator.states]
        tasks = [task for operator in self.operators.values() for task in operator.subtasks]
        units = (units for task in tasks for units in task.units.values())
        if any(segment.file.is_shared for segment in segments):
            return SHARED_FORMAT
        if any(operator.max_parallelism is not None for operator in self.operators.values()):
            return KEY_GROUPS_FORMAT
        if any(state.namespace is not None for state in states):
            return NAMESPACES_FORMAT
        if any(segment.says_format for segment in segments):
            return SEGMENTS_FORMAT
        if any(task.kept for task in tasks) or any(each.file is not None for each in units):
            return UNITS_FORMAT
        if any(state.ttl_us is not None for state in states):
            return TTL_FORMAT
        return CHECKPOINTS_FORMAT if any(segment.parts for segment in segments) else 1

    @staticmethod
    def from_bytes(data: bytes, name: str = "manifest") -> Manifest:
        try:
            document = json.loads(data)
            found = document.pop("format")
            if found in range(1, MANIFEST_FORMAT + 1):
                return _decode_manifest(document)
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise RestoreError(f"{name} is not a Mainstay manifest: {error}") from error
        raise RestoreError(
            f"{name} has manifest format {found}; this version of Mainstay reads formats up "
            f"to {MANIFEST_FORMAT}. Restore it with a version that wrote it or a newer one."
        )


_PLAIN = frozenset({str, int, float, bool, type(None)})


def _encode(value: Any) -> Any:
    if type(value) in _PLAIN:  # most values of a manifest are
        return value
    if type(value) is FileRef:  # of which there may be thousands in a subtask
        return _encoded_file(value)
    if isinstance(value, OperatorUnits) and value.file is not None:
        value = replace(value, data=b"")
    if hasattr(value, "__dataclass_fields__"):
        names = [name for name in value.__dataclass_fields__ if not _is_left_out(value, name)]
        return {name: _encode(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {name: _encode(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [_encode(item) for item in value]
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    return value


def _encoded_file(file: FileRef) -> dict[str, str | int]:
    found: dict[str, str | int] = {
        "path": file.path,
        "size_bytes": file.size_bytes,
        "checksum": file.checksum,
    }
    if file.start:
        found["start"] = file.start
    return found


def _is_left_out(value: Any, name: str) -> bool:
    """Whether an older version would not know the field, and nothing is in it."""
    if isinstance(value, SegmentRef):
        return (name == "parts" and not value.parts) or (name == "format" and not value.says_format)
    if isinstance(value, SubtaskState):
        return name == "kept" and not value.kept
    if isinstance(value, OperatorUnits):
        return name == "own" or (name == "file" and value.file is None)
    if isinstance(value, OperatorState):
        return name in ("key_names", "max_parallelism") and not getattr(value, name)
    if isinstance(value, StateSchema):
        return value.is_left_out(name) or (name == "ttl_us" and value.ttl_us is None)
    return False


def _decode_manifest(document: dict[str, Any]) -> Manifest:
    operators = {uid: _decode_operator(item) for uid, item in document.pop("operators").items()}
    return Manifest(**document, operators=operators)


def _decode_operator(document: dict[str, Any]) -> OperatorState:
    return OperatorState(
        uid=document["uid"],
        parallelism=document["parallelism"],
        key_type=document["key_type"],
        states=tuple(StateSchema(**item) for item in document["states"]),
        subtasks=tuple(_decode_subtask(item) for item in document["subtasks"]),
        key_names=tuple(document.get("key_names", ())),
        max_parallelism=document.get("max_parallelism"),
    )


def _decode_subtask(document: dict[str, Any]) -> SubtaskState:
    return SubtaskState(
        subtask=document["subtask"],
        chain=tuple(_decode_segment(item) for item in document["chain"]),
        units={name: _decode_units(item) for name, item in document["units"].items()},
        kept=tuple(FileRef(**item) for item in document.get("kept", ())),
    )


def _decode_segment(document: dict[str, Any]) -> SegmentRef:
    parts = tuple(FileRef(**item) for item in document.get("parts", ()))
    return SegmentRef(**{**document, "file": FileRef(**document["file"]), "parts": parts})


def _decode_units(document: dict[str, Any]) -> OperatorUnits:
    data = base64.b64decode(document["data"]["base64"])
    file = FileRef(**document["file"]) if "file" in document else None
    return OperatorUnits(document["mode"], document["count"], data, file)
