"""SQL over the states of a job at one epoch: DuckDB over Arrow, and nothing but that.

A state is the table ``operator.state``, quoted where the name of an operator is no plain word:
``select * from "order-totals".total``. The database is made for one statement. It reaches no file,
no network and no variable of the program, and takes one ``SELECT``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable
from typing import Any

import pyarrow as pa

from mainstay.errors import MainstayError, SqlError

MEMORY = "1GB"
SECONDS = 60.0
_SETTINGS = {
    "enable_external_access": "false",
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "memory_limit": MEMORY,
}


def run_sql(
    statement: str,
    known: Collection[str],
    read: Callable[[str], pa.Table],
    *,
    seconds: float = SECONDS,
) -> pa.Table:
    """The rows of a statement over states, of which it reads those that it names."""
    duckdb = _duckdb()
    database = duckdb.connect(":memory:", config=_SETTINGS)
    try:
        _check_select(duckdb, statement)
        for number, name in enumerate(_mentioned(statement, known)):
            _register(database, number, name, read(".".join(name)))
        database.execute("SET lock_configuration = true")
        return _within(database, seconds, lambda: database.sql(statement).to_arrow_table())
    except duckdb.InterruptException:
        raise SqlError(
            f"the statement was stopped after {seconds:g} s. Ask for less, or read the state with "
            "Spark: mainstay.spark.read_state."
        ) from None
    except duckdb.CatalogException as error:
        raise SqlError(
            f"the statement cannot be run: {error}\nA state is the table operator.state; there are "
            f"{', '.join(sorted(known)) or 'none'}."
        ) from error
    except duckdb.Error as error:
        raise SqlError(f"the statement cannot be run: {error}") from error
    finally:
        database.close()


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


def _mentioned(statement: str, known: Iterable[str]) -> list[tuple[str, str]]:
    """The states, by operator and name, that a statement may read: it has both words.

    More of them cost time, and nothing else.
    """
    text = statement.lower()
    names = ((operator, own) for operator, _, own in (each.rpartition(".") for each in known))
    return [each for each in names if all(word.lower() in text for word in each)]


def _register(database: Any, number: int, name: tuple[str, str], rows: pa.Table) -> None:
    schema, view = (each.replace('"', '""') for each in name)
    database.register(f"state_{number}", rows)
    database.execute(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
    database.execute(f'CREATE VIEW "{schema}"."{view}" AS SELECT * FROM state_{number}')


def _within(database: Any, seconds: float, run: Callable[[], pa.Table]) -> pa.Table:
    timer = threading.Timer(seconds, database.interrupt)
    timer.start()
    try:
        return run()
    finally:
        timer.cancel()
