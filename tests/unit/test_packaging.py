"""What an installation brings: extras, and the targets that the documents name."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOR_DEVELOPERS = {"dev", "bench", "all"}


def extras() -> dict[str, str]:
    project = (ROOT / "pyproject.toml").read_text()
    section = project.split("[project.optional-dependencies]")[1].split("\n[")[0]
    return dict(re.findall(r"^(\w+) = (\[.*?\]$)", section, re.MULTILINE | re.DOTALL))


def test_all_is_every_extra_that_a_job_can_use() -> None:
    found = extras()
    (listed,) = re.findall(r"mainstay\[([\w,]+)\]", found["all"])
    assert set(listed.split(",")) == set(found) - FOR_DEVELOPERS
    assert "mainstay[all]" in found["dev"]


def test_the_readme_installs_what_it_uses() -> None:
    assert "pip install -e '.[all]'" in (ROOT / "README.md").read_text()


def test_every_target_of_the_guide_is_in_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE):
        assert f"\n{target}:" in makefile, target
