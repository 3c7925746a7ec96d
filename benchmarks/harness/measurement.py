"""One run of one system, watched from outside: its answer, its peak memory, its CPU time.

A system runs in a session of its own, and whatever is in that session counts as the system: a JVM,
its Python workers, processes it has forked and forgotten. At the end nothing of it is left. What
the processors did beyond that was somebody else's work, and a run says how much of it there was.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
import psutil

from benchmarks.harness.machine import BUSY_SHARE, busy_s

SAMPLE_EVERY_S = 0.2
_FIELDS = {"system", "setting", "workload", "records", "seconds", "records_per_s"}
_ERROR = re.compile(r"^\S*(Error|Exception)\b.*:")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run gave: an answer, or a failure in words."""

    answer: dict[str, Any] | None
    failure: str
    peak_bytes: int
    cpu_s: float
    wall_s: float
    window_cpu_s: float | None = None
    """The CPU time of what the answer counts; None where it does not say when that was."""
    others_share: float | None = None
    """How much of the machine's processors others had meanwhile, from 0 to 1; None if unknown."""

    @property
    def is_disturbed(self) -> bool:
        return (self.others_share or 0.0) > BUSY_SHARE


@dataclass(slots=True)
class _Footprint:
    """The memory and CPU time of all processes of a session, sampled.

    Memory is the sum of resident sizes, so pages that processes share count once for each.
    """

    session: int
    peak_bytes: int = 0
    samples: list[tuple[float, float]] = field(default_factory=list)
    """(time, CPU seconds so far), to look up what a window of the run has cost."""
    _cpu_s: dict[tuple[int, float], float] = field(default_factory=dict)

    def members(self) -> list[psutil.Process]:
        found = []
        for pid in psutil.pids():
            try:
                if os.getsid(pid) == self.session:
                    found.append(psutil.Process(pid))
            except (ProcessLookupError, PermissionError, psutil.NoSuchProcess):
                continue  # it ended between the two questions, or is no child of ours
        return found

    def sample(self) -> None:
        total = 0
        for process in self.members():
            try:
                with process.oneshot():
                    total += process.memory_info().rss
                    times, key = process.cpu_times(), (process.pid, process.create_time())
            except psutil.NoSuchProcess:
                continue  # it ended while it was looked at
            self._cpu_s[key] = times.user + times.system
        self.peak_bytes = max(self.peak_bytes, total)
        self.samples.append((time.time(), self.cpu_s))

    @property
    def cpu_s(self) -> float:
        return sum(self._cpu_s.values())

    def between(self, began: float, ended: float) -> float:
        """The CPU seconds of a window, as if they passed evenly from sample to sample."""
        times, seconds = zip(*self.samples, strict=True)
        first, last = np.interp([began, ended], times, seconds)
        return float(last - first)

    def end(self) -> None:
        """Kill what is left, until nothing is."""
        while left := self.members():
            for process in left:
                try:
                    os.kill(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            psutil.wait_procs(left, timeout=1)


def measure(
    command: list[str], timeout_s: float, directory: Path, environ: Mapping[str, str] | None = None
) -> Outcome:
    """Run ``command`` in ``directory`` and wait for its answer, but no longer than the timeout."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        began, busy_before = time.monotonic(), busy_s()
        process = subprocess.Popen(
            command,
            cwd=directory,
            stdout=out,
            stderr=errors,
            start_new_session=True,
            env=None if environ is None else dict(environ),
        )
        footprint = _Footprint(process.pid)
        try:
            code = _watch(process, footprint, began + timeout_s)
        finally:
            # Reaping comes first: a zombie stays in its session until it is waited for.
            process.kill()
            process.wait()
            footprint.end()
        wall_s = time.monotonic() - began
        others_s = busy_s() - busy_before - footprint.cpu_s
        answer, failure = _judge(code, out, errors, timeout_s)
        return Outcome(
            answer,
            failure,
            footprint.peak_bytes,
            round(footprint.cpu_s, 2),
            wall_s,
            _window_cpu_s(answer, footprint),
            round(max(0.0, others_s) / (wall_s * (os.cpu_count() or 1)), 3),
        )


def _window_cpu_s(answer: dict[str, Any] | None, footprint: _Footprint) -> float | None:
    """What the counted records cost, where the answer says when that window began."""
    began = None if answer is None else answer.get("began_at")
    if answer is None or began is None:
        return None
    return round(footprint.between(began, began + answer["seconds"]), 3)


def _watch(process: subprocess.Popen[str], footprint: _Footprint, ends_at: float) -> int | None:
    """Sample until the process ends, and give its exit code, or None when time is up."""
    while True:
        footprint.sample()
        left_s = ends_at - time.monotonic()
        if left_s <= 0:
            return None
        try:
            return process.wait(min(SAMPLE_EVERY_S, left_s))
        except subprocess.TimeoutExpired:
            continue  # the usual case: it is still at work


def _judge(
    code: int | None, out: IO[str], errors: IO[str], timeout_s: float
) -> tuple[dict[str, Any] | None, str]:
    if code is None:
        return None, f"no answer within {timeout_s:g} s"
    if code:
        return None, f"exit code {code}: {_cause(errors) or _last_line(out) or 'no word of why'}"
    line = _last_line(out)
    try:
        answer = json.loads(line)
    except ValueError:
        return None, f"its last line is not an answer: {line[:200]!r}"
    if not isinstance(answer, dict) or not answer.keys() >= _FIELDS:
        return None, f"its answer lacks one of {', '.join(sorted(_FIELDS))}: {line[:200]!r}"
    return answer, ""


def _cause(errors: IO[str]) -> str:
    """The last error that is named, after which a JVM goes on with plans and stack frames.

    Without one, the last two lines: a child may have said why, and its parent only that it ended.
    """
    lines = _lines(errors)
    named = [line for line in lines if _ERROR.search(line)]
    return " / ".join(named[-1:] or lines[-2:])[:300]


def _last_line(stream: IO[str]) -> str:
    return (_lines(stream) or [""])[-1]


def _lines(stream: IO[str]) -> list[str]:
    stream.seek(0)
    return [line.strip() for line in stream.read().splitlines() if line.strip()]
