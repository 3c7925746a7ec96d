"""Runs the program of this folder under a neighbour, and holds its results against a plain loop."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

from mainstay.connectors import read_committed

PROGRAM = Path(__file__).with_name("program.py")
ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0
DRIVES = ("embedded", "processes")
KEYS = ("a", "ı", "I", "i", "ß", "", "key with spaces", "naïve")
ODD_TIMES = (
    datetime(1970, 1, 1, tzinfo=timezone.utc),
    datetime(2011, 12, 30, 11, 30, tzinfo=timezone.utc),  # a day that Apia never had
    datetime(2026, 3, 29, 1, 30, tzinfo=timezone.utc),  # an hour that Berlin never had
    datetime(1, 1, 1, tzinfo=timezone.utc),
    datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=timezone.utc),
    datetime(1883, 11, 18, 17, 0, 0, 1, tzinfo=timezone.utc),
)


def rows(count: int = 200) -> list[dict[str, Any]]:
    """What the source has; the same every time."""
    return [
        {
            "k": KEYS[n % len(KEYS)],
            "n": n,
            "x": n / 7 - 3,
            "at": ODD_TIMES[n % len(ODD_TIMES)],
            "day": date(1900, 1, 1) + timedelta(days=n * 631),
            "price": Decimal(n * 1001) / 1000,
        }
        for n in range(count)
    ]


def line(row: Mapping[str, Any]) -> str:
    at = row["at"].strftime("%H:%M:%S.%f")
    return json.dumps(
        {
            **row,
            "at": f"{row['at'].date().isoformat()}T{at}Z",
            "day": row["day"].isoformat(),
            "price": str(row["price"]),
        }
    )


@dataclass
class NeighbourJob:
    """One job: where everything of it is, and what its results must be."""

    folder: Path
    drive: str = "embedded"
    state: str = "heap"
    format: str = "parquet"
    name: str = "counting"
    restore: str = "latest-or-new"
    count: int = 200
    ui: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    restart: dict[str, Any] = field(default_factory=dict)
    database: str | None = None
    snapshots: Path | None = None
    out: Path | None = None
    source: Path | None = None
    glob: str | None = None
    patience_s: float = PATIENCE_S
    given: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.snapshots = self.snapshots or self.folder / "snapshots"
        self.out = self.out or self.folder / "out"
        self.source = self.source or self.folder / "rows"

    def write_rows(self, first: int = 0, after: int | None = None, name: str = "rows") -> None:
        assert self.source is not None
        self.source.mkdir(parents=True, exist_ok=True)
        lines = [line(row) for row in rows(self.count)[first:after]]
        for number in range(2):
            text = "".join(f"{each}\n" for each in lines[number::2])
            (self.source / f"{name}-{number}.jsonl").write_text(text, encoding="utf-8")

    def settings(self) -> dict[str, Any]:
        return {
            "drive": self.drive,
            "state": self.state,
            "format": self.format,
            "name": self.name,
            "restore": self.restore,
            "ui": self.ui,
            "options": self.options,
            "restart": self.restart,
            "database": self.database,
            "snapshots": os.fspath(self.snapshots),
            "out": os.fspath(self.out),
            "rows": self.glob or os.fspath(self.source),
            "outcome": os.fspath(self.folder / "outcome"),
            "patience_s": self.patience_s,
            **self.given,
        }

    def start(
        self,
        *,
        environ: Mapping[str, str | None] | None = None,
        flags: tuple[str, ...] = (),
        before: Callable[[], None] | None = None,
        program: Path = PROGRAM,
        **streams: Any,
    ) -> subprocess.Popen[bytes]:
        self.folder.mkdir(parents=True, exist_ok=True)
        given = self.folder / "settings.json"
        given.write_text(json.dumps(self.settings()))
        (self.folder / "outcome").unlink(missing_ok=True)
        merged = {**os.environ, "PYTHONPATH": path(), **(environ or {})}
        return subprocess.Popen(
            [sys.executable, *flags, os.fspath(program), os.fspath(given)],
            env={name: value for name, value in merged.items() if value is not None},
            preexec_fn=before,
            cwd=self.folder,
            **{"stderr": (self.folder / "stderr").open("wb"), **streams},
        )

    def run(self, **how: Any) -> dict[str, Any]:
        """How the program ended, once it has."""
        process = self.start(**how)
        return self.outcome_of(process)

    def outcome_of(self, process: subprocess.Popen[bytes]) -> dict[str, Any]:
        try:
            process.wait(2 * self.patience_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"it did not end; it said: {self.said()}") from None
        try:
            found: dict[str, Any] = json.loads((self.folder / "outcome").read_bytes())
        except FileNotFoundError:
            raise AssertionError(f"it left no outcome; it said: {self.said()}") from None
        assert "unexpected" not in found, found["message"]
        return found

    def said(self) -> str:
        file = self.folder / "stderr"
        return file.read_text(errors="replace") if file.exists() else ""

    # ------------------------------------------------------------ what it came to

    def check(self, outcome: Mapping[str, Any]) -> None:
        """It finished, and every row is in the output once, with the right count and text."""
        assert outcome.get("status") == "finished", f"{outcome}\n{self.said()}"
        assert self.out is not None
        assert not self.wrong_rows(read_committed(self.out).to_pylist())

    def expected_rows(self) -> list[dict[str, Any]]:
        return rows(self.count)

    def results(self) -> list[dict[str, Any]]:
        """What has to be written, if rows come in their order."""
        counts: Counter[str] = Counter()
        found = []
        for row in self.expected_rows():
            counts[row["k"]] += 1
            found.append({**row, "count": counts[row["k"]], "longest": text_of(row)})
        return found

    def wrong_rows(self, found: list[dict[str, Any]]) -> list[Any]:
        """What is missing or too much; which row of a key has which count is free."""
        wrong: list[Any] = []
        for names in (("k", "count"), ("n", "k", "x", "at", "day", "price", "longest")):
            seen = Counter(tuple(row[name] for name in names) for row in found)
            right = Counter(tuple(row[name] for name in names) for row in self.results())
            wrong += [*(seen - right), *(right - seen)]
        return wrong


def text_of(row: Mapping[str, Any]) -> str:
    at = row["at"].replace(tzinfo=timezone.utc)
    return f"{at.isoformat()} {row['day'].isoformat()} {row['price']:.3f} {row['x']}"


def path() -> str:
    return os.pathsep.join([str(ROOT / "src"), str(ROOT)])
