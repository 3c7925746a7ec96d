"""What a backend is: the keyed state of one subtask, wherever it is kept.

A backend gives its states handles, and hands out what has changed since the last cut as a frozen
segment. Everything else around a snapshot (names of segments, their files, the chain, compaction)
is the same for all of them and stands in :mod:`mainstay.state.subtask`. A job says by
``BackendSettings`` which backend it wants; nothing above this folder names one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from mainstay.snapshot.manifest import SegmentRef
from mainstay.snapshot.since import NOTHING_YET, Since
from mainstay.snapshot.statefile import StateTable
from mainstay.snapshot.storage import Storage
from mainstay.state.info import StateInfo
from mainstay.state.keyed import KeyContext
from mainstay.state.keygroups import KeyGroupRange
from mainstay.state.looking import Look
from mainstay.state.values import ValueType

Frozen: TypeAlias = "dict[str, Any]"
"""The changes of each state since the last cut; empty where there are none."""
ReadSegment: TypeAlias = "Callable[[SegmentRef], Iterable[StateTable]]"
PathOf: TypeAlias = "Callable[[str], str]"
"""Where in the job's storage a file of this name lies, for the one who writes it."""
MOST_NAMED = 5
"""How many transactions in doubt are named."""


@dataclass(frozen=True, slots=True)
class Work:
    """Something to be done in the background; ``done`` and ``failed`` are called on the loop.

    ``run`` touches nothing that the loop changes or reads meanwhile.
    """

    run: Callable[[], Any]
    done: Callable[[Any], None]
    failed: Callable[[Exception], None]


@dataclass(frozen=True, slots=True)
class Looks:
    """How often keys were found in memory, were not, and were read one by one."""

    hits: int
    misses: int
    single_reads: int


@dataclass(frozen=True, slots=True)
class Doubts:
    """Transactions of an operator that wait for the end of an epoch, for long.

    ``ends`` says of each how somebody ends it who cannot wait.
    """

    epoch: int
    oldest_s: float
    ends: tuple[str, ...]

    @property
    def told(self) -> str:
        """What they do, what they wait for, and the remedy."""
        some = "; ".join(self.ends[:MOST_NAMED])
        more = f" and {len(self.ends) - MOST_NAMED} more" if len(self.ends) > MOST_NAMED else ""
        return (
            "they hold locks on their rows, and the server cannot vacuum what has died since. They "
            f"are settled when epoch {self.epoch} is complete or given up: see what else the job "
            "waits for, and whether a savepoint is being written. Who cannot wait ends them by "
            f"hand, and nothing is lost, because the changes are applied again: {some}{more}"
        )


@dataclass(frozen=True, slots=True)
class Base:
    """A wish for a base: one segment that stands for all that a backend has absorbed."""

    id: str
    storage: Storage
    path_of: PathOf
    stored: Callable[[SegmentRef], None]
    failed: Callable[[Exception], None]


@dataclass(frozen=True, slots=True)
class Restore:
    """What a backend starts from. ``read`` gives the rows of a segment as states declare them now.

    ``is_own`` says that the stored files are the job's own and of these key-groups, so that a
    backend may go on with them. ``is_converted`` says that ``read`` changes rows.
    """

    storage: Storage
    chain: Sequence[SegmentRef]
    read: ReadSegment
    is_own: bool
    is_converted: bool


@dataclass(frozen=True, slots=True)
class Place:
    """Whose state it is: the states, their key, the key-groups, and where it is kept."""

    states: Sequence[StateInfo]
    key: ValueType
    groups: KeyGroupRange
    max_parallelism: int
    context: KeyContext
    name: str
    """Tells subtasks and attempts apart, where backends keep files."""
    uid: str = ""
    lineage: str = ""
    attempt: int = 0
    """Whose state it is, where backends keep it in a place that outlives attempts."""
    since: Since = NOTHING_YET
    """The epoch of the job's own that the attempt starts from."""
    retain: int = 1
    """How many complete epochs may be asked for later."""


class KeyedBackend(Protocol):
    """The keyed state of one subtask of one operator. All but ``restore`` is called on the loop."""

    @property
    def handles(self) -> Mapping[str, Any]:
        """What a function sees of each state."""

    @property
    def expiring(self) -> Mapping[str, Any]:
        """The tables of states with a time to live, which are swept."""

    @property
    def is_remote(self) -> bool:
        """Whether reading may take so long that ``read_ahead`` is to be asked."""

    @property
    def has_own_bases(self) -> bool:
        """Whether a run of segments is replaced by nothing but a base of its own."""

    @property
    def holds_epochs(self) -> bool:
        """Whether epochs wait for its database, so that none is late while that is in trouble."""

    @property
    def trouble(self) -> Exception | None:
        """What keeps the backend from its work at the moment; None if nothing does."""

    def in_doubt(self, now: float) -> Doubts | None:
        """What a database holds in doubt for long; None if nothing, or if another subtask tells.

        It is asked again and again, and so hears what time it is.
        """

    @property
    def looks(self) -> Looks | None:
        """What was looked up so far, where state is remote."""

    def prefetch(self, keys: Sequence[Any]) -> None:
        """Rows of these keys are about to be processed."""

    def read_ahead(self, keys: Sequence[Any]) -> Work | None:
        """What is to be done in the background before rows of these keys are processed.

        None if nothing is. When it has failed, it is asked again.
        """

    def relieve(self) -> None:
        """Called between slices of rows: keep memory bounded, and pieces small."""

    # ------------------------------------------------------------ snapshots

    def freeze(self) -> Frozen:
        """Hand out what has changed and open an empty segment: O(1), whatever the state's size."""

    def frozen_as(self, segment: str) -> None:
        """What was frozen last is this segment of the chain."""

    def on_cut(self, epoch: int) -> None:
        """All that was frozen so far is part of this epoch, and of every later one."""

    def encode(self, frozen: Frozen) -> Iterator[list[StateTable]]:
        """Columns of a frozen segment, a slice at a time: an empty list after each, the tables
        last."""

    def leftovers(self, frozen: Frozen) -> list[Any]:
        """The parts of a frozen segment that take time to free, one per step."""

    def on_durable(self, segment: str, tables: list[StateTable]) -> None:
        """A segment is stored."""

    def has_voted(self, epoch: int) -> bool:
        """Whether the epoch may be acknowledged, once its segments are durable.

        Where it may not yet, that is work of ``next_work``.
        """

    def on_held(self, epoch: int) -> None:
        """The epoch is committed in the log, and somebody still reads an earlier one from outside.

        ``on_complete`` is told the earlier one, until nobody does.
        """

    def on_complete(self, epoch: int) -> None:
        """The epoch, and every one before it, is committed in the log.

        While somebody still reads the state of an earlier epoch from outside, it is that one.
        """

    def on_abort(self, epoch: int) -> None:
        """The epoch was given up; what it was to hold goes with the next one."""

    # ------------------------------------------------------------ maintenance

    @property
    def is_large(self) -> bool:
        """Whether the changes should be frozen before their epoch ends."""

    @property
    def is_full(self) -> bool:
        """Whether more changes would take more memory than there is for them."""

    @property
    def is_busy(self) -> bool:
        """Whether work of ``next_work`` is under way that a base cannot be asked for beside."""

    @property
    def not_absorbed(self) -> frozenset[str]:
        """Segments that a base would not hold yet."""

    def next_work(self) -> Work | None:
        """What is to be done in the background now, one thing at a time; None if nothing."""

    def begin_base(self, base: Base) -> bool:
        """Have ``next_work`` store a base; False where bases are merged from segments instead."""

    # ------------------------------------------------------------ restore and end

    def restore(self, start: Restore) -> list[StateTable]:
        """Read what is restored, in the background, before anything else is called.

        What is returned is handed to ``apply`` on the loop, table by table.
        """

    def base(self, id: str, storage: Storage, path_of: PathOf) -> SegmentRef | None:
        """Store all that was restored as one base, in the background; None if ``freeze`` does."""

    def apply(self, rows: StateTable) -> Iterator[None]:
        """Apply stored rows in order, a slice at a time, without making them changes again."""

    def mark_all_changed(self, applied: Sequence[StateTable] = ()) -> None:
        """Make the next segment stand for everything, so that it depends on no older file.

        ``applied`` is what all of it was applied from, in order, where that is known.
        """

    def entries(self, name: str) -> Iterator[tuple[Any, Any]]:
        """Every key of a state and what is kept for it, in no particular order.

        Where it has a namespace, every pair of a key and a namespace.
        """

    def peek(self, name: str, key: Any, namespace: Any = None) -> Any:
        """What ``get`` of a state's handle would give for a key; of a map, all entries as a dict.

        A namespace is named just for a state that has one.

        It leaves no trace: nothing is cached, changed or kept alive for longer by it.
        """

    def is_settled(self, epoch: int) -> bool:
        """Whether others find all of a complete epoch where they read it."""

    def look_at(self, name: str, keys: Sequence[Any]) -> Look:
        """What is kept for some keys just now, for a query. It leaves no trace.

        Of a state with a namespace keys are pairs.
        """

    def look_around(self, name: str, most: int) -> Look:
        """The same for as many keys as ``most``, in no particular order."""

    def end(self) -> None:
        """The job ends in good order: bring what is committed to where others read it."""

    def close(self) -> None:
        """Give back what is held, at whatever moment."""


class BackendSettings(Protocol):
    """Which backend a job uses, and how. It is shipped with the job."""

    def open(self, place: Place) -> KeyedBackend:
        """A new, empty backend."""
