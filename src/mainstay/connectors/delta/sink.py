"""A Delta table as a sink: an epoch is one transaction of the table, and happens once.

::

    stream.sink(DeltaSink("./totals", partition_by=["day"]), uid="out")

Subtasks write Parquet files into the table's folder (``writer``), which nobody reads before
the table's log names them. When an epoch is complete the driver names the files of all subtasks in
one transaction. It carries an *application transaction*, a name for the attempt that wrote them and
the epoch, which the table keeps: an epoch that is committed again is found there and left alone,
and of two drivers that commit the same one the table refuses the second. The name has a word of its
own, because a job that starts afresh in the same table counts epochs from one again.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from mainstay.connectors.bases.transactions import owner_of
from mainstay.connectors.delta.files import (
    Handle,
    check_fits,
    load_deltalake,
    open_table,
    open_table_storage,
)
from mainstay.connectors.delta.writer import DeltaWriter
from mainstay.connectors.files.hive_partitions import HivePartitions, columns_of
from mainstay.errors import GraphError, SinkError
from mainstay.masking import refuse_login
from mainstay.own_frames import made_with_own_frames
from mainstay.runtime.connector import Sink, SinkContext, SinkWriter
from mainstay.snapshot.storage import NotFound, Storage, absolute
from mainstay.snapshot.store_urls import refuse_torn


@made_with_own_frames
class DeltaSink(Sink):
    """Appends rows to a Delta table, which is made with the first epoch where there is none.

    ``uri`` is a local path or the URL of a store (s3, gs, az); ``storage_options`` are credentials
    and endpoints, as the deltalake package takes them. They are not part of snapshots.
    """

    is_global = True

    def __init__(
        self,
        uri: str | os.PathLike[str],
        *,
        mode: str = "append",
        partition_by: str | Sequence[str] = (),
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        load_deltalake()
        if mode != "append":
            raise GraphError(
                f"DeltaSink(mode={mode!r}): a stream has no end at which a table could be "
                'replaced, so the one mode is "append". Delete the table first if it is to go.'
            )
        text = os.fspath(uri)
        if not text:
            raise GraphError("DeltaSink(''): give the path or the URL of a table.")
        refuse_login(text, GraphError)
        refuse_torn(text, GraphError)
        self.uri = absolute(text)
        self.partition_by = columns_of(partition_by, "DeltaSink")
        self.storage_options = dict(storage_options or {})
        self.run = uuid.uuid4().hex[:12]

    def check_schema(self, schema: pa.Schema) -> None:
        HivePartitions(self.partition_by).check(schema)

    def open(self, context: SinkContext) -> SinkWriter:
        app_id = f"{owner_of(context.lineage, context.uid)}_{self.run}"
        return DeltaWriter(self.uri, self.storage_options, self.partition_by, app_id, context)

    def __getstate__(self) -> dict[str, Any]:
        """The copy that is sent to the workers of an attempt is a run of its own."""
        return {**self.__dict__, "run": uuid.uuid4().hex[:12]}

    def commit_epoch(self, epoch: int, handles: Sequence[bytes]) -> None:
        by_table: dict[str, list[Handle]] = {}
        for handle in map(Handle.from_bytes, handles):
            # The table is the handle's: the job may have been given another one since.
            by_table.setdefault(handle.uri, []).append(handle)
        for uri, group in by_table.items():
            self._commit(uri, group)

    def _commit(self, uri: str, handles: list[Handle]) -> None:
        table = open_table(uri, self.storage_options)
        new = [handle for handle in handles if not _is_committed(table, handle)]
        if not new:
            return
        storage = open_table_storage(uri, self.storage_options)
        for handle in new:
            _check_is_there(storage, handle, SinkError if table else FileNotFoundError)
            if table is not None:
                check_fits(table, uri, handle.schema, handle.partition_by)
        actions = [file.action() for handle in new for file in handle.files]
        if table is None:
            self._create(uri, new, actions)
        else:
            table.create_write_transaction(
                actions,
                "append",
                table.schema(),
                list(new[0].partition_by),
                commit_properties=_properties(new),
            )

    def _create(self, uri: str, handles: list[Handle], actions: list[Any]) -> None:
        """Make the table with its first rows. If somebody else is quicker, the next try appends."""
        delta = load_deltalake()
        delta.transaction.create_table_with_add_actions(
            uri,
            delta.Schema.from_arrow(handles[0].schema),
            actions,
            mode="error",
            partition_by=list(handles[0].partition_by),
            storage_options=self.storage_options or None,
            commit_properties=_properties(handles),
        )


def _is_committed(table: Any, handle: Handle) -> bool:
    version = None if table is None else table.transaction_version(handle.app_id)
    return version is not None and version >= handle.epoch


def _properties(handles: list[Handle]) -> Any:
    delta = load_deltalake()
    epochs: dict[str, int] = {}
    for handle in handles:
        epochs[handle.app_id] = max(handle.epoch, epochs.get(handle.app_id, 0))
    transactions = [delta.Transaction(app_id, epoch) for app_id, epoch in epochs.items()]
    return delta.CommitProperties(app_transactions=transactions)


def _check_is_there(storage: Storage, handle: Handle, problem: type[Exception]) -> None:
    """Without a table the whole disk may be missing, which is worth waiting for."""
    for file in handle.files:
        try:
            storage.read(file.path, 0, 4)
        except NotFound as error:
            raise problem(
                f"the file {file.path!r} of epoch {handle.epoch} is not in the table "
                f"{handle.uri!r}, so it cannot be committed. Driver and workers must see the same "
                "store, and nobody may remove files that are a few hours old (VACUUM)."
            ) from error
