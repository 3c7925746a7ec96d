"""What programs of this machine answer, such as ``java -version``."""

from __future__ import annotations

import subprocess

from mainstay.errors import SparkSetupError

_ASK_S = 30.0


def asked(command: list[str]) -> str:
    """All that a command prints; one that cannot be run is an error that names it."""
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=_ASK_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SparkSetupError(f"{command[0]} cannot be run: {error}") from error
    return answer.stdout + answer.stderr
