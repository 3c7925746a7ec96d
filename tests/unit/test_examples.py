"""The examples run, and what the README and the pages show of them is what is there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"

PRINTED = {
    "cdc_to_delta/job.py": "150 changes of 29 customers, 24 of them alive",
    "compiled/anomalies.py": "sensor 3: 71.5, usually 43.1 (40 sigma)",
    "compiled/fraud.py": "16:13 card 7: 510.00 scores 3.96",
    "compiled/sessions.py": "user 2: 11:00 4 clicks in 900 s, spent 12",
    "deduplication/job.py": "210 events came, 120 of them for the first time",
    "features/job.py": "{'favourite': 'garden', 'customers': 11",
    "fraud/job.py": "11:30:35 4929-1950 too many: 21.71 at Gift Cards",
    "leaderboard/job.py": "gold: Ada 545, Edsger 489, Barbara 427",
    "sensors/job.py": "08:44 pump-3: 63.0 °C, usually 46.8 (17 σ)",
    "sessions/job.py": "24 sessions are over, 12 bought",
    "browsing.py": "home at most 4 times",
    "connected_components.py": "finished",
    "enrichment.py": "waiting for a profile: {3: ['rug']}",
    "order_totals.py": "finished [",
    "page_rank.py": "home",
    "retries.py": "payment 3 of 500: declined at attempt 3",
    "tested_job/job.py": "[{'card': 'a', 'amount': 60}]",
    "upgrade.py": "converted state 'spending.total': int to long",
}
"""A line that each example prints."""


def blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def ran(program: str, folder: Path) -> str:
    """What an example prints."""
    command = [sys.executable, str(EXAMPLES / program)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("program", PRINTED)
def test_an_example_runs(program: str, tmp_path: Path) -> None:
    assert PRINTED[program] in ran(program, tmp_path)


def test_every_example_is_run_and_described() -> None:
    files = (path for path in EXAMPLES.rglob("*.py") if not path.name.startswith("test_"))
    programs = {str(path.relative_to(EXAMPLES)) for path in files}
    assert set(PRINTED) == programs
    described = (EXAMPLES / "README.md").read_text()
    assert [program for program in programs if f"({program})" not in described] == []


def folders() -> list[str]:
    return sorted(path.parent.name for path in EXAMPLES.glob("*/test_*.py"))


@pytest.mark.parametrize("folder", [name for name in folders() if name != "tested_job"])
def test_an_example_with_data_has_all_that_it_needs(folder: str) -> None:
    described = (EXAMPLES / folder / "README.md").read_text()
    for file in sorted((EXAMPLES / folder).rglob("*.*")):
        if "__pycache__" not in file.parts and file.name != "README.md":
            assert f"({file.relative_to(EXAMPLES / folder)})" in described, file
    assert re.search(rf"python examples/{folder}/\w+\.py", described)
    assert f"({folder}/README.md)" in (EXAMPLES / "README.md").read_text()


@pytest.mark.parametrize("folder", folders())
def test_the_tests_of_an_example_pass(folder: str) -> None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        f"examples/{folder}",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout


def test_the_refusal_of_an_upgrade_names_the_state(tmp_path: Path) -> None:
    assert "mistake: state 'spending.total' is in the snapshot" in ran("upgrade.py", tmp_path)


def test_the_first_job_of_the_readme_is_the_example() -> None:
    example = (ROOT / "examples" / "order_totals.py").read_text()
    assert example.endswith(blocks()[0])


def test_the_first_job_makes_sense_to_whoever_runs_it_again(tmp_path: Path) -> None:
    example = (ROOT / "examples" / "order_totals.py").read_text()
    longer = example.replace('("alice", 2)]', '("alice", 2), ("bob", 4)]')
    assert longer != example
    printed = []
    for number, program in enumerate([example, example, longer]):
        path = tmp_path / f"program_{number}.py"
        path.write_text(program)
        command = [sys.executable, str(path)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout)
    first, second, third = printed
    assert "('bob', 3)" in first
    assert "finished []\nfinished at epoch 1 on 2" in second
    assert "UTC; no new input since\n" in second
    assert "would be rows added at the end of those given to Rows" in second
    assert "finished [('bob', 7)]\n" in third


def test_the_messages_of_the_upgrade_are_those_of_the_readme(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text()
    (shown,) = re.findall(r"```\n(converted state.*?)```", readme, re.DOTALL)
    printed = ran("upgrade.py", tmp_path)
    for message in re.split(r"\n(?=added|\n)", shown):
        assert " ".join(message.split()) in printed


def test_the_page_on_testing_shows_the_tests_of_the_example() -> None:
    page = (ROOT / "docs" / "testing.md").read_text()
    (shown,) = re.findall(r"```python\n(import pytest.*?)```", page, re.DOTALL)
    example = (EXAMPLES / "tested_job" / "test_job.py").read_text()
    # On the page the job stands above its tests.
    assert example.replace("from examples.tested_job.job import PAYMENT, build\n", "").endswith(
        shown
    )
