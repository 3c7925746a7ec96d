"""The child that reads, from outside: it is started anew when it has crashed or hangs."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

PATIENCE_S = 60.0
POLICIES = ("fail", "skip", "side")


@dataclass(frozen=True)
class Outcome:
    """What came of reading: rows and bad records, or an error."""

    rows: list[str] = field(default_factory=list)
    bad: int = 0
    positions: list[str] = field(default_factory=list)
    of: list[int] = field(default_factory=list)
    error: str | None = None


class ReaderDiedError(AssertionError):
    """The interpreter crashed, hung, or raised what is no error of ours."""


class Child:
    """One process for many readings."""

    def __init__(
        self, module: str = "tests.fuzz.child", *arguments: str, patience_s: float = PATIENCE_S
    ) -> None:
        self._command = (module, *arguments)
        self._patience_s = patience_s
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.Queue[str] = queue.Queue()
        self.folder = tempfile.TemporaryDirectory()
        self._number = 0

    def close(self) -> None:
        self._end()
        self.folder.cleanup()

    def _end(self) -> str:
        """End the process; what it has written to its standard error."""
        if self._process is None:
            return ""
        self._process.kill()
        self._process.communicate()
        self._process = None
        with self._errors as errors:
            errors.seek(0)
            return errors.read()

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            self._answers = queue.Queue()
            self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
            self._process = subprocess.Popen(
                [sys.executable, "-X", "faulthandler", "-m", *self._command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                text=True,
            )
            output = self._process.stdout
            threading.Thread(target=self._listen, args=(output, self._answers), daemon=True).start()
        return self._process

    @staticmethod
    def _listen(output: IO[str], answers: queue.Queue[str]) -> None:
        for line in output:
            answers.put(line)
        answers.put("")

    def ask(self, **asked: Any) -> Outcome:
        process = self._started()
        assert process.stdin is not None
        process.stdin.write(json.dumps(asked) + "\n")
        process.stdin.flush()
        try:
            line = self._answers.get(timeout=self._patience_s)
        except queue.Empty:
            self._end()
            raise ReaderDiedError(f"no answer after {self._patience_s:.0f} s") from None
        if not line:
            raise ReaderDiedError(f"the reader died: {self._end()[-3000:]}")
        return Outcome(**json.loads(line))

    def write(self, data: bytes, name: str) -> str:
        """A file that no other reading has."""
        self._number += 1
        path = Path(self.folder.name) / f"{self._number}-{name}"
        path.write_bytes(data)
        return str(path)

    def read(
        self,
        path: str,
        schema: str,
        policy: str = "fail",
        batch_rows: int = 8192,
        max_rows: int = 1000,
        block_bytes: int = 1 << 22,
    ) -> Outcome:
        format = next(name for name in ("parquet", "csv", "json") if f".{name}" in path)
        return self.ask(
            path=path,
            schema=schema,
            format=format,
            policy=policy,
            batch_rows=batch_rows,
            max_rows=max_rows,
            block_bytes=block_bytes,
        )


def same(outcomes: list[Outcome]) -> Outcome:
    """What all of them say; the words of an error may differ."""
    told = [(each.rows, each.bad, each.error is None) for each in outcomes]
    assert all(each == told[0] for each in told), outcomes
    return outcomes[0]


def check_agreement(child: Child, data: bytes, name: str, schema: str) -> Outcome | None:
    """Every policy tells the same of a file, whatever the sizes of blocks, batches and polls.

    None if it is no good as a whole. Strict reading takes a file just if lenient reading finds no
    bad record in it.
    """
    path = child.write(data, name)
    strict = [child.read(path, schema, "fail", *sizes) for sizes in ((8192,), (1, 1), (3, 2, 64))]
    lenient = [
        child.read(path, schema, policy, *sizes)
        for policy, *sizes in (("side", 2, 3), ("skip", 8192), ("skip", 1, 1))
    ]
    for outcome in [*strict, *lenient]:
        assert outcome.error is None or path in outcome.error, outcome.error
    first, told = same(strict), same(lenient)
    if told.error is not None:
        assert first.error is not None, (first, told)
        return None
    assert (first.error is None) == (told.bad == 0), (first, told)
    assert first.error is not None or first.rows == told.rows
    assert len(told.positions) == told.bad
    assert all(position.startswith(f"{path}:") for position in told.positions)
    return told
