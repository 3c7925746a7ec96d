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
from tests.simulation.ended_mutations import MUTATIONS as ENDED_MUTATIONS
from tests.simulation.external_mutations import MUTATIONS as EXTERNAL_MUTATIONS
from tests.simulation.join_mutations import MUTATIONS as JOIN_MUTATIONS
from tests.simulation.mutations import MUTATIONS
from tests.simulation.pane_mutations import MUTATIONS as PANE_MUTATIONS
from tests.simulation.prepared_mutations import MUTATIONS as PREPARED_MUTATIONS
from tests.simulation.test_keeping import BUGS as KEEPING_BUGS
from tests.simulation.test_key_groups import MUTATIONS as KEY_GROUP_MUTATIONS
from tests.simulation.test_map_async import BUGS as CALL_BUGS
from tests.simulation.test_patterns import BUGS as PATTERN_BUGS
from tests.simulation.test_room import MUTATIONS as ROOM_MUTATIONS
from tests.simulation.test_sides import BUGS as SIDE_BUGS
from tests.simulation.test_sink_state import MUTATIONS as SINK_MUTATIONS
from tests.simulation.timer_mutations import MUTATIONS as TIMER_MUTATIONS
from tests.simulation.version_mutations import MUTATIONS as VERSION_MUTATIONS
from tests.windows.mutations import MUTATIONS as WINDOW_MUTATIONS
from tests.windows.session_bugs import BUGS as SESSION_BUGS

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
    planted |= {*SIDE_BUGS, *KEEPING_BUGS, *CALL_BUGS, *TIMER_MUTATIONS, *ENDED_MUTATIONS}
    planted |= {*WINDOW_MUTATIONS, *SESSION_BUGS, *JOIN_MUTATIONS, *PATTERN_BUGS}
    planted |= {*KEY_GROUP_MUTATIONS, *SINK_MUTATIONS, *PANE_MUTATIONS, *ROOM_MUTATIONS}
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
