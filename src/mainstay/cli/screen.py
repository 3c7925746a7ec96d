"""Where commands print: results to stdout, everything else to stderr."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from rich.console import Console

from mainstay.drive.streams import is_terminal

WIDE = 160


def console() -> Console:
    """Where there is no terminal, tables are as wide as they need to be to be read."""
    is_free = not is_terminal(sys.stdout) and "COLUMNS" not in os.environ
    return Console(width=WIDE if is_free else None)


def print_json(found: Any) -> None:
    """For programs; not through rich, which would wrap and colour it."""
    print(json.dumps(found, indent=1), flush=True)
