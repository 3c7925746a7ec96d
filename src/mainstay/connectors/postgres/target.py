"""The table that a sink of PostgreSQL writes to: found, or made, and seen to fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from mainstay.connectors.postgres.columns import Column, check_columns, columns_of
from mainstay.connectors.postgres.fence import Fence, define, text_of
from mainstay.connectors.postgres.session import Server, Session, problem_with_name
from mainstay.errors import SinkError


@dataclass(frozen=True, slots=True)
class Target:
    """A table of a server; ``sink`` is the class that writes to it, for messages."""

    server: Server
    table: tuple[str, ...]
    create: bool
    sink: str

    def __str__(self) -> str:
        return f"table {text_of(self.table)} in {self.server}"

    def check_names(self, schema: pa.Schema) -> None:
        """Refuse columns that the server cannot name, before a table is made without them."""
        for name in schema.names:
            if (problem := problem_with_name(name)) is not None:
                raise SinkError(f"{self}: there is no such column: {problem}. Rename it.")

    def fence(self, owner: str) -> Fence:
        return Fence.beside(self.table, self.server, owner)

    def columns(
        self, session: Session, schema: pa.Schema, definition: Callable[[], Any]
    ) -> dict[str, Column]:
        """The columns, which rows of the schema fit; ``definition`` makes an absent table."""
        columns = columns_of(session, self.table)
        if columns is None and self.create:
            define(session, self.table, definition())
            columns = columns_of(session, self.table)
        if columns is None:
            raise SinkError(
                f"there is no {self}. Create it, or have it created from the stream's schema with "
                f"{self.sink}(..., create=True)."
            )
        check_columns(schema, columns, str(self))
        return columns
