"""What Spark says of a job that failed, as one line for people."""

from __future__ import annotations

import re

_NOISE = re.compile(
    r"^(An error occurred while calling .*|"
    r".*Could not recover from a failed barrier ResultStage.*|"
    r"(\.\.\.|at |Caused by: |Driver stacktrace).*)$"
)
_JAVA_CLASS = re.compile(r"^:?\s*([a-z_]\w*\.)+[A-Z][\w$]*:\s*")
_PYTHON_ERROR = re.compile(r"^([A-Za-z_][\w.]*(Error|Exception|Exit|Interrupt)\b.*)$")


def summary(text: str) -> str:
    """The line of a failed Spark job's error that says what happened."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    traceback = next((n for n, line in enumerate(lines) if "Traceback (most recent" in line), None)
    if traceback is not None:
        for line in lines[traceback + 1 :]:
            if not line.startswith((" ", "\t")) and _PYTHON_ERROR.match(line):
                return line
    telling = [line for line in lines if not _NOISE.match(line.strip())]
    return _JAVA_CLASS.sub("", telling[0]).strip().rstrip(":") if telling else "".join(lines[:1])
