"""Rows into a table of PostgreSQL by ``COPY``, and texts that its columns cannot hold.

Servers alter some texts without a word: ``varchar(n)`` and ``char(n)`` cut off spaces at the end,
``name`` everything beyond 63 bytes. Two keys could become one. So such a text is an error here,
like one with a character that the encoding of the database does not have. No retry heals it, and
the message names the column.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mainstay.connectors.postgres.columns import MODIFIER_BASE, Column, as_plain, to_csv
from mainstay.connectors.postgres.driver import driver
from mainstay.connectors.postgres.session import NAME_BYTES, RAW, Session
from mainstay.errors import SinkError

SHOWN = 60
"""So many characters of a text are shown in an error."""
_BYTES = re.compile(r"0x([0-9a-f]{2})")


def copy_rows(
    session: Session,
    statement: Any,
    batch: pa.RecordBatch,
    columns: Mapping[str, Column],
    where: str,
) -> None:
    """``COPY ... FROM STDIN`` the rows of a batch into columns that its types fit."""
    for name, values in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_string(values.type) and name in columns:
            _check_texts(values, columns[name], session.encoding, where)
    try:
        session.copy_in(statement, to_csv(batch))
    except SinkError as error:
        refused = _character_refused(error)
        name = None if refused is None else _column_with(refused, batch)
        if refused is None or name is None:
            raise
        raise _not_held(refused, name, session.encoding, where) from error


def _check_texts(values: pa.Array, column: Column, encoding: str, where: str) -> None:
    for is_altered, what in _alterations(values, column, encoding):
        if pc.any(is_altered).as_py():
            text = values.filter(is_altered)[0].as_py()
            shown = text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
            raise SinkError(
                f"{where}: column {column.name!r} is {column.shown_type}, and the text {shown!r} "
                f"{what}, which the server may cut off without a word. Shorten or strip such texts "
                "in the stream, or make the table's column text."
            )


def _alterations(values: pa.Array, column: Column, encoding: str) -> list[tuple[pa.Array, str]]:
    """Which of the texts a column does not keep as they are, and why."""
    found = []
    if column.type == "name":
        is_long = pc.greater(pc.binary_length(values), NAME_BYTES)
        found.append((is_long, f"has more than {NAME_BYTES} bytes"))
    if column.type in ("varchar", "bpchar") and column.modifier >= MODIFIER_BASE:
        most = column.modifier - MODIFIER_BASE
        # A database without an encoding takes bytes for characters.
        length = pc.binary_length if encoding == RAW else pc.utf8_length
        found.append((pc.greater(length(values), most), f"has more than {most} characters"))
    if column.type == "bpchar":
        found.append((pc.ends_with(values, " "), "ends with a space"))
    return found


# ---------------------------------------------------------------- encodings


def _character_refused(error: SinkError) -> str | None:
    """The character that the database has no place for, if that is what is wrong."""
    errors = driver().errors
    kinds = (errors.UntranslatableCharacter, errors.CharacterNotInRepertoire)
    if not isinstance(error.__cause__, kinds):
        return None
    said = str(error.__cause__).partition("\n")[0]
    # The server says the line, but not the column. It spells the bytes in every language.
    octets = bytes(int(octet, 16) for octet in _BYTES.findall(said))
    try:
        return octets.decode() or None
    except UnicodeDecodeError:
        return None


def _column_with(character: str, batch: pa.RecordBatch) -> str | None:
    names: list[str] = batch.schema.names
    for name, values in zip(names, batch.columns, strict=True):
        plain = as_plain(values, name)
        if pa.types.is_string(plain.type) and pc.any(pc.match_substring(plain, character)).as_py():
            return name
    return None


def _not_held(character: str, name: str, encoding: str, where: str) -> SinkError:
    if character == "\0":
        return SinkError(
            f"{where}: column {name!r} has a text with a zero byte, which no text in PostgreSQL "
            "can hold. Remove it in the stream, or write the column as binary into a bytea."
        )
    return SinkError(
        f"{where}: column {name!r} has a text with {character!r} (U+{ord(character):04X}), which a "
        f"database with the encoding {encoding} cannot hold. Replace it in the stream, or keep the "
        "table in a database with the encoding UTF8."
    )
