"""Panics of libraries in Rust, as errors: as they come they are no ``Exception``, and pass by all
who handle one. Obstore panics, for one, where it can open no more files.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

Given = ParamSpec("Given")
Result = TypeVar("Result")

_MODULE = "pyo3_runtime"
"""Where panics are said to be from; the class itself cannot be imported."""


def without_panics(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """The function, with an ``OSError`` in the place of a panic."""

    def call(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        try:
            return function(*args, **kwargs)
        except Exception:
            raise
        except BaseException as error:
            if type(error).__module__ != _MODULE:
                raise
            reason, *_ = str(error).split("\n")
            raise OSError(
                f"the library broke off ({reason}). If files are meant, let "
                "the process open more: ulimit -n"
            ) from error

    return call
