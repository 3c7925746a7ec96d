"""The documentation as a site: ``python -m tools.site`` builds it into ``site``.

Pages live where a reader of the repository looks for them. For the site they are gathered in one
tree: the pages of ``docs`` at its root, the README as its first page, and beside them the examples
and reports that they link to. Links are rewritten to what they meant.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parents[1]
GATHERED = "build/pages"
"""What ``docs_dir`` of mkdocs.yml names."""
BESIDE = (
    *("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE"),
    *("benchmarks/NOTES.md", "benchmarks/results/*.md", "benchmarks/results/*.svg"),
    *("examples/**/*", "deploy/**/*"),
)
"""What pages link to outside of ``docs``."""
LINK = re.compile(r"(?<=\]\()([^)\s]+)(?=\))")


def sources() -> Iterator[Path]:
    """Every file that belongs on the site."""
    for pattern in ("docs/**/*", *BESIDE):
        yield from (file for file in sorted(ROOT.glob(pattern)) if _belongs(file))


def _belongs(file: Path) -> bool:
    return file.is_file() and "__pycache__" not in file.parts and file.name != "token"


def place(file: PurePosixPath) -> PurePosixPath:
    """Where a file of the repository is on the site."""
    if file == PurePosixPath("README.md"):
        return PurePosixPath("index.md")
    if file == PurePosixPath("LICENSE"):
        return PurePosixPath("LICENSE.txt")
    return file.relative_to("docs") if file.parts[0] == "docs" else file


def rewritten(text: str, page: PurePosixPath) -> str:
    """The text of a page with its links as they are on the site."""
    here = place(page).parent

    def moved(link: re.Match[str]) -> str:
        parts = urlsplit(link[1])
        if parts.scheme or parts.netloc or not parts.path:
            return link[1]
        target = PurePosixPath(os.path.normpath(page.parent / parts.path))
        path = os.path.relpath(place(target), here)
        return path + (f"#{parts.fragment}" if parts.fragment else "")

    blocks = re.split(r"(^```.*?^```$)", text, flags=re.DOTALL | re.MULTILINE)
    return "".join(part if part.startswith("```") else LINK.sub(moved, part) for part in blocks)


def gather(target: Path) -> None:
    """Write the tree that the site is built from."""
    shutil.rmtree(target, ignore_errors=True)
    for file in sources():
        name = PurePosixPath(file.relative_to(ROOT).as_posix())
        to = target / place(name)
        to.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".md":
            to.write_text(rewritten(file.read_text(), name))
        else:
            shutil.copyfile(file, to)


def build(folder: Path = ROOT) -> Path:
    """Build the site below a folder; returns where it is."""
    gather(folder / GATHERED)
    config = folder / "mkdocs.yml"
    if folder != ROOT:
        shutil.copyfile(ROOT / "mkdocs.yml", config)
    command = [sys.executable, "-m", "zensical", "build", "--clean", "-f", str(config)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{done.stdout}\n{done.stderr}")
    return folder / "site"


if __name__ == "__main__":
    print(build() / "index.html")
