"""The site can be built; every link, image and anchor resolves, and every page can be found."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import yaml

from tests.pages import ROOT
from tools.site import build, gather, place, rewritten


class Page(HTMLParser):
    """What a page links to, and what can be linked to on it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = {""}
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.anchors |= {found[name] or "" for name in ("id", "name") if name in found}
        for name in ("href", "src"):
            if found.get(name):
                self.targets.append(str(found[name]))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("zensical")
    return build(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {file: Page(file.read_text()) for file in site.rglob("*.html")}


def file_of(path: Path) -> Path:
    return path / "index.html" if path.is_dir() else path


def broken(site: Path, pages: dict[Path, Page]) -> list[str]:
    """Each link that leads nowhere, with its page."""
    found = []
    for file, page in pages.items():
        if file.name == "404.html":
            continue  # its links are absolute, for a page that may be asked for anywhere
        for target in page.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc or target == ".":
                continue
            path = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            to = file_of(path)
            anchors = pages[to].anchors if to in pages else {""}
            if not to.is_file() or unquote(parts.fragment) not in anchors | {"__skip"}:
                found.append(f"{file.relative_to(site)}: {target}")
    return found


def test_every_link_image_and_anchor_of_the_site_resolves(
    site: Path, pages: dict[Path, Page]
) -> None:
    assert len(pages) > 40
    assert broken(site, pages) == []


def test_a_link_that_leads_nowhere_is_noticed(site: Path, pages: dict[Path, Page]) -> None:
    page = Page('<a href="nowhere/">x</a><img src="no.svg"><a href="#none">y</a>')
    assert len(broken(site, {**pages, site / "index.html": page})) >= 3


def listed(entries: Any) -> set[str]:
    """The pages of the navigation."""
    if isinstance(entries, str):
        return {entries}
    parts = entries.values() if isinstance(entries, dict) else entries
    return {page for part in parts for page in listed(part)}


def test_every_page_is_in_the_navigation() -> None:
    named = listed(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
    written = {
        str(place(PurePosixPath(file.relative_to(ROOT).as_posix())))
        for file in (ROOT / "docs").rglob("*.md")
    }
    assert written <= named
    assert "index.md" in named


def test_every_page_of_the_navigation_exists(tmp_path: Path) -> None:
    gather(tmp_path)
    named = listed(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
    assert {page for page in named if not (tmp_path / page).is_file()} == set()


def test_the_site_is_light_and_dark(site: Path) -> None:
    text = (site / "index.html").read_text()
    for scheme in ("light", "dark"):
        assert f"prefers-color-scheme: {scheme}" in text


@pytest.mark.parametrize(
    ("page", "link", "on_the_site"),
    [
        ("README.md", "docs/state.md#upgrades", "state.md#upgrades"),
        ("docs/modes.md", "../benchmarks/results/modes.svg", "benchmarks/results/modes.svg"),
        ("docs/architecture/rows.md", "../glossary.md", "../glossary.md"),
        ("docs/architecture/rows.md", "../../examples/README.md", "../examples/README.md"),
        ("examples/README.md", "../docs/writing.md", "../writing.md"),
        ("CONTRIBUTING.md", "docs/architecture.md", "architecture.md"),
        ("docs/state.md", "#types", "#types"),
        ("docs/state.md", "https://example.org/a", "https://example.org/a"),
    ],
)
def test_a_link_means_the_same_on_the_site(page: str, link: str, on_the_site: str) -> None:
    text = f"see [it]({link}).\n\n```\n[left]({link})\n```\n"
    moved = rewritten(text, PurePosixPath(page))
    assert f"[it]({on_the_site})" in moved
    assert f"[left]({link})" in moved
