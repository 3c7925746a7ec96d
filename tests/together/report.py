"""What is printed at the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tests.together.sampling import Course


@dataclass
class Report:
    """All of a run. It is good if there are no differences."""

    seed: int
    minutes: float
    done: Mapping[str, int]
    skipped: Mapping[str, int]
    skipped_why: str | None
    figures: dict[str, str] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    answers: dict[str, Mapping[str, int]] = field(default_factory=dict)
    refusals: dict[str, Mapping[str, int]] = field(default_factory=dict)
    courses: list[Course] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)

    def text(self) -> str:
        return "\n".join(
            [
                f"seed {self.seed}, {self.minutes:.1f} minutes",
                *self._events(),
                *_table("figures", self.figures.items()),
                *_table("rows", self.rows.items()),
                *_table("answers", self._answers()),
                *_table("refusals", self._refusals()),
                *self._resources(),
                *_table("differences", ((str(n), d) for n, d in enumerate(self.differences, 1))),
                f"{len(self.differences) or 'no'} differences",
            ]
        )

    def _events(self) -> list[str]:
        kinds = sorted(self.done.keys() | self.skipped.keys())
        lines = [
            (kind, f"{self.done.get(kind, 0)} done, {self.skipped.get(kind, 0)} not")
            for kind in kinds
        ]
        why = [f"  the disk is left alone: {self.skipped_why}"] if self.skipped_why else []
        return [*_table(f"{sum(self.done.values())} events", lines), *why]

    def _answers(self) -> list[tuple[str, str]]:
        return [
            (name, ", ".join(f"{count} {level}" for level, count in sorted(counts.items())))
            for name, counts in self.answers.items()
        ]

    def _refusals(self) -> list[tuple[str, str]]:
        return [
            (name, f"{count} times {why}")
            for name, reasons in self.refusals.items()
            for why, count in reasons.items()
        ]

    def _resources(self) -> list[str]:
        head = f"  {'':32}{'unit':14}{'2nd quarter':>12}{'last quarter':>14}"
        lines = [
            f"  {each.name:32}{each.unit:14}{each.second:12.1f}{each.last:14.1f}"
            f"{'' if each.is_flat else '  GROWS'}"
            for each in self.courses
        ]
        return ["resources (medians of a process)", head, *lines] if lines else []


def _table(title: str, lines: Iterable[tuple[str, object]]) -> list[str]:
    rows = [f"  {name:32}{value}" for name, value in lines]
    return [title, *rows] if rows else []
