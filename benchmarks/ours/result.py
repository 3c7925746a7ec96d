"""What a measurement came to, as the one line of JSON that the harness reads."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from benchmarks.report import Table
from mainstay.bench.measuring import Measurement


@dataclass(frozen=True, slots=True)
class Result:
    """One workload in one setting. Workloads of many figures have a table besides."""

    workload: str
    setting: str
    records: int
    seconds: float
    verified: bool | None
    latency_ms: dict[str, float] | None = None
    note: str = ""
    table: Table | None = None
    began_at: float | None = None
    """When what is counted began, so that it can be looked up what it cost."""

    def to_json(self) -> str:
        line: dict[str, Any] = {
            "system": "mainstay",
            "setting": self.setting,
            "workload": self.workload,
            "records": self.records,
            "seconds": self.seconds,
            "began_at": self.began_at,
            "records_per_s": self.records / self.seconds if self.seconds else 0.0,
            "latency_ms": self.latency_ms,
            "verified": self.verified,
            "note": self.note,
        }
        if self.table is not None:
            table = self.table
            line["table"] = {
                "title": table.title,
                "note": table.note,
                "columns": list(table.columns),
                "rows": table.rows,
            }
        return json.dumps(line)


def of_measurement(
    workload: str, setting: str, found: Measurement, note: str = "", *, factor: int = 1
) -> Result:
    """A result of one run; ``factor`` is how many records a row of its source holds."""
    window = found.window
    return Result(
        workload,
        setting,
        window.records * factor,
        window.seconds,
        found.is_right,
        found.latency_ms,
        note,
        began_at=window.first.triggered_at,
    )
