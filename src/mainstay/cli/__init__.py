"""The ``mainstay`` command: one file for each group of commands."""

from mainstay.cli.entry import main

__all__ = ["main"]
