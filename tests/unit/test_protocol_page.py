"""The page on the protocol names every planted bug, and nothing that does not exist."""

from __future__ import annotations

import re

from tests.pages import ROOT
from tests.simulation import (
    test_changed_programs,
    test_loops,
    test_rivals,
    test_started_again,
    test_stopping,
    test_terms,
    test_unaligned,
    test_watermarks,
)
from tests.simulation.external_mutations import MUTATIONS as EXTERNAL_MUTATIONS
from tests.simulation.mutations import MUTATIONS
from tests.simulation.prepared_mutations import MUTATIONS as PREPARED_MUTATIONS
from tests.simulation.version_mutations import MUTATIONS as VERSION_MUTATIONS

PAGE = (ROOT / "docs" / "protocol.md").read_text()
SUITES = (
    test_changed_programs,
    test_loops,
    test_rivals,
    test_started_again,
    test_stopping,
    test_terms,
    test_unaligned,
    test_watermarks,
)


def planted() -> set[str]:
    functions = {bug.__name__ for suite in SUITES for bug in suite.BUGS}
    planted = {*MUTATIONS, *EXTERNAL_MUTATIONS, *PREPARED_MUTATIONS, *VERSION_MUTATIONS}
    return planted | {name.replace("_", " ") for name in functions}


def named() -> set[str]:
    bugs = re.findall(r"^- Planted bugs?: (.+?)(?=\n\n|\n- |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    return {
        " ".join(name.split())
        for text in bugs
        for name in re.findall(r"\*\*(.+?)\*\*", text, re.DOTALL)
    }


def rules() -> dict[str, str]:
    """What is said under the heading of each rule."""
    parts = re.split(r"^### (.+)$", PAGE, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_planted_bug_is_named_on_the_page() -> None:
    assert planted() - named() == set()


def test_every_bug_that_the_page_names_is_planted() -> None:
    assert named() - planted() == set()


def test_every_rule_says_what_it_prevents_where_it_is_and_how_it_is_tested() -> None:
    for rule, text in rules().items():
        assert "- Without it: " in text, rule
        assert re.search(r"- Code: `", text), rule
        assert re.search(r"- (Planted bugs?: \*\*|Tests.*:\n  `tests/)", text), rule
