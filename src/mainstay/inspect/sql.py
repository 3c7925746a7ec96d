"""SQL over the states of a job at one epoch: DuckDB over Arrow, and nothing but that.

A state is the table ``operator.state``, quoted where the name of an operator is no plain word:
``select * from "order-totals".total``. The database is made for one statement. It reaches no file,
no network and no variable of the program, and takes one ``SELECT``.
"""

from __future__ import annotations

import atexit
import json
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa

from mainstay.errors import MainstayError, SqlError
from mainstay.inspect.columns import StateColumns
from mainstay.inspect.hidden import ALLOW
from mainstay.inspect.sql_keys import Keys, keys_of_statement

MEMORY = "1GB"
MOST_BYTES = 1 << 30
BATCH_ROWS = 2048
SECONDS = 60.0
END_S, LOOK_S = 2.0, 0.05
"""How long a program that ends waits for statements to stop, and how often it tells them so."""
_SETTINGS = {
    "enable_external_access": "false",
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "memory_limit": MEMORY,
}
LESS = "Ask for less, or read the state with Spark: mainstay.spark.read_state."


def run_sql(
    statement: str,
    known: Mapping[str, StateColumns],
    read: Callable[[str, Keys | None], pa.Table],
    *,
    seconds: float = SECONDS,
    hidden: Collection[str] = (),
    most: int | None = None,
) -> pa.Table:
    """The rows of a statement over states, of which it reads those that it names.

    ``read`` gives the rows of a state: of some keys, where the statement depends on no others.
    With ``most`` it ends as soon as there are more rows than that, and gives a few too many.
    """
    duckdb = _duckdb()
    try:
        with _UNDER_WAY.noted(duckdb.connect(":memory:", config=_SETTINGS)) as database:
            return _run(database, statement, known, read, seconds, most)
    except duckdb.CatalogException as error:
        raise SqlError(
            f"the statement cannot be run: {error}\nA state is the table operator.state; there are "
            f"{', '.join(sorted(known)) or 'none'}.{_silent(statement, hidden)}"
        ) from error
    except duckdb.Error as error:
        raise SqlError(f"the statement cannot be run: {error}") from error


def _run(
    database: Any,
    statement: str,
    known: Mapping[str, StateColumns],
    read: Callable[[str, Keys | None], pa.Table],
    seconds: float,
    most: int | None,
) -> pa.Table:
    _check_select(_duckdb(), statement)
    wanted = keys_of_statement(_parsed(database, statement), known)
    for number, name in enumerate(_mentioned(statement, known)):
        state = ".".join(name)
        _register(database, number, name, read(state, wanted.get(state)))
    database.execute("SET lock_configuration = true")
    return _within(database, seconds, lambda: _rows(database, statement, most))


def _duckdb() -> Any:
    try:
        import duckdb
    except ModuleNotFoundError:
        raise MainstayError(
            "SQL over states needs DuckDB, which is not installed. Install it with: "
            "pip install 'mainstay[sql]'"
        ) from None
    return duckdb


def _check_select(duckdb: Any, statement: str) -> None:
    found = duckdb.extract_statements(statement)
    if len(found) != 1 or found[0].type != duckdb.StatementType.SELECT:
        raise SqlError("states are read with one SELECT. Other statements are not run.")


def _parsed(database: Any, statement: str) -> dict[str, Any]:
    """The statement as DuckDB's parser has it; empty where it cannot be said."""
    asked = "SELECT json_serialize_sql(?::VARCHAR, skip_null := false, skip_empty := false)"
    try:
        ((text,),) = database.execute(asked, [statement]).fetchall()
        return dict(json.loads(text))
    except (_duckdb().Error, ValueError, TypeError):
        return {}  # it is run all the same, over whole states


def _mentioned(statement: str, known: Iterable[str]) -> list[tuple[str, str]]:
    """The states, by operator and name, that a statement may read: it has both words.

    More of them cost time, and nothing else.
    """
    text = statement.lower()
    names = ((operator, own) for operator, _, own in (each.rpartition(".") for each in known))
    return [each for each in names if all(word.lower() in text for word in each)]


def _silent(statement: str, hidden: Collection[str]) -> str:
    """What a statement may have asked for that is not answered."""
    names = [".".join(each) for each in _mentioned(statement, sorted(hidden))]
    return f" {', '.join(names)}: queryable=False. {ALLOW}." if names else ""


def _register(database: Any, number: int, name: tuple[str, str], rows: pa.Table) -> None:
    schema, view = (each.replace('"', '""') for each in name)
    database.register(f"state_{number}", rows)
    database.execute(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
    database.execute(f'CREATE VIEW "{schema}"."{view}" AS SELECT * FROM state_{number}')


class _UnderWay:
    """Statements that are being run. A program that ends stops them first: a thread that is inside
    the database when Python ends takes the whole process down."""

    def __init__(self) -> None:
        self._databases: list[Any] = []
        self._changed = threading.Condition()

    @contextmanager
    def noted(self, database: Any) -> Iterator[Any]:
        with self._changed:
            self._databases.append(database)
        try:
            yield database
        finally:
            database.close()
            with self._changed:
                self._databases.remove(database)
                self._changed.notify_all()

    def stop(self) -> None:
        until = time.monotonic() + END_S
        with self._changed:
            while self._databases and time.monotonic() < until:
                for database in self._databases:
                    with suppress(_duckdb().Error):  # it was closed just now
                        database.interrupt()
                self._changed.wait(LOOK_S)


_UNDER_WAY = _UnderWay()
atexit.register(_UNDER_WAY.stop)


def _rows(database: Any, statement: str, most: int | None) -> pa.Table:
    """What the statement gives, fetched bit by bit: the memory of the database has a bound of its
    own, which does not count what was fetched."""
    batches: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    reader = database.sql(statement).to_arrow_reader(BATCH_ROWS)
    try:
        for batch in reader:
            batches.append(batch)
            rows, size_bytes = rows + batch.num_rows, size_bytes + batch.nbytes
            if most is not None and rows > most:
                break
            if size_bytes > MOST_BYTES:
                raise SqlError(f"the rows of the statement take more than {MEMORY}. {LESS}")
        return pa.Table.from_batches(batches, reader.schema)
    finally:
        reader.close()


def _within(database: Any, seconds: float, run: Callable[[], pa.Table]) -> pa.Table:
    is_late = threading.Event()

    def stop() -> None:
        is_late.set()
        database.interrupt()

    timer = threading.Timer(seconds, stop)
    timer.start()
    try:
        return run()
    except (_duckdb().Error, OSError, pa.ArrowException) as error:
        if is_late.is_set():
            raise SqlError(f"the statement was stopped after {seconds:g} s. {LESS}") from None
        if isinstance(error, _duckdb().Error):
            raise
        # What goes wrong after the first rows comes through Arrow, without its type.
        raise SqlError(f"the statement cannot be run: {error}") from error
    finally:
        timer.cancel()
