"""Runs a program in a process of its own, as its author does, and notes when what was seen."""

from __future__ import annotations

import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True)
class Seen:
    """What a program printed, and how long its author waited for the message."""

    output: str
    code: int
    seconds: float | None
    """Until the message stood there as a whole; None where it never did."""
    cpu_s: float
    """Of the process and its children, in all."""


def pattern_of(message: str) -> re.Pattern[str]:
    """A message as the table has it: ``…`` stands for anything, a line break for any space."""
    parts = [r"\s+".join(map(re.escape, part.split())) for part in message.split("…")]
    spaced = [
        (r"\s+" if part[:1].isspace() and regex else "")
        + regex
        + (r"\s+" if part[-1:].isspace() and regex else "")
        for part, regex in zip(message.split("…"), parts, strict=True)
    ]
    return re.compile(".*?".join(spaced), re.DOTALL)


def see(
    program: Path,
    message: str,
    *,
    environ: Mapping[str, str] | None = None,
    interrupt: str = "",
    ends: bool = True,
) -> Seen:
    """Run a program until it ends; or until the message was seen, where it would not end.

    ``interrupt`` is what it prints when it is to be interrupted as with Ctrl-C.
    """
    process = subprocess.Popen(
        [sys.executable, "-u", str(program)],
        cwd=program.parent,
        env={**os.environ, **(environ or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    reading = _Reading(process, pattern_of(message), interrupt, ends)
    try:
        reading.run()
    finally:
        process.kill() if process.returncode is None and not reading.usage else None
    return reading.seen()


class _Reading:
    def __init__(
        self, process: subprocess.Popen[bytes], wanted: re.Pattern[str], interrupt: str, ends: bool
    ) -> None:
        self._process = process
        self._wanted = wanted
        self._interrupt = interrupt
        self._ends = ends
        self._began = time.monotonic()
        self._output = b""
        self._seen_at: float | None = None
        self.usage: tuple[int, float] | None = None

    def run(self) -> None:
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while selector.select(self._began + PATIENCE_S - time.monotonic()):
                read = os.read(self._process.stdout.fileno(), 65536)
                if not read:
                    break
                self._take(read)
            else:
                raise AssertionError(f"nothing for {PATIENCE_S} s after: {self._output.decode()}")
        _, status, used = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        self.usage = self._process.returncode, used.ru_utime + used.ru_stime

    def _take(self, read: bytes) -> None:
        self._output += read
        output = self._output.decode(errors="replace")
        if self._seen_at is None and self._wanted.search(output):
            self._seen_at = time.monotonic()
            if not self._ends:
                self._process.send_signal(signal.SIGTERM)
        if self._interrupt and self._interrupt in output:
            self._interrupt = ""
            self._process.send_signal(signal.SIGINT)

    def seen(self) -> Seen:
        assert self.usage is not None
        code, cpu_s = self.usage
        seconds = None if self._seen_at is None else self._seen_at - self._began
        return Seen(self._output.decode(errors="replace"), code, seconds, cpu_s)
