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


def test_the_test_of_the_readme_passes() -> None:
    done = subprocess.run(
        [sys.executable, "-c", blocks()[1]], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
