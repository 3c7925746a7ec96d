"""Asking the state of a job by its snapshots: it need not run, and is not disturbed."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from mainstay.errors import BehindError, EpochGoneError, GraphError, QueryError, RestoreError
from mainstay.inspect.answers import Answer, Moment, in_utc
from mainstay.inspect.columns import StateColumns
from mainstay.inspect.connection import COMMITTED, PATIENCE_S, Connection, is_live
from mainstay.inspect.hidden import refuse_hidden
from mainstay.inspect.key_values import ALL_KEYS, check_limit, distinct, listed, wanted_keys
from mainstay.inspect.lookup import look_up
from mainstay.inspect.open_files import OpenFiles
from mainstay.inspect.positions import After, covers, positions_of
from mainstay.inspect.reading import LATEST, Origin, StateView, epoch_number
from mainstay.inspect.sql import SECONDS, run_sql
from mainstay.inspect.sql_keys import Keys
from mainstay.runtime.coordinator.origin import place_of
from mainstay.snapshot.commitlog import read_history
from mainstay.snapshot.object_storage import open_existing
from mainstay.snapshot.savepoint import is_savepoint
from mainstay.snapshot.savepoint_files import GROUP_COLUMN
from mainstay.snapshot.storage import shared
from mainstay.spelling import did_you_mean

EPOCHS = 8
TRIES = 5
"""How often an epoch may be deleted while it is read."""
LOOK_S = 0.02
"""How often an epoch that is waited for is looked for."""

Found = TypeVar("Found")


class StoredConnection(Connection):
    """The complete epochs of a job, in its snapshot directory or a savepoint."""

    def __init__(
        self, path: str | os.PathLike[str], *, hidden: Collection[str] = frozenset()
    ) -> None:
        """``hidden`` are states that are not told about, for a job that asks its own snapshots."""
        self._path = os.fspath(path)
        self._hidden = hidden
        place, self._marked = place_of(self._path)
        self.place = shared(place)
        self._storage = open_existing(self.place)
        self._is_savepoint = is_savepoint(self._storage)
        self._origins: OrderedDict[int | None, Origin] = OrderedDict()
        self._files = OpenFiles(self._storage)
        self._lock = threading.Lock()

    def query_states(
        self,
        states: Sequence[str],
        *,
        key: Any = ALL_KEYS,
        keys: Iterable[Any] | None = None,
        limit: int | None = None,
        at: str = COMMITTED,
        epoch: int | str = LATEST,
        after: After | None = None,
        timeout: float | None = None,
    ) -> dict[str, Answer]:
        if is_live(at, epoch, after):
            raise QueryError(
                f"{self._path!r} has what is committed, and live state is asked of the job itself. "
                "Connect to its address, as job.url shows it, or ask with at='committed'."
            )
        for each in states:
            refuse_hidden(each, self._hidden)
        wanted = listed(keys)
        began = time.monotonic()

        def read() -> tuple[Origin, dict[str, tuple[StateColumns, pa.Table]]]:
            number = epoch
            if after is not None:
                number = self._await(after, epoch, PATIENCE_S if timeout is None else timeout)
            origin = self._origin(number)
            return origin, {each: self._table(origin, each, key, wanted, limit) for each in states}

        origin, tables = _while_epochs_go(epoch, read)
        took_s = time.monotonic() - began
        manifest = origin.manifest
        moment = Moment(
            manifest.job,
            manifest.epoch,
            manifest.attempt,
            in_utc(manifest.created_at),
            positions_of(manifest),
        )
        age_s = max(0.0, time.time() - manifest.created_at)
        return {
            name: Answer(columns, table, moment, age_s, took_s)
            for name, (columns, table) in tables.items()
        }

    def _table(
        self, origin: Origin, state: str, key: Any, keys: Iterable[Any] | None, limit: int | None
    ) -> tuple[StateColumns, pa.Table]:
        view = named(origin, state)
        if key is ALL_KEYS and keys is None:
            return view.columns, _scanned(view, self._files, limit)
        wanted = wanted_keys(view.columns, key, keys, limit)
        return view.columns, look_up(view, self._files, wanted)

    def sql(
        self,
        statement: str,
        *,
        epoch: int | str = LATEST,
        timeout: float = SECONDS,
        most: int | None = None,
    ) -> pa.Table:
        """With ``most`` no more is fetched once there are more rows than that."""

        def read() -> pa.Table:
            origin = self._origin(epoch)
            known = {k: v for k, v in origin.states().items() if k not in self._hidden}
            read = partial(self._read, origin)
            bounds: dict[str, Any] = {"seconds": timeout, "most": most}
            return run_sql(statement, known, read, hidden=self._hidden, **bounds)

        return _while_epochs_go(epoch, read)

    def _read(self, origin: Origin, state: str, keys: Keys | None) -> pa.Table:
        """A state, or what it holds for some keys."""
        view = named(origin, state)
        if keys is None:
            return _scanned(view, self._files, None)
        return look_up(view, self._files, distinct(view.columns, keys))

    def states(self, epoch: int | str = LATEST) -> dict[str, StateColumns]:
        found = self._origin(epoch).states()
        return {name: columns for name, columns in found.items() if name not in self._hidden}

    def _await(self, after: After, epoch: int | str, timeout: float) -> int:
        """The latest epoch, once it covers what was asked for."""
        if epoch != LATEST or self._is_savepoint or self._marked is not None:
            raise GraphError("after= waits for the latest epoch of a job. Leave the epoch out.")
        until = time.monotonic() + timeout
        while True:
            number = self._number(LATEST)
            origin = None if number is None else self._origin(number)
            if origin is not None and covers(origin.manifest, after):
                return origin.manifest.epoch
            if time.monotonic() >= until:
                where = "there is none" if origin is None else f"the latest is {_where(origin)}"
                raise BehindError(
                    f"no epoch at {self._path!r} has come up to {after!r} within {timeout:g} s: "
                    f"{where}. Ask with a longer timeout, or see whether the job runs."
                )
            # Epochs are files that another process writes: there is nothing to be woken by.
            time.sleep(LOOK_S)

    def _origin(self, epoch: int | str) -> Origin:
        """The manifest of an epoch never changes; which is the latest is asked each time."""
        number = self._number(epoch)
        with self._lock:
            found = self._origins.get(number)
            if found is not None:
                self._origins.move_to_end(number)
                return found
        found = Origin.open(self._path, LATEST if number is None else number)
        with self._lock:
            self._origins[number] = found
            while len(self._origins) > EPOCHS:
                self._origins.popitem(last=False)
        return found

    def _number(self, epoch: int | str) -> int | None:
        number = epoch_number(epoch, self._marked)
        if number is not None or self._is_savepoint:
            return number
        latest = read_history(self._storage).latest_epoch
        return None if latest is None else latest.epoch


def _while_epochs_go(epoch: int | str, read: Callable[[], Found]) -> Found:
    """Read the latest epoch. The job goes on meanwhile and may delete one that is being read: then
    there is a later one."""
    for _ in range(TRIES):
        try:
            return read()
        except EpochGoneError:
            if epoch != LATEST:
                raise
    return read()


def _where(origin: Origin) -> str:
    return f"epoch {origin.manifest.epoch} at {positions_of(origin.manifest)!r}"


def named(origin: Origin, state: str) -> StateView:
    """The view of a state that is named ``operator.state``."""
    uid, dot, name = state.rpartition(".") if isinstance(state, str) else ("", "", "")
    known = sorted(origin.states())
    if f"{uid}.{name}" not in known or not dot:
        raise RestoreError(
            f"there is no state {state!r} at {origin.name!r}. Name it by operator and state; there "
            f"are {', '.join(known) or 'none'}.{did_you_mean(str(state), known)}"
        )
    return origin.view(uid, name)


def _scanned(view: StateView, files: OpenFiles, limit: int | None) -> pa.Table:
    check_limit(limit)
    tables, rows = [pa.schema(view.columns.fields()).empty_table()], 0
    if limit is None:
        return pa.concat_tables([*tables, *(part.read(files) for part in view.slices())])
    for part in view.growing_slices():
        if rows >= limit:
            break
        # The first rows are those of the same key-groups at every epoch, so that two compare.
        tables.append(_by_group(part.read(files)))
        rows += tables[-1].num_rows
    return pa.concat_tables(tables).slice(0, limit)


def _by_group(rows: pa.Table) -> pa.Table:
    if GROUP_COLUMN not in rows.column_names:
        return rows
    order = np.argsort(rows.column(GROUP_COLUMN).to_numpy(), kind="stable")
    return rows.take(pa.array(order))
