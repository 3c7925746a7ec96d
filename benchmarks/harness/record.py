"""Everything that a comparison came to, as a file from which its report can be drawn again."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.harness.machine import Machine
from benchmarks.harness.measurement import Outcome
from benchmarks.harness.schedule import Run
from benchmarks.harness.systems import Contender

FORMAT = 2
"""Version 1 had no machine, no loads, and said of no run what others took meanwhile."""
_READABLE = (1, FORMAT)


@dataclass(slots=True)
class Record:
    """Runs, and what has to be known to judge them."""

    seconds: float
    repeats: int
    versions: dict[str, str]
    """By environment; those that are ready."""
    missing: dict[str, str] = field(default_factory=dict)
    """By system: why it could not be measured."""
    machine: Machine | None = None
    measured_at: str = ""
    commit: str = ""
    load_before: float | None = None
    load_after: float | None = None
    runs: list[Run] = field(default_factory=list)

    def to_json(self) -> str:
        document = {
            "format": FORMAT,
            "measured_at": self.measured_at,
            "commit": self.commit,
            "machine": self.machine and self.machine.to_json(),
            "load": {"before": self.load_before, "after": self.load_after},
            "seconds": self.seconds,
            "repeats": self.repeats,
            "environments": self.versions,
            "missing": self.missing,
            "runs": [_row(run) for run in self.runs],
        }
        return json.dumps(document, indent=1) + "\n"


def read(text: str) -> Record:
    """The record behind a file of this version or of an older one."""
    document = json.loads(text)
    if document.get("format") not in _READABLE:
        raise SystemExit(
            f"the results have format {document.get('format')!r}, and {_READABLE} can be read; "
            "measure again, or draw them with the version that wrote them"
        )
    load = document.get("load", {})
    machine = document.get("machine")
    runs = [_run(row) for row in document["runs"]]
    return Record(
        document["seconds"],
        document.get("repeats") or 1 + max((run.round for run in runs), default=0),
        document["environments"],
        document.get("missing", {}),
        Machine(**machine) if machine else None,
        document.get("measured_at", ""),
        document.get("commit", ""),
        load.get("before"),
        load.get("after"),
        runs,
    )


def _row(run: Run) -> dict[str, Any]:
    """A run as it was, for whoever wants other statistics."""
    return {
        "workload": run.contender.workload,
        "system": run.contender.system,
        "setting": run.contender.setting,
        "round": run.round,
        **dataclasses.asdict(run.outcome),
    }


def _run(row: Mapping[str, Any]) -> Run:
    names = {one.name for one in dataclasses.fields(Outcome)}
    outcome = Outcome(**{name: value for name, value in row.items() if name in names})
    # How it was started is of no interest any more.
    contender = Contender(row["workload"], row["system"], row["setting"], "", ())
    return Run(contender, row["round"], outcome)
