"""Makes ``docs/mistakes.md`` of the table: ``python -m tests.mistakes.page``."""

from __future__ import annotations

from pathlib import Path

from tests.mistakes.table import MISTAKES, Mistake

PAGE = Path(__file__).parents[2] / "docs" / "mistakes.md"

HEAD = """\
# When something goes wrong

What you see when a program has one of these mistakes, and what to do. Each of them is a test that
makes the mistake and reads this message; `…` stands for what differs from case to case. Messages of
jobs that are right and in trouble all the same are on another page,
[Troubleshooting](troubleshooting.md).

A mistake that can be seen in the program alone is an error before anything starts. Any other ends
the attempt. Embedded (`spark="embedded"`) the job ends with it, so that you see it at once; on
Spark it is tried again, as `Restart` says, unless no restart can heal it. Either way nothing is
lost: mend the program and start it again in the same directory with `restore="latest-or-new"`. It
goes on from the last complete epoch and counts every row once.

Tracebacks have your own frames alone. `MAINSTAY_TRACEBACKS=full` shows those of Mainstay as well.

This page is made by `python -m tests.mistakes.page`; change the table in `tests/mistakes`.
"""


def text() -> str:
    """The page as it should be."""
    parts = [HEAD]
    for title, mistakes in MISTAKES.items():
        lines = ["| mistake | message | what to do |", "|---|---|---|", *map(_row, mistakes)]
        parts.append(f"\n## {title}\n\n" + "\n".join(lines) + "\n")
    return "".join(parts)


def _row(mistake: Mistake) -> str:
    says = mistake.says.replace("|", "\\|")
    return f"| {mistake.name} | `{says}` | {mistake.remedy} |"


if __name__ == "__main__":
    PAGE.write_text(text())
