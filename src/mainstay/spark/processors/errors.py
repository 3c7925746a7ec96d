"""Errors as PySpark raises them: a ``PySparkRuntimeError`` that begins with the same words."""

from __future__ import annotations

from typing import Any, NoReturn

from pyspark.errors import PySparkRuntimeError


class UnfitValueError(PySparkRuntimeError):
    """A value does not fit the type that a state was declared with."""

    is_final = True
    """No restart heals it."""


def refuse(doing: str, why: Any) -> NoReturn:
    """Raise what Spark would raise where something could not be done."""
    raise PySparkRuntimeError(f"Error {doing}: {why}") from None


def refuse_value(doing: str, why: Any) -> NoReturn:
    """The same for a value that does not fit."""
    raise UnfitValueError(f"Error {doing}: {why}") from None
