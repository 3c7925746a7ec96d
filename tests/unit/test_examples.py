"""What the README shows is what runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def test_the_first_job_of_the_readme_is_the_example() -> None:
    example = (ROOT / "examples" / "order_totals.py").read_text()
    assert example.endswith(blocks()[0])


def test_the_first_job_runs_twice_in_one_directory(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "examples" / "order_totals.py")]
    for _ in range(2):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert "finished" in done.stdout


def test_the_test_of_the_readme_passes() -> None:
    done = subprocess.run(
        [sys.executable, "-c", blocks()[1]], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
