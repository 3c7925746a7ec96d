"""The entry point: gathers the commands, and says errors in a line."""

from __future__ import annotations

import sys
from typing import Any

from mainstay.errors import MainstayError

MISSING = (
    "the mainstay command needs {name}, which is not installed. Install it with: "
    "pip install 'mainstay[cli]'"
)
NEEDED = ("typer", "rich", "platformdirs")


def main() -> None:
    """The entry point."""
    try:
        app = _app()
    except ModuleNotFoundError as error:
        if error.name not in NEEDED:
            raise
        sys.exit(MISSING.format(name=error.name))
    try:
        app(prog_name="mainstay")
    except MainstayError as error:
        # What is wrong and what to do is in the message; where it was found helps nobody here.
        sys.exit(f"mainstay: {error}")


def _app() -> Any:
    """The commands. What they are made of is an extra, so it is imported here and not above."""
    from mainstay.cli.app import app

    return app()
