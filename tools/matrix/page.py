"""The results on the page of versions: ``python -m tools.matrix.page`` writes them into it."""

from __future__ import annotations

import re

from tools.matrix.results import FILE, Result, Results, packages, table
from tools.matrix.sparks import ROOT

PAGE = ROOT / "docs" / "versions.md"


def written(text: str, results: list[Result]) -> str:
    """The text of the page with both of its tables made anew."""
    for name, made in (("results", table(results)), ("packages", packages(results))):
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        parts = re.split(f"{begin}.*{end}", text, flags=re.DOTALL)
        assert len(parts) == 2, f"the page has no place, or two, for {name}"
        text = f"{begin}\n\n{made}\n{end}".join(parts)
    return text


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(), list(Results(FILE))))
